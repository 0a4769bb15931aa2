"""Small stages and a program that runs them, for the tests of the store and the pipeline."""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from edgekit.build import pipeline
from edgekit.build.artifact import Artifact, Pinned
from edgekit.build.store import Store
from edgekit.spec.digest import sha256_tree


@dataclass(frozen=True, slots=True)
class Load:
    name: ClassVar[str] = "load"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "source"
    returns: ClassVar[str] = "checkpoint"
    text: str = "weights"

    def run(self, source, out, progress):
        progress(0.5, "reading")
        (out / "weights.txt").write_text(self.text)


@dataclass(frozen=True, slots=True)
class Quantize:
    name: ClassVar[str] = "quantize"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "quantized"
    tools: ClassVar[tuple[str, ...]] = ("numpy",)
    bits: int = 8
    data: Pinned | None = None

    def run(self, source, out, progress):
        (out / "sub").mkdir()
        (out / "sub" / "q.txt").write_text(f"{self.bits} {(source.path / 'weights.txt').read_text()}")


@dataclass(frozen=True, slots=True)
class Slow:
    """Writes half of its output, says so in a file, then waits until it is killed or the `go` file appears."""

    name: ClassVar[str] = "slow"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "quantized"
    returns: ClassVar[str] = "payload"

    def run(self, source, out, progress):
        signals = Path(os.environ["CHAIN_SIGNALS"])
        (out / "half").write_text("half")
        (signals / f"half-{os.getpid()}").touch()
        deadline = time.monotonic() + 60
        while not (signals / "go").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        (out / "whole").write_text("whole")


def source(folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source.txt").write_text("source")
    return Artifact("source", sha256_tree(folder), folder)


def main():
    root = Path(sys.argv[1])
    artifact, runs = pipeline.run(
        (Load(), Quantize(), Slow()),
        source(Path(sys.argv[2])),
        store=Store(root),
        observe=lambda event: print(event.kind, event.stage, flush=True),
    )
    print("RESULT", artifact.digest, ",".join(f"{r.name}:{r.cached}" for r in runs), flush=True)


if __name__ == "__main__":
    main()
