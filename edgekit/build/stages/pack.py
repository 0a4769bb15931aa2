"""`pack`: payloads -> a bundle, with pixel tables, labels, golden vectors and provenance."""

import dataclasses
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from edgekit.build.artifact import Artifact
from edgekit.build.facts import Facts, read_facts
from edgekit.build.goldens import golden_images
from edgekit.build.likeness import INT8_TOLERANCE
from edgekit.build.photos import Photos
from edgekit.build.pipeline import Progress
from edgekit.build.stages.lower import read_payload
from edgekit.build.user_code import first_line
from edgekit.runtime import engines
from edgekit.runtime.pixels import apply_table, make_table
from edgekit.spec.bundle import write_bundle
from edgekit.spec.errors import GoalError, SetupError
from edgekit.spec.manifest import (
    FORMAT,
    Entry,
    GoldenInputs,
    GoldenOutputs,
    Manifest,
    ModelInfo,
    Payload,
    TargetInfo,
)

__all__ = ["TOLERANCE_STEPS", "Pack"]

TOLERANCE_STEPS = 2
"""Integer kernels of one engine round alike on one kind of core; another kind may differ by a step, rarely two."""

FLOAT_TOLERANCE = {"int8": INT8_TOLERANCE, "fp32": 1e-3, "fp16": 2e-2}
"""Share of the largest golden logit, where outputs are float."""

GOLDENS = "goldens/inputs.bin"


@dataclass(frozen=True, slots=True)
class Pack:
    """Assemble the bundle.

    Attributes:
        payloads: what the lowering stages made, in the order of preference.
        target: the device and its engines.
        photos: the golden photos are taken from those for judging.
        provenance: how the bundle came about.
        labels: one a class; empty if the classes have no names.
    """

    payloads: tuple[Artifact, ...]
    target: TargetInfo
    photos: Photos
    provenance: Mapping[str, str]
    labels: tuple[str, ...]

    name: ClassVar[str] = "pack"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "program"
    returns: ClassVar[str] = "bundle"
    tools: ClassVar[tuple[str, ...]] = ("numpy", "pillow", "executorch", "onnxruntime", "ai-edge-litert")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write the bundle's directory into `out`."""
        facts = read_facts(source.path)
        _, judging = self.photos.open()
        images = golden_images(judging, facts)
        contents: dict[str, bytes | Path] = {GOLDENS: images.tobytes()}
        payloads = []
        for index, artifact in enumerate(self.payloads):
            progress(0.1 + 0.8 * index / len(self.payloads), f"running golden vectors, {index + 1} of {len(self.payloads)}")
            payloads.append(_finish(read_payload(artifact.path), artifact.path, facts, images, contents))
        if self.labels:
            contents["labels.txt"] = "".join(f"{label}\n" for label in self.labels).encode()
        manifest = Manifest(
            format=FORMAT,
            model=ModelInfo(facts.name, facts.task, facts.classes, facts.weights, facts.weights_sha256, facts.license),
            target=self.target,
            preprocess=facts.preprocess,
            rungs=(facts.rung,),
            payloads=tuple(payloads),
            golden_inputs=(GoldenInputs(facts.rung.name, GOLDENS, images.shape),),
            labels="labels.txt" if self.labels else None,
            provenance=self.provenance,
            files=(),
        )
        with tempfile.TemporaryDirectory(dir=out.parent) as work:
            bundle = Path(work) / "bundle"
            write_bundle(manifest, contents, bundle)
            for item in sorted(bundle.iterdir()):
                item.rename(out / item.name)


def _finish(payload: Payload, folder: Path, facts: Facts, images: np.ndarray, contents: dict[str, bytes | Path]) -> Payload:
    """Add pixel table and golden outputs to a payload, and its files to `contents`."""
    (entry,) = payload.entries
    spec = entry.inputs[0]
    table = make_table(facts.preprocess, spec)
    # One table serves all payloads that quantize their input alike; the name says how.
    table_file = f"tables/{spec.dtype}{'' if spec.zero_point is None else f'-{spec.zero_point}'}.bin"
    contents[table_file] = table.tobytes()
    entry = dataclasses.replace(entry, pixel_table=table_file)
    file = folder / Path(entry.file).name
    suffixed = f"payloads/{payload.id}{file.suffix}"
    entry = dataclasses.replace(entry, file=suffixed)
    contents[suffixed] = file
    outputs = _run(payload.engine, file, entry, table, images)
    golden_file = f"goldens/{payload.id}.bin"
    contents[golden_file] = outputs.tobytes()
    floats = outputs.dtype.kind == "f"
    tolerance = FLOAT_TOLERANCE[payload.precision] * float(np.abs(outputs).max()) if floats else TOLERANCE_STEPS
    golden = GoldenOutputs(entry.rung, golden_file, str(outputs.dtype), outputs.shape, round(float(tolerance), 6))
    return dataclasses.replace(payload, entries=(entry,), goldens=(golden,))


def _run(engine: str, file: Path, entry: Entry, table: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Golden images through the very engine that the bundle is for -> (n, classes)."""
    module = engines.find(engine)
    if module.version() is None:
        raise SetupError(
            f"the engine {engine} is not installed, so its golden vectors cannot be made",
            where=engine,
            fix=module.INSTALL,
            code="engine-missing",
        )
    session = module.load(file, entry, threads=1)
    try:
        rows = [session.run(apply_table(image, table, layout=entry.inputs[0].layout))[0] for image in images]
    except RuntimeError as error:  # engines raise it for operators whose shapes they get wrong
        raise GoalError(
            f"{engine} cannot run its payload: {first_line(error)}",
            where=file.name,
            fix=f"leave {engine} out with --engines, or replace the operators that are unusual in this network",
            code="goldens",
        ) from error
    finally:
        session.close()
    return np.concatenate(rows)
