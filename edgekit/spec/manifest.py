"""The manifest: what a bundle says of itself. `bundle.schema.json` is the law; these types are held to it by tests.

Readers ignore unknown fields and refuse an unknown `format`. Fields are never removed or redefined, defaults never change.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from edgekit.spec import codec
from edgekit.spec.codec import to_json
from edgekit.spec.errors import BundleError
from edgekit.spec.rungs import Margins, Rung

__all__ = [
    "FORMAT",
    "Entry",
    "FileEntry",
    "GoldenInputs",
    "GoldenOutputs",
    "Manifest",
    "Margins",
    "ModelInfo",
    "OperatorCount",
    "Payload",
    "Placement",
    "Preprocess",
    "Rung",
    "TargetInfo",
    "TensorSpec",
    "Text",
    "from_json",
    "refuse",
    "to_json",
]

FORMAT = 1
"""The format this code writes, and the only one it reads."""

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output tensor of an entry.

    Attributes:
        name: the tensor's name inside the payload; positional where the format has no names.
        dtype: `int8`, `uint8`, `int32`, `int64` (token ids), `float16` or `float32`.
        shape: static shape, batch first.
        layout: meaning of the axes: `NCHW`, `NHWC`, `NC`, `NT` (batch, token), or `TC` (token, channel) of one text.
        scale: real value of one step; None for a float tensor and for token ids.
        zero_point: the integer that stands for 0.0; None where scale is.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str
    scale: float | None = None
    zero_point: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A callable piece of a payload that serves one rung.

    Attributes:
        rung: name of the rung it serves.
        file: bundle path of the payload file that holds it.
        method: method (`.pte`) or signature (`.tflite`) to call; empty for ONNX.
        inputs: what it takes, in order: the image, or the features of the rung before. Of a text: token ids (1, n) or features,
            then keep (1, n), 1 for a token and 0 for padding.
        outputs: what it gives, in order; the first is the logits, or the embedding.
        pixel_table: bundle path of the (3, 256) table of `inputs[0].dtype` that turns a pixel into an input value.
    """

    rung: str
    file: str
    method: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    pixel_table: str | None = None

    @property
    def tokens(self) -> int:
        """Of a text: the bucket."""
        return self.inputs[-1].shape[-1]


@dataclasses.dataclass(frozen=True, slots=True)
class OperatorCount:
    """How many operators of one type and dtype a payload holds; `delegate` names who runs them, empty for the engine itself."""

    type: str
    dtype: str
    count: int
    delegate: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Where the builder saw the payload run: a contract that a runtime can hold an engine to.

    Attributes:
        delegate: delegate or execution provider that takes the network, such as `XNNPACK`.
        delegate_calls: calls of it per inference as serialized (ExecuTorch); None where the engine decides at load time.
        operators: operators as the engine's own tools read them back from the payload.
    """

    delegate: str
    delegate_calls: int | None
    operators: tuple[OperatorCount, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class GoldenOutputs:
    """Expected first outputs of one entry for all golden inputs of its rung.

    Attributes:
        rung: which rung's golden inputs were run.
        file: bundle path of raw little-endian values of `dtype`.
        dtype: dtype of the entry's first output.
        shape: (n, classes).
        tolerance: largest accepted difference: quantization steps for integer outputs, absolute for float ones.
        tokens: the bucket of a text network; None for images.
    """

    rung: str
    file: str
    dtype: str
    shape: tuple[int, ...]
    tolerance: float
    tokens: int | None = dataclasses.field(default=None, metadata=codec.UNWRITTEN)


@dataclasses.dataclass(frozen=True, slots=True)
class Payload:
    """One network in one format and precision.

    Attributes:
        id: unique in the bundle, `<engine>-<precision>`.
        engine: `executorch`, `litert` or `onnx`.
        precision: `int8`, `int8-weights`, `int8-static`, `fp16` or `fp32`.
        entries: one per rung; of a text network one per rung and bucket, ascending.
        placement: what ran where at build time.
        goldens: one per entry.
    """

    id: str
    engine: str
    precision: str
    entries: tuple[Entry, ...]
    placement: Placement
    goldens: tuple[GoldenOutputs, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class GoldenInputs:
    """Golden images of one rung: raw uint8 RGB pixels, after resize and crop, before the pixel table; or token ids of one bucket.

    Attributes:
        rung: the rung they belong to.
        file: bundle path of raw uint8 values; of texts, raw little-endian int32 ids, -1 for padding.
        shape: (n, height, width, 3); of texts (n, tokens).
    """

    rung: str
    file: str
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Preprocess:
    """From a decoded image to pixels; sizes are in the rung.

    Attributes:
        color: channel order that the network wants, `RGB`.
        filter: `bilinear` or `bicubic`, the fixed-point resize of docs/bundle-format.md.
        mean: per channel, in pixel units (0..255).
        std: per channel, in pixel units.
    """

    color: str
    filter: str
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """From a text to token ids: WordPiece, docs/bundle-format.md section 11.

    Attributes:
        tokenizer: bundle path of `tokenizer.json`, as the `tokenizers` library reads it.
        vocabulary: bundle path of `vocab.txt`: one token a line, its id is the number of the line, from 0.
        lower_case: whether letters are made small.
        strip_accents: whether accents are taken off.
        chinese_chars: whether CJK ideographs are words of their own.
        cls: id before every text.
        sep: id behind every text.
        pad: id of padding.
        unk: id of a word that cannot be cut into known pieces.
        max_tokens: longest sequence of ids, `cls` and `sep` included; the largest bucket.
        examples: bundle path of a JSON array of objects with `text` and `ids`: what a tokenizer must give, untruncated.
    """

    tokenizer: str
    vocabulary: str
    lower_case: bool
    strip_accents: bool
    chinese_chars: bool
    cls: int
    sep: int
    pad: int
    unk: int
    max_tokens: int
    examples: str


@dataclasses.dataclass(frozen=True, slots=True)
class ModelInfo:
    """The network: name, task, number of classes, and where its weights came from (empty digest: random weights).

    `task` is `image-classification`, `text-classification` or `sentence-embedding`, whose `classes` is the embedding's width.
    """

    name: str
    task: str
    classes: int
    weights: str
    weights_sha256: str
    license: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class TargetInfo:
    """The device it was built for, and its engines in order of preference."""

    name: str
    engines: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of the bundle: path with forward slashes, lower-case hexadecimal SHA-256, size."""

    path: str
    sha256: str
    size_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """All of `manifest.json`. `labels`: a bundle path, one UTF-8 label a line. Either `preprocess` or `text` is None."""

    format: int
    model: ModelInfo
    target: TargetInfo
    preprocess: Preprocess | None
    rungs: tuple[Rung, ...]
    payloads: tuple[Payload, ...]
    golden_inputs: tuple[GoldenInputs, ...]
    labels: str | None
    provenance: Mapping[str, str]
    files: tuple[FileEntry, ...]
    text: Text | None = dataclasses.field(default=None, metadata=codec.UNWRITTEN)


def from_json(cls: type[T], data: Any, *, where: str) -> T:
    """Plain JSON values -> dataclass `cls`; unknown fields are ignored.

    Raises:
        BundleError: a field is missing or has another type than the schema says; `where` leads to it.
    """
    return codec.from_json(cls, data, where=where, fail=refuse)


def refuse(what: str, where: str) -> BundleError:
    """The error for a manifest that does not follow the law."""
    return BundleError(what, where=where, fix="build or copy the bundle again", code="bundle-manifest")
