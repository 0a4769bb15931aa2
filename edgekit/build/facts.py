"""What stages tell each other of the network beside its weights: `model.json` in checkpoint, program and quantized program."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

from edgekit.build.request import ModelSource
from edgekit.spec import codec
from edgekit.spec.errors import EdgekitError, SetupError, UnknownName
from edgekit.spec.manifest import Preprocess, Rung
from edgekit.spec.model import ModelSpec

__all__ = ["FILE", "TRAINED_ON", "Facts", "facts_of", "read_facts", "read_trained_on", "write_facts"]

FILE = "model.json"
TRAINED_ON = "trained_on.json"
"""Beside a delivered checkpoint: the digest of the photos, in parts, that it was trained, decided and reported on."""


@dataclass(frozen=True, slots=True)
class Facts:
    """A network's name, task and input.

    Attributes:
        name: of the model.
        task: such as `image-classification`.
        classes: outputs; 0 while unknown.
        resolution_px: side of the input.
        resize_px: shorter side of the resized image from which the input is cropped.
        filter: `bilinear` or `bicubic`.
        mean: per channel, in pixel units.
        std: per channel, in pixel units.
        labels: name of a label list, or None.
        weights: where they came from; `random` where nobody trained them.
        weights_sha256: digest of the weights' file; empty for random ones.
        license: of the weights.
        names: of the classes, where the data that the network was fitted to named them.
    """

    name: str
    task: str
    classes: int
    resolution_px: int
    resize_px: int
    filter: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    labels: str | None
    weights: str
    weights_sha256: str
    license: str
    names: tuple[str, ...] = ()

    @property
    def preprocess(self) -> Preprocess:
        """As the manifest says it."""
        return Preprocess("RGB", self.filter, self.mean, self.std)

    @property
    def rung(self) -> Rung:
        """The single rung of an uncut network."""
        return Rung("main", resolution_px=self.resolution_px, resize_px=self.resize_px)

    def uncropped(self) -> "Facts":
        """All of the shorter side in the input, as training shows it.

        Training crops and so enlarges what is seen; a centre crop of a resized photo enlarges it the same way (Touvron et al.,
        FixRes, arXiv 1906.06423), but throws its edges away. With mild training crops these are worth more: docs/compression.md.
        """
        return replace(self, resize_px=self.resolution_px)

    def at(self, resolution_px: int) -> "Facts":
        """For an input of another size that shows as much of the photo."""
        if resolution_px == self.resolution_px:
            return self
        # The small term undoes quotients such as 319.99999999999994, as in `ModelSpec.resize_px`.
        resize = math.floor(resolution_px * self.resize_px / self.resolution_px + 1e-6)
        return replace(self, resolution_px=resolution_px, resize_px=max(resolution_px, resize))

    def with_classes(self, classes: int) -> "Facts":
        """The number of outputs, once the network has shown it; a label list of another length is dropped."""
        if classes == self.classes:
            return self
        return replace(self, classes=classes, labels=None, names=())


def facts_of(source: ModelSource, *, resolution_px: int | None, weights: str, weights_sha256: str) -> Facts:
    """From the SPEC; for timm from its registry, which imports timm."""
    spec = source.spec or _timm_spec(source.factory)
    resolution = resolution_px or spec.resolution_px
    return Facts(
        name=source.name if source.spec else source.factory,
        task=spec.task,
        classes=spec.classes,
        resolution_px=resolution,
        resize_px=spec.resize_px(resolution),
        filter=spec.filter,
        mean=spec.mean,
        std=spec.std,
        labels=spec.labels,
        weights=weights,
        weights_sha256=weights_sha256,
        license=spec.license if weights_sha256 else "",
    )


def _timm_spec(name: str) -> ModelSpec:
    try:
        import timm
        from timm.data import resolve_data_config
    except ImportError as error:
        raise SetupError(f"timm is not installed: {error}", where=f"timm:{name}", fix="pip install timm torchvision") from error
    config = timm.get_pretrained_cfg(name)
    if config is None:
        raise UnknownName("model", name, timm.list_models(), listing='python -c "import timm; print(timm.list_models())"')
    data = resolve_data_config({}, pretrained_cfg=config.to_dict())
    return ModelSpec(
        name=name,
        family=Path(),
        task="image-classification",
        classes=config.num_classes,
        resolution_px=data["input_size"][1],
        mean=tuple(255 * m for m in data["mean"]),
        std=tuple(255 * s for s in data["std"]),
        labels="imagenet" if config.num_classes == 1000 else None,
        crop_fraction=data["crop_pct"],
        filter="bicubic" if data["interpolation"] == "bicubic" else "bilinear",
    )


def write_facts(folder: Path, facts: Facts) -> None:
    """Write `model.json`."""
    (folder / FILE).write_text(json.dumps(codec.to_json(facts), indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_facts(folder: Path) -> Facts:
    """Read `model.json`."""

    def fail(what: str, where: str) -> EdgekitError:
        return EdgekitError(what, where=where, fix="remove the store's entry", code="store")

    data = json.loads((folder / FILE).read_text(encoding="utf-8"))
    return codec.from_json(Facts, data, where=str(folder / FILE), fail=fail)


def read_trained_on(folder: Path) -> str | None:
    """Digest of the parts that a delivered checkpoint was trained on; None where it does not say."""
    path = folder / TRAINED_ON
    return str(json.loads(path.read_text(encoding="utf-8"))["splits"]) if path.is_file() else None
