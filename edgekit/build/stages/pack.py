"""`pack`: payloads -> a bundle, with pixel tables, labels, golden vectors and provenance."""

import dataclasses
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.facts import Facts, read_facts
from edgekit.build.goldens import golden_images
from edgekit.build.packing import Contents, packed
from edgekit.build.photos import Photos
from edgekit.build.pipeline import Progress
from edgekit.build.stages.lower import read_payload
from edgekit.spec.bundle import write_bundle
from edgekit.spec.manifest import FORMAT, GoldenInputs, Manifest, ModelInfo, Rung, TargetInfo

__all__ = ["Pack"]


@dataclass(frozen=True, slots=True)
class Pack:
    """Assemble the bundle.

    Attributes:
        payloads: what the lowering stages made, in the order of preference.
        target: the device and its engines.
        photos: the golden photos are taken from those for judging.
        provenance: how the bundle came about.
        labels: one a class; empty if the classes have no names.
        rungs: of a ladder, one for each entry of the payloads; empty for the single rung of an uncut network.
    """

    payloads: tuple[Artifact, ...]
    target: TargetInfo
    photos: Photos
    provenance: Mapping[str, str]
    labels: tuple[str, ...]
    rungs: tuple[Rung, ...] = ()

    name: ClassVar[str] = "pack"
    version: ClassVar[int] = 2
    accepts: ClassVar[str] = "program"
    returns: ClassVar[str] = "bundle"
    tools: ClassVar[tuple[str, ...]] = ("numpy", "pillow", "executorch", "onnxruntime", "ai-edge-litert")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write the bundle's directory into `out`."""
        facts = read_facts(source.path)
        _, judging = self.photos.open()
        rungs = self.rungs or (facts.rung,)
        images = {rung.name: golden_images(judging, _at(facts, rung)) for rung in rungs if not rung.continues}
        files = {name: f"goldens/inputs{'' if len(rungs) == 1 else f'-{name}'}.bin" for name in images}
        contents: Contents = {files[name]: each.tobytes() for name, each in images.items()}
        payloads = []
        for index, artifact in enumerate(self.payloads):
            progress(0.1 + 0.8 * index / len(self.payloads), f"running golden vectors, {index + 1} of {len(self.payloads)}")
            payload = read_payload(artifact.path)
            payloads.append(packed(payload, artifact.path, rungs, facts.preprocess, images, contents))
        if self.labels:
            contents["labels.txt"] = "".join(f"{label}\n" for label in self.labels).encode()
        manifest = Manifest(
            format=FORMAT,
            model=ModelInfo(facts.name, facts.task, facts.classes, facts.weights, facts.weights_sha256, facts.license),
            target=self.target,
            preprocess=facts.preprocess,
            rungs=rungs,
            payloads=tuple(payloads),
            golden_inputs=tuple(GoldenInputs(name, files[name], each.shape) for name, each in images.items()),
            labels="labels.txt" if self.labels else None,
            provenance=self.provenance,
            files=(),
        )
        with tempfile.TemporaryDirectory(dir=out.parent) as work:
            bundle = Path(work) / "bundle"
            write_bundle(manifest, contents, bundle)
            for item in sorted(bundle.iterdir()):
                item.rename(out / item.name)


def _at(facts: Facts, rung: Rung) -> Facts:
    return dataclasses.replace(facts, resolution_px=rung.resolution_px, resize_px=rung.resize_px)
