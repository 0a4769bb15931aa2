"""`train-quantized`: a float program -> the integers of a network that was trained with their rounding in place."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.facts import read_facts
from edgekit.build.photos import Photos
from edgekit.build.pipeline import Progress
from edgekit.build.recipe import Recipe
from edgekit.build.splits import Splits
from edgekit.build.stages.export import PROGRAM
from edgekit.build.stages.quantize import check_layers, write_quantized
from edgekit.build.training.plan import SoftLabels, Training

__all__ = ["HISTORY", "TrainQuantized"]

HISTORY = "history.json"

CALIBRATED = 0.15
"""Share of the time, as progress tells it; calibration and loading are over by then."""


@dataclass(frozen=True, slots=True)
class TrainQuantized:
    """Static INT8, calibrated on photos and trained on those to fit, with the float network as teacher.

    Attributes:
        photos: which photos set the ranges.
        splits: those to fit are learned from, those to tune decide which epoch was best; those to report on are not looked at.
        recipe: observer, equalisation and float layers; training takes the place of its other repairs.
        training: how long and how fast.
        soft: how much of the loss is the float network's; all of it where photos have no labels.
        learn_scales: whether scales of activations are trained too.
    """

    photos: Photos
    splits: Splits
    recipe: Recipe
    training: Training
    soft: SoftLabels
    learn_scales: bool = False

    name: ClassVar[str] = "train-quantized"
    version: ClassVar[int] = 2
    accepts: ClassVar[str] = "program"
    returns: ClassVar[str] = "quantized"
    tools: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "torchao", "numpy", "pillow")
    resumes: ClassVar[bool] = True

    def run(self, source: Artifact, out: Path, progress: Progress, *, resume: Path | None = None) -> None:
        """Write what `quantize` writes, and `history.json`."""
        from edgekit.build import programs
        from edgekit.build.qat import train_quantized
        from edgekit.build.tensors import batches
        from edgekit.build.training.lesson import Lesson
        from edgekit.build.training.record import entry

        facts = read_facts(source.path)
        program = programs.load(source.path / PROGRAM)
        check_layers(program, facts)
        progress(0.0, "opening the photos")
        calibration, _ = self.photos.open()
        parts = self.splits.open()
        labelled = all(part.labels is not None for part in (parts.fit, parts.tune))
        soft = self.soft if labelled else replace(self.soft, share=1.0)
        count = max(len(calibration), 1)
        quantized, trained = train_quantized(
            program,
            batches(calibration, facts),
            lesson=Lesson(parts.fit, parts.tune, facts, soft=soft),
            training=self.training,
            recipe=self.recipe,
            learn_scales=self.learn_scales,
            resume=resume,
            seen=lambda done: progress(CALIBRATED * done / count, f"calibrating on photo {done} of {count}"),
            progress=lambda done, note: progress(CALIBRATED + (0.95 - CALIBRATED) * done, note),
        )
        progress(0.95, "writing")
        write_quantized(quantized, out, source.path)
        told = {self.name: {**entry(trained, len(parts.fit)), "teacher": facts.name, "labels": labelled}}
        (out / HISTORY).write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", encoding="utf-8")
