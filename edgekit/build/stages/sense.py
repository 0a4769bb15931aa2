"""`sense`: a float program -> what each layer costs when it alone is quantized."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.facts import read_facts
from edgekit.build.photos import Photos
from edgekit.build.pipeline import Progress
from edgekit.build.recipe import Recipe
from edgekit.build.sensitivity_rows import write_sensitivities
from edgekit.build.splits import Splits
from edgekit.build.stages.export import PROGRAM
from edgekit.build.stages.quantize import check_layers

__all__ = ["Sense"]


@dataclass(frozen=True, slots=True)
class Sense:
    """Measure the sensitivity of every convolution and linear layer.

    Attributes:
        photos: those for calibration set the scales.
        splits: those to tune are judged on; None takes the judging ones of `photos`.
        recipe: observer and equalisation.
        n: at most so many photos are judged on.
    """

    photos: Photos
    splits: Splits | None
    recipe: Recipe
    n: int = 128

    name: ClassVar[str] = "sense"
    version: ClassVar[int] = 2
    accepts: ClassVar[str] = "program"
    returns: ClassVar[str] = "report"
    tools: ClassVar[tuple[str, ...]] = ("torch", "torchao", "numpy", "pillow")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write `sensitivity.json`."""
        import torch

        from edgekit.build import programs
        from edgekit.build.quantize_dynamic import has_attention
        from edgekit.build.sensitivity import sensitivities
        from edgekit.build.sensitivity_dynamic import dynamic_sensitivities
        from edgekit.build.tensors import batches

        facts = read_facts(source.path)
        program = programs.load(source.path / PROGRAM)
        check_layers(program, facts)
        progress(0.0, "opening the photos")
        calibration, judging = self.photos.open()
        data = (judging if self.splits is None else self.splits.open().tune).take(self.n)
        photos = torch.cat(list(batches(data, facts)))

        def tell(done: float, note: str) -> None:
            progress(0.2 + 0.75 * done, note)

        if has_attention(program):
            rows = dynamic_sensitivities(program, photos, labels=data.labels, progress=tell)
        else:
            ranges = batches(calibration, facts)
            rows = sensitivities(program, ranges, photos, labels=data.labels, recipe=self.recipe, progress=tell)
        write_sensitivities(out, rows)
