"""What a manifest must fulfil beyond its types: the rules of bundle.schema.json and those that no schema can say.

A reader without a schema library relies on this. `tests/spec/test_agreement.py` holds it to the schema.
"""

import math
import re
from collections.abc import Iterable, Mapping

from edgekit.spec import codec
from edgekit.spec.errors import BundleError
from edgekit.spec.manifest import (
    FORMAT,
    Entry,
    GoldenInputs,
    GoldenOutputs,
    Manifest,
    Payload,
    Preprocess,
    Rung,
    TensorSpec,
    from_json,
    refuse,
)
from edgekit.spec.names import MANIFEST, RESERVED, check_names

__all__ = ["CHANNELS", "DTYPE_SIZE_BYTES", "INTEGER_RANGE", "LAYOUTS", "PIXEL_VALUES", "check_manifest", "parse_manifest"]

CHANNELS = 3
PIXEL_VALUES = 256
DTYPE_SIZE_BYTES: Mapping[str, int] = {"int8": 1, "uint8": 1, "float16": 2, "float32": 4}
INTEGER_RANGE: Mapping[str, tuple[int, int]] = {"int8": (-128, 127), "uint8": (0, 255)}
LAYOUTS: Mapping[str, int] = {"NCHW": 4, "NHWC": 4, "NC": 2}
COLORS = ("RGB",)
FILTERS = ("bilinear", "bicubic")
SLUG = re.compile(r"[a-z0-9][a-z0-9._-]*")
SHA256 = re.compile(r"[0-9a-f]{64}")
DIMENSION_MAX = 2**31 - 1


def parse_manifest(data: bytes) -> Manifest:
    """The bytes of `manifest.json` -> the checked manifest.

    Raises:
        BundleError: `bundle-format`, `bundle-manifest`, `bundle-path` or `bundle-duplicate`.
    """
    values = codec.parse_json(data, where=MANIFEST, fail=refuse)
    # Another format may have other fields, so its number comes before all else.
    if isinstance(values, dict) and type(values.get("format")) is int:
        _check_format(values["format"])
    manifest = from_json(Manifest, values, where="manifest")
    check_manifest(manifest)
    return manifest


def check_manifest(manifest: Manifest) -> None:
    """Refuse a manifest that breaks a rule of docs/bundle-format.md.

    Raises:
        BundleError: `bundle-format`, `bundle-path`, `bundle-duplicate` or `bundle-manifest`, with the field's path.
    """
    _check_format(manifest.format)
    _check_head(manifest)
    _check_preprocess(manifest.preprocess, where="manifest.preprocess")
    _check_rungs(manifest.rungs)
    sizes = _check_files(manifest)
    inputs = _check_golden_inputs(manifest, sizes)
    _unique((p.id for p in manifest.payloads), what="payload id", where="manifest.payloads")
    for i, payload in enumerate(manifest.payloads):
        _check_payload(payload, manifest, sizes, inputs, where=f"manifest.payloads[{i}]")
    _check_margins(manifest)


def _check_format(number: int) -> None:
    if number != FORMAT:
        raise BundleError(
            f"unknown bundle format {number}",
            where="manifest.format",
            fix=f"this edgekit reads format {FORMAT}; update edgekit or build the bundle again",
            code="bundle-format",
        )


def _check_head(manifest: Manifest) -> None:
    model = manifest.model
    for field, text in (("name", model.name), ("task", model.task)):
        _require(text != "", "an empty name", f"manifest.model.{field}")
    _require(1 <= model.classes <= DIMENSION_MAX, f"{model.classes} classes", "manifest.model.classes")
    _require(model.weights_sha256 == "" or SHA256.fullmatch(model.weights_sha256), "no SHA-256", "manifest.model.weights_sha256")
    _require(manifest.target.name != "", "an empty name", "manifest.target.name")
    for i, engine in enumerate(manifest.target.engines):
        _require(SLUG.fullmatch(engine), f"engine name {engine!r}", f"manifest.target.engines[{i}]")


def _check_preprocess(preprocess: Preprocess, *, where: str) -> None:
    _require(preprocess.color in COLORS, f"unknown color order {preprocess.color!r}", f"{where}.color")
    _require(preprocess.filter in FILTERS, f"unknown filter {preprocess.filter!r}", f"{where}.filter")
    _require(len(preprocess.mean) == CHANNELS, f"{len(preprocess.mean)} values for {CHANNELS} channels", f"{where}.mean")
    _require(len(preprocess.std) == CHANNELS, f"{len(preprocess.std)} values for {CHANNELS} channels", f"{where}.std")
    _require(all(s > 0 for s in preprocess.std), "a deviation must be above 0", f"{where}.std")


def _check_rungs(rungs: tuple[Rung, ...]) -> None:
    _require(rungs, "no rung", "manifest.rungs")
    _unique((r.name for r in rungs), what="rung", where="manifest.rungs")
    for i, rung in enumerate(rungs):
        where = f"manifest.rungs[{i}]"
        _require(SLUG.fullmatch(rung.name), f"rung name {rung.name!r}", f"{where}.name")
        _require(1 <= rung.resolution_px <= DIMENSION_MAX, f"resolution {rung.resolution_px}", f"{where}.resolution_px")
        _require(
            rung.resolution_px <= rung.resize_px <= DIMENSION_MAX,
            f"resize to {rung.resize_px} px does not cover a crop of {rung.resolution_px} px",
            f"{where}.resize_px",
        )
        _require(rung.min_margin >= 0, f"margin {rung.min_margin} is below 0", f"{where}.min_margin")
    _require(not rungs[0].continues, "the first rung has nothing to continue", "manifest.rungs[0].continues")
    _require(rungs[-1].min_margin == 0, "the last rung must take every answer: 0", f"manifest.rungs[{len(rungs) - 1}].min_margin")


def _check_files(manifest: Manifest) -> dict[str, int]:
    """All listed files: name -> size."""
    check_names([*RESERVED, *(f.path for f in manifest.files)], where="manifest.files")
    for i, file in enumerate(manifest.files):
        _require(SHA256.fullmatch(file.sha256), f"no SHA-256: {file.sha256[:70]!r}", f"manifest.files[{i}].sha256")
        _require(0 <= file.size_bytes < 2**53, f"size {file.size_bytes}", f"manifest.files[{i}].size_bytes")
    sizes = {f.path: f.size_bytes for f in manifest.files}
    if manifest.labels is not None:
        _require_listed(manifest.labels, sizes, "manifest.labels")
    return sizes


def _check_golden_inputs(manifest: Manifest, sizes: Mapping[str, int]) -> dict[str, GoldenInputs]:
    """Golden inputs by rung; a rung that continues uses those of the rung where its walk began."""
    _unique((g.rung for g in manifest.golden_inputs), what="golden inputs of rung", where="manifest.golden_inputs")
    rungs = {r.name: r for r in manifest.rungs}
    for i, golden in enumerate(manifest.golden_inputs):
        where = f"manifest.golden_inputs[{i}]"
        rung = rungs.get(golden.rung)
        _require(rung is not None and not rung.continues, f"{golden.rung!r} is no rung that takes an image", f"{where}.rung")
        side = rung.resolution_px if rung else 0
        _require(
            len(golden.shape) == 4 and golden.shape[0] >= 1 and golden.shape[1:] == (side, side, CHANNELS),
            f"shape {list(golden.shape)} is not [n, {side}, {side}, {CHANNELS}]",
            f"{where}.shape",
        )
        _require_size(golden.file, math.prod(golden.shape), sizes, f"{where}.file")
    given = {g.rung: g for g in manifest.golden_inputs}
    found: dict[str, GoldenInputs] = {}
    start = manifest.rungs[0].name
    for rung in manifest.rungs:
        start = start if rung.continues else rung.name
        if start in given:
            found[rung.name] = given[start]
    return found


def _check_payload(
    payload: Payload, manifest: Manifest, sizes: Mapping[str, int], inputs: Mapping[str, GoldenInputs], *, where: str
) -> None:
    for field, text in (("id", payload.id), ("engine", payload.engine), ("precision", payload.precision)):
        _require(SLUG.fullmatch(text), f"name {text!r}", f"{where}.{field}")
    _require(payload.entries, "no entry", f"{where}.entries")
    _unique((e.rung for e in payload.entries), what="entry for rung", where=f"{where}.entries")
    entries = {e.rung: e for e in payload.entries}
    rungs = {r.name: r for r in manifest.rungs}
    for i, entry in enumerate(payload.entries):
        _require(entry.rung in rungs, f"no rung {entry.rung!r}", f"{where}.entries[{i}].rung")
        _check_entry(entry, rungs[entry.rung], manifest.model.classes, sizes, where=f"{where}.entries[{i}]")
    for before, rung in zip(manifest.rungs, manifest.rungs[1:], strict=False):
        lonely = rung.continues and rung.name in entries and before.name not in entries
        _require(not lonely, f"rung {rung.name!r} continues {before.name!r}, which has no entry", f"{where}.entries")
    _unique((g.rung for g in payload.goldens), what="goldens of rung", where=f"{where}.goldens")
    _require({g.rung for g in payload.goldens} == set(entries), "not one golden for each entry", f"{where}.goldens")
    for i, golden in enumerate(payload.goldens):
        _check_goldens(golden, entries[golden.rung], inputs, sizes, where=f"{where}.goldens[{i}]")
    placement = payload.placement
    calls = placement.delegate_calls
    _require(calls is None or 0 <= calls <= DIMENSION_MAX, f"{calls} calls", f"{where}.placement.delegate_calls")
    for i, count in enumerate(placement.operators):
        at = f"{where}.placement.operators[{i}]"
        _require(count.type != "" and 1 <= count.count <= DIMENSION_MAX, f"operator {count.type!r} x {count.count}", at)


def _check_entry(entry: Entry, rung: Rung, classes: int, sizes: Mapping[str, int], *, where: str) -> None:
    _require_listed(entry.file, sizes, f"{where}.file")
    for field, tensors in (("inputs", entry.inputs), ("outputs", entry.outputs)):
        _require(tensors, f"no {field}", f"{where}.{field}")
        for i, tensor in enumerate(tensors):
            _check_tensor(tensor, where=f"{where}.{field}[{i}]")
    first, logits = entry.inputs[0], entry.outputs[0]
    if logits.layout == "NC":
        _require(logits.shape[1] == classes, f"{logits.shape[1]} logits for {classes} classes", f"{where}.outputs[0].shape")
    if rung.continues:
        _require(entry.pixel_table is None, "a rung that continues takes no pixels", f"{where}.pixel_table")
        return
    side = rung.resolution_px
    wanted = {"NCHW": (CHANNELS, side, side), "NHWC": (side, side, CHANNELS)}.get(first.layout)
    _require(first.shape[1:] == wanted, f"{first.layout} {list(first.shape)} is no {side} px image", f"{where}.inputs[0].shape")
    _require(entry.pixel_table is not None, "no pixel table", f"{where}.pixel_table")
    size = CHANNELS * PIXEL_VALUES * DTYPE_SIZE_BYTES[first.dtype]
    _require_size(entry.pixel_table or "", size, sizes, f"{where}.pixel_table")


def _check_tensor(tensor: TensorSpec, *, where: str) -> None:
    _require(tensor.dtype in DTYPE_SIZE_BYTES, f"unknown dtype {tensor.dtype!r}", f"{where}.dtype")
    _require(tensor.layout in LAYOUTS, f"unknown layout {tensor.layout!r}", f"{where}.layout")
    fits = len(tensor.shape) == LAYOUTS[tensor.layout] and all(1 <= d <= DIMENSION_MAX for d in tensor.shape)
    _require(fits, f"shape {list(tensor.shape)} is no {tensor.layout}", f"{where}.shape")
    if tensor.dtype not in INTEGER_RANGE:
        plain = tensor.scale is None and tensor.zero_point is None
        _require(plain, f"a {tensor.dtype} tensor has no scale and zero point", f"{where}.scale")
        return
    _require(tensor.scale is not None and tensor.scale > 0, f"scale {tensor.scale} is not above 0", f"{where}.scale")
    low, high = INTEGER_RANGE[tensor.dtype]
    inside = tensor.zero_point is not None and low <= tensor.zero_point <= high
    _require(inside, f"zero point {tensor.zero_point} is no {tensor.dtype}", f"{where}.zero_point")


def _check_goldens(
    golden: GoldenOutputs, entry: Entry, inputs: Mapping[str, GoldenInputs], sizes: Mapping[str, int], *, where: str
) -> None:
    output = entry.outputs[0]
    _require(golden.rung in inputs, f"rung {golden.rung!r} has no golden inputs", f"{where}.rung")
    _require(golden.dtype == output.dtype, f"dtype {golden.dtype!r}, but the entry gives {output.dtype!r}", f"{where}.dtype")
    shape = (inputs[golden.rung].shape[0], *output.shape[1:])
    _require(golden.shape == shape, f"shape {list(golden.shape)} is not {list(shape)}", f"{where}.shape")
    _require(golden.tolerance >= 0, f"tolerance {golden.tolerance} is below 0", f"{where}.tolerance")
    _require_size(golden.file, math.prod(shape) * DTYPE_SIZE_BYTES[output.dtype], sizes, f"{where}.file")


def _check_margins(manifest: Manifest) -> None:
    """A margin counts steps of the logits (or logits, if they are floats), so all payloads of its rung must be alike."""
    for i, rung in enumerate(manifest.rungs):
        outputs = [e.outputs[0] for p in manifest.payloads for e in p.entries if e.rung == rung.name]
        _require(outputs, f"no payload serves rung {rung.name!r}", f"manifest.rungs[{i}]")
        if rung.min_margin > 0:
            alike = len({o.scale for o in outputs}) == 1
            _require(alike, "its payloads' logits differ in scale", f"manifest.rungs[{i}].min_margin")


def _require(ok: object, what: str, where: str) -> None:
    if not ok:
        raise refuse(what, where)


def _require_listed(name: str, sizes: Mapping[str, int], where: str) -> None:
    _require(name in sizes, f"file {name!r} is not listed in files", where)


def _require_size(name: str, size_bytes: int, sizes: Mapping[str, int], where: str) -> None:
    _require_listed(name, sizes, where)
    _require(sizes[name] == size_bytes, f"file {name!r} has {sizes[name]} bytes, not {size_bytes}", where)


def _unique(names: Iterable[str], *, what: str, where: str) -> None:
    seen: set[str] = set()
    for name in names:
        _require(name not in seen, f"{what} {name!r} occurs twice", where)
        seen.add(name)
