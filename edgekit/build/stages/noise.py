"""`noise`: a quantized program -> how clear its logits are, on photos that ranges are set on."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.facts import read_facts
from edgekit.build.photos import Photos
from edgekit.build.pipeline import Progress
from edgekit.build.stages.export import PROGRAM
from edgekit.build.stages.quantize import read_quantized

__all__ = ["Noise", "read_noise_db"]

FILE = "noise.json"


@dataclass(frozen=True, slots=True)
class Noise:
    """Hold the quantized program against the float one.

    Attributes:
        program: the float program.
        photos: those for calibration are used.
        limit: at most so many.
    """

    program: Artifact
    photos: Photos
    limit: int = 32

    name: ClassVar[str] = "noise"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "quantized"
    returns: ClassVar[str] = "report"
    tools: ClassVar[tuple[str, ...]] = ("torch", "torchao", "numpy", "pillow")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write `noise.json`: the signal-to-noise ratio of the logits in dB."""
        import torch

        from edgekit.build import programs
        from edgekit.build.quantize import signal_to_noise_db
        from edgekit.build.tensors import batches

        facts = read_facts(source.path)
        calibration, _ = self.photos.open()
        photos = torch.cat(list(batches(calibration.take(self.limit), facts)))
        progress(0.2, f"running {len(photos)} photos")
        with programs.one_thread():
            found = signal_to_noise_db(programs.load(self.program.path / PROGRAM), read_quantized(source.path), photos=photos)
        (out / FILE).write_text(json.dumps({"snr_db": round(found, 4)}) + "\n", encoding="utf-8")


def read_noise_db(folder: Path) -> float:
    """What the stage wrote."""
    return float(json.loads((folder / FILE).read_text(encoding="utf-8"))["snr_db"])
