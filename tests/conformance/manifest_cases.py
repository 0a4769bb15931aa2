"""Manifests, good and bad, as edits of `nano`, `tiny` and `text`."""

import copy
import json
from typing import Any

from ladder_cases import ladder_manifests
from manifest_case import BAD, ENTRY, GOLDEN, GONE, IMAGE, Case, good, rule, shape
from text_cases import text_cases

FLOAT = (("dtype", "float32"), ("scale", None), ("zero_point", None))


def cases(bases: dict[str, Any]) -> list[Case]:
    """All cases; `bases` are the manifests of `nano`, `tiny` and `text` as JSON values."""
    nano, tiny = bases["nano"], bases["tiny"]
    return [
        *_good(tiny),
        *_heads(),
        *_pieces(nano),
        *_paths(nano),
        *_ladder(nano, tiny),
        *_entries(nano, tiny),
        *_goldens(nano, tiny),
        *_raw(nano),
        *text_cases(bases["text"], nano),
        *ladder_manifests(tiny, bases["text"]),
    ]


def _good(tiny: Any) -> list[Case]:
    """What every reader takes."""
    return [
        good("nano", "one rung, one payload"),
        good("tiny", "two rungs, two payloads, every field", base="tiny"),
        good(
            "unknown-fields",
            "unknown fields are ignored",
            ("new", [1]),
            ("model.new", {}),
            (f"{IMAGE}.new", None),
            ("files.0.new", 1),
        ),
        good(
            "defaults",
            "fields with a default left out",
            ("rungs.0.continues", GONE),
            ("rungs.0.min_margin", GONE),
            ("model.license", GONE),
        ),
        good("no-labels", "classes without names", ("labels", None)),
        good(
            "integer-for-number",
            "a number may be written as an integer",
            ("preprocess.mean", [127, 127, 127]),
            (f"{IMAGE}.scale", 1),
        ),
        good(
            "new-engine",
            "a payload of an unknown engine and precision is not an error",
            ("payloads.0.engine", "new-engine"),
            ("payloads.0.precision", "w4a8"),
        ),
        good("no-provenance", "provenance may be empty", ("provenance", {})),
        good(
            "margin",
            "a margin, with a fraction, for two payloads of the same step",
            ("rungs.0.min_margin", 12.5),
            ("payloads.1", _litert_int8(tiny, scale=0.1)),
            base="tiny",
        ),
        good("nhwc", "channels last", (f"{IMAGE}.shape", [1, 2, 2, 3]), (f"{IMAGE}.layout", "NHWC")),
        good("uint8", "unsigned zero point", (f"{IMAGE}.dtype", "uint8"), (f"{IMAGE}.zero_point", 127)),
    ]


def _heads() -> list[Case]:
    """Format, model, target, preprocessing."""
    return [
        shape("format-0", "format 0", ("format", 0), error="bundle-format"),
        shape("format-2", "format of the future", ("format", 2), error="bundle-format"),
        shape("format-string", "format of another type", ("format", "1")),
        shape("format-true", "a flag is no number", ("format", True)),
        shape("format-missing", "no format", ("format", GONE)),
        shape("format-2-other-fields", "the format comes before all else", ("format", 2), ("rungs", GONE), error="bundle-format"),
        shape("no-files", "files missing", ("files", GONE)),
        shape("files-empty", "nothing listed", ("files", [])),
        shape(
            "classes-zero",
            "no class, and logits that are not counted",
            ("model.classes", 0),
            (f"{ENTRY}.outputs.0.layout", "NCHW"),
            (f"{ENTRY}.outputs.0.shape", [1, 3, 1, 1]),
            (f"{GOLDEN}.shape", [2, 3, 1, 1]),
        ),
        shape("target-name", "a target needs a name", ("target.name", "")),
        shape("target-engine", "engines are lower case", ("target.engines", ["ONNX"])),
        shape("std-length", "four deviations for three channels", ("preprocess.std", [1, 1, 1, 1])),
        shape("delegate-calls", "calls below 0", ("payloads.0.placement.delegate_calls", -1)),
        shape("classes-string", "a string for an integer", ("model.classes", "3")),
        shape("classes-null", "null for an integer", ("model.classes", None)),
        shape("name-empty", "a model needs a name", ("model.name", "")),
        shape("weights-digest", "not a digest", ("model.weights_sha256", "abc")),
        shape("labels-number", "labels is a path", ("labels", 3)),
        shape("provenance-number", "provenance holds strings", ("provenance.torch", 2)),
        shape("color", "unknown channel order", ("preprocess.color", "BGR")),
        shape("filter", "unknown filter", ("preprocess.filter", "lanczos")),
        shape("mean-length", "two means for three channels", ("preprocess.mean", [0, 0])),
        shape("std-zero", "division by zero", ("preprocess.std", [1, 0, 1])),
    ]


def _pieces(nano: Any) -> list[Case]:
    """Rungs, payloads, tensors, files."""
    file = nano["files"][0]
    return [
        shape("rungs-empty", "no rung", ("rungs", [])),
        shape(
            "rung-name",
            "a rung's name is lower case",
            *((path, "Low") for path in ("rungs.0.name", f"{ENTRY}.rung", f"{GOLDEN}.rung", "golden_inputs.0.rung")),
        ),
        shape("margin-negative", "margin below 0", ("rungs.0.min_margin", -1), base="tiny"),
        shape("resolution-zero", "no pixel", ("rungs.0.resolution_px", 0)),
        shape("continues-number", "a number for a flag", ("rungs.0.continues", 0)),
        shape("payloads-empty", "no payload", ("payloads", [])),
        shape("payload-id", "a payload's id is lower case", ("payloads.0.id", "A b")),
        shape("entries-empty", "no entry", ("payloads.1.entries", []), ("payloads.1.goldens", []), base="tiny"),
        shape("inputs-empty", "no input", (f"{ENTRY}.inputs", [])),
        shape("dtype", "unknown dtype", *((f"{IMAGE}.{k}", v) for k, v in {**dict(FLOAT), "dtype": "float64"}.items())),
        shape("layout", "unknown layout", (f"{IMAGE}.layout", "CHWN")),
        shape("dimension-zero", "an axis of length 0", (f"{IMAGE}.shape", [0, 3, 2, 2])),
        shape("scale-zero", "a step of nothing", (f"{IMAGE}.scale", 0)),
        shape("scale-negative", "a step back", (f"{IMAGE}.scale", -0.5)),
        shape("scale-null", "an integer tensor without scale", (f"{IMAGE}.scale", None)),
        shape("zero-point-missing", "an integer tensor without zero point", (f"{IMAGE}.zero_point", GONE)),
        shape("float-with-scale", "a float tensor with scale", ("payloads.1.entries.0.outputs.1.scale", 0.1), base="tiny"),
        shape("tolerance-negative", "tolerance below 0", (f"{GOLDEN}.tolerance", -1)),
        shape("golden-inputs-empty", "no golden inputs", ("golden_inputs", [])),
        shape("operator-count", "an operator that occurs 0 times", ("payloads.0.placement.operators.0.count", 0)),
        shape("sha256-upper-case", "digests are lower case", ("files.0.sha256", file["sha256"].upper())),
        shape("size-negative", "size below 0", ("files", [*nano["files"], {**file, "path": "extra.bin", "size_bytes": -1}])),
        shape(
            "size-large",
            "a size that float64 cannot count",
            ("files", [*nano["files"], {**file, "path": "extra.bin", "size_bytes": 2**53}]),
        ),
    ]


def _paths(nano: Any) -> list[Case]:
    """File names."""
    file = nano["files"][0]
    return [
        shape("path-parent", "a path that leaves the bundle", ("files.0.path", "../images.bin"), error="bundle-path"),
        shape("path-inner-parent", "a path that goes up inside", ("files.0.path", "a/../images.bin"), error="bundle-path"),
        shape("path-absolute", "an absolute path", ("files.0.path", "/images.bin"), error="bundle-path"),
        shape("path-drive", "a drive letter", ("files.0.path", "C:/images.bin"), error="bundle-path"),
        shape("path-backslash", "another separator", ("files.0.path", "a\\images.bin"), error="bundle-path"),
        shape("path-hidden", "a name that starts with a dot", ("files.0.path", ".images.bin"), error="bundle-path"),
        shape("path-empty-part", "two slashes", ("files.0.path", "a//images.bin"), error="bundle-path"),
        shape("path-long", "more than 200 characters", ("files.0.path", "a" * 201), error="bundle-path"),
        shape("path-unicode", "a name that is not ASCII", ("files.0.path", "bild\u00e4.bin"), error="bundle-path"),
        rule("path-reserved", "manifest.json is not listed", ("files.0.path", "manifest.json"), error="bundle-duplicate"),
        rule("path-twice", "a path twice", ("files", [*nano["files"], file]), error="bundle-duplicate"),
        rule(
            "path-case",
            "two paths that differ by case",
            ("files", [*nano["files"], {**file, "path": file["path"].upper()}]),
            error="bundle-duplicate",
        ),
        rule(
            "path-file-and-folder",
            "a file as folder",
            ("files", [*nano["files"], {**file, "path": "labels.txt/x"}]),
            error="bundle-duplicate",
        ),
    ]


def _ladder(nano: Any, tiny: Any) -> list[Case]:
    """Rules of the rungs."""
    return [
        rule("rung-twice", "rung names are unique", ("rungs", [*nano["rungs"], nano["rungs"][0]])),
        rule("rung-unserved", "no payload serves a rung", ("rungs", [*nano["rungs"], {**nano["rungs"][0], "name": "full"}])),
        rule("first-continues", "nothing to continue", ("rungs.0.continues", True)),
        rule("last-margin", "the last rung takes every answer", ("rungs.0.min_margin", 1)),
        rule("resize-small", "the crop is larger than the image", ("rungs.0.resize_px", 1)),
        rule(
            "margin-scales",
            "a margin counts steps, so steps must be equal",
            ("rungs.0.min_margin", 12),
            ("payloads.1", _litert_int8(tiny, scale=0.2)),
            base="tiny",
        ),
        rule("margin-float", "a margin for integers and floats at once", ("rungs.0.min_margin", 12), base="tiny"),
    ]


def _entries(nano: Any, tiny: Any) -> list[Case]:
    """Rules of payloads, entries and tensors."""
    payload = nano["payloads"][0]
    entry = payload["entries"][0]
    return [
        rule("payload-twice", "payload ids are unique", ("payloads", [payload, payload])),
        rule("entry-twice", "one entry for a rung", ("payloads.0.entries", [entry, entry])),
        rule("entry-rung", "an entry for no rung", (f"{ENTRY}.rung", "high")),
        rule("entry-file", "a payload that is not listed", (f"{ENTRY}.file", "payloads/other.bin")),
        rule("labels-file", "labels that are not listed", ("labels", "other.txt")),
        rule("table-missing", "an image entry without table", (f"{ENTRY}.pixel_table", None)),
        rule("table-size", "a table of another dtype", *((f"{IMAGE}.{k}", v) for k, v in FLOAT)),
        rule(
            "table-continues",
            "a table where no pixels come in",
            ("payloads.0.entries.1.pixel_table", "tables/int8.bin"),
            base="tiny",
        ),
        rule(
            "continues-alone",
            "a rung without the one it continues",
            ("payloads.1.entries", tiny["payloads"][1]["entries"][1:]),
            ("payloads.1.goldens", tiny["payloads"][1]["goldens"][1:]),
            base="tiny",
        ),
        rule("image-shape", "the image is not what the rung says", (f"{IMAGE}.shape", [1, 3, 4, 4])),
        rule("image-layout", "the shape is of the other layout", (f"{IMAGE}.layout", "NHWC")),
        rule("rank", "axes do not fit the layout", (f"{ENTRY}.outputs.0.layout", "NCHW")),
        rule("logits", "other number of logits than classes", ("model.classes", 4)),
        rule("zero-point-int8", "zero point outside int8", (f"{IMAGE}.zero_point", 128)),
        rule("zero-point-uint8", "zero point outside uint8", (f"{IMAGE}.dtype", "uint8")),
    ]


def _goldens(nano: Any, tiny: Any) -> list[Case]:
    """Rules of the proofs."""
    payload, golden_input = nano["payloads"][0], nano["golden_inputs"][0]
    return [
        rule("golden-rung", "goldens for no entry", (f"{GOLDEN}.rung", "full")),
        rule(
            "golden-missing",
            "goldens for one of two entries",
            ("payloads.0.goldens", tiny["payloads"][0]["goldens"][:1]),
            base="tiny",
        ),
        rule("golden-dtype", "goldens of another dtype", (f"{GOLDEN}.dtype", "uint8")),
        rule("golden-count", "more goldens than inputs", (f"{GOLDEN}.shape", [3, 3])),
        rule("golden-file", "goldens that are not listed", (f"{GOLDEN}.file", "goldens/none.bin")),
        rule("golden-size", "goldens of another size", ("files.1.size_bytes", 7)),
        rule("golden-input-shape", "golden images of another size", ("golden_inputs.0.shape", [2, 1, 4, 3])),
        rule("golden-input-size", "golden images of another number of bytes", ("files.0.size_bytes", 23)),
        rule("golden-input-twice", "two sets of golden images for a rung", ("golden_inputs", nano["golden_inputs"] * 2)),
        rule("golden-twice", "two goldens for an entry", ("payloads.0.goldens", payload["goldens"] * 2)),
        rule(
            "golden-input-rung",
            "golden images of a rung that takes none",
            ("golden_inputs", [golden_input, {**golden_input, "rung": "full"}]),
            base="tiny",
        ),
        Case("integer-with-fraction", "an integer is written without fraction", BAD, True, (("model.classes", 3.0),)),
    ]


def _raw(nano: Any) -> list[Case]:
    """Bytes that are no JSON, or JSON that two readers could read in two ways."""
    text = json.dumps(nano)

    def raw(name: str, why: str, data: bytes) -> Case:
        return Case(name, why, BAD, None, raw=data)

    return [
        raw("not-json", "no JSON at all", b"\x00\x01"),
        raw("empty", "no byte", b""),
        raw("cut", "cut off", text[:-5].encode()),
        raw("array", "not an object", b"[]"),
        raw("trailing", "something follows", text.encode() + b"{}"),
        raw("byte-order-mark", "a byte order mark", b"\xef\xbb\xbf" + text.encode()),
        raw("not-utf-8", "Latin-1", text.replace("random", "zuf\u00e4llig").encode("latin-1")),
        raw("name-twice", "a name twice in one object", text.replace('"task":', '"name": "other", "task":').encode()),
        raw("nan", "NaN is no JSON", text.replace('"tolerance": 2', '"tolerance": NaN').encode()),
        raw("infinity", "a number beyond float64", text.replace('"tolerance": 2', '"tolerance": 1e999').encode()),
        raw(
            "integer-long",
            "an integer of more than 18 digits",
            text.replace('"tolerance": 2', '"tolerance": 1' + "0" * 18).encode(),
        ),
    ]


def _litert_int8(tiny: Any, *, scale: float) -> Any:
    """A second integer payload, with another step of the logits."""
    values = copy.deepcopy(tiny["payloads"][0])
    values["id"], values["engine"] = "litert-int8", "litert"
    for entry in values["entries"]:
        entry["outputs"][0]["scale"] = scale
    return values
