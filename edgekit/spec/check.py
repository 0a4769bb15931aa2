"""What a manifest must fulfil beyond its types: the rules of bundle.schema.json and those that no schema can say.

A reader without a schema library relies on this. `tests/spec/test_agreement.py` holds it to the schema.
"""

import math
import re
from collections.abc import Mapping

from edgekit.spec import codec
from edgekit.spec.check_text import check_text
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
    from_json,
    refuse,
)
from edgekit.spec.names import MANIFEST, RESERVED, check_names
from edgekit.spec.rules import (
    DIMENSION_MAX,
    DTYPE_SIZE_BYTES,
    INTEGER_RANGE,
    LAYOUTS,
    SLUG,
    check_features,
    check_margins,
    check_placement,
    check_rung,
    check_tensor,
    require,
    require_listed,
    require_size,
    unique,
)

__all__ = ["CHANNELS", "DTYPE_SIZE_BYTES", "INTEGER_RANGE", "LAYOUTS", "PIXEL_VALUES", "check_manifest", "parse_manifest"]

CHANNELS = 3
PIXEL_VALUES = 256
COLORS = ("RGB",)
FILTERS = ("bilinear", "bicubic")
SHA256 = re.compile(r"[0-9a-f]{64}")


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
    require((manifest.preprocess is None) != (manifest.text is None), "not exactly one of preprocess and text", "manifest")
    if manifest.preprocess is not None:
        _check_preprocess(manifest.preprocess, where="manifest.preprocess")
    _check_rungs(manifest.rungs, reads_text=manifest.text is not None)
    sizes = _check_files(manifest)
    if manifest.text is not None:
        check_text(manifest, manifest.text, sizes)
        return
    inputs = _check_golden_inputs(manifest, sizes)
    unique((p.id for p in manifest.payloads), what="payload id", where="manifest.payloads")
    for i, payload in enumerate(manifest.payloads):
        _check_payload(payload, manifest, sizes, inputs, where=f"manifest.payloads[{i}]")
    check_margins(manifest)


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
        require(text != "", "an empty name", f"manifest.model.{field}")
    require(1 <= model.classes <= DIMENSION_MAX, f"{model.classes} classes", "manifest.model.classes")
    require(model.weights_sha256 == "" or SHA256.fullmatch(model.weights_sha256), "no SHA-256", "manifest.model.weights_sha256")
    require(manifest.target.name != "", "an empty name", "manifest.target.name")
    for i, engine in enumerate(manifest.target.engines):
        require(SLUG.fullmatch(engine), f"engine name {engine!r}", f"manifest.target.engines[{i}]")


def _check_preprocess(preprocess: Preprocess, *, where: str) -> None:
    require(preprocess.color in COLORS, f"unknown color order {preprocess.color!r}", f"{where}.color")
    require(preprocess.filter in FILTERS, f"unknown filter {preprocess.filter!r}", f"{where}.filter")
    require(len(preprocess.mean) == CHANNELS, f"{len(preprocess.mean)} values for {CHANNELS} channels", f"{where}.mean")
    require(len(preprocess.std) == CHANNELS, f"{len(preprocess.std)} values for {CHANNELS} channels", f"{where}.std")
    require(all(s > 0 for s in preprocess.std), "a deviation must be above 0", f"{where}.std")


def _check_rungs(rungs: tuple[Rung, ...], *, reads_text: bool) -> None:
    require(rungs, "no rung", "manifest.rungs")
    unique((r.name for r in rungs), what="rung", where="manifest.rungs")
    for i, rung in enumerate(rungs):
        where = f"manifest.rungs[{i}]"
        check_rung(rung, last=i == len(rungs) - 1, where=where)
        if reads_text:
            pixels = rung.resolution_px or rung.resize_px
            require(not pixels, "a rung that reads text has no pixels", f"{where}.resolution_px")
            continue
        require(1 <= rung.resolution_px <= DIMENSION_MAX, f"resolution {rung.resolution_px}", f"{where}.resolution_px")
        require(
            rung.resolution_px <= rung.resize_px <= DIMENSION_MAX,
            f"resize to {rung.resize_px} px does not cover a crop of {rung.resolution_px} px",
            f"{where}.resize_px",
        )
    require(not rungs[0].continues, "the first rung has nothing to continue", "manifest.rungs[0].continues")


def _check_files(manifest: Manifest) -> dict[str, int]:
    """All listed files: name -> size."""
    check_names([*RESERVED, *(f.path for f in manifest.files)], where="manifest.files")
    for i, file in enumerate(manifest.files):
        require(SHA256.fullmatch(file.sha256), f"no SHA-256: {file.sha256[:70]!r}", f"manifest.files[{i}].sha256")
        require(0 <= file.size_bytes < 2**53, f"size {file.size_bytes}", f"manifest.files[{i}].size_bytes")
    sizes = {f.path: f.size_bytes for f in manifest.files}
    if manifest.labels is not None:
        require_listed(manifest.labels, sizes, "manifest.labels")
    return sizes


def _check_golden_inputs(manifest: Manifest, sizes: Mapping[str, int]) -> dict[str, GoldenInputs]:
    """Golden inputs by rung; a rung that continues uses those of the rung where its walk began."""
    unique((g.rung for g in manifest.golden_inputs), what="golden inputs of rung", where="manifest.golden_inputs")
    rungs = {r.name: r for r in manifest.rungs}
    for i, golden in enumerate(manifest.golden_inputs):
        where = f"manifest.golden_inputs[{i}]"
        rung = rungs.get(golden.rung)
        require(rung is not None and not rung.continues, f"{golden.rung!r} is no rung that takes an image", f"{where}.rung")
        side = rung.resolution_px if rung else 0
        require(
            len(golden.shape) == 4 and golden.shape[0] >= 1 and golden.shape[1:] == (side, side, CHANNELS),
            f"shape {list(golden.shape)} is not [n, {side}, {side}, {CHANNELS}]",
            f"{where}.shape",
        )
        require_size(golden.file, math.prod(golden.shape), sizes, f"{where}.file")
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
        require(SLUG.fullmatch(text), f"name {text!r}", f"{where}.{field}")
    require(payload.entries, "no entry", f"{where}.entries")
    unique((e.rung for e in payload.entries), what="entry for rung", where=f"{where}.entries")
    entries = {e.rung: e for e in payload.entries}
    rungs = {r.name: r for r in manifest.rungs}
    for i, entry in enumerate(payload.entries):
        require(entry.rung in rungs, f"no rung {entry.rung!r}", f"{where}.entries[{i}].rung")
        _check_entry(entry, rungs[entry.rung], manifest.model.classes, sizes, where=f"{where}.entries[{i}]")
    for before, rung in zip(manifest.rungs, manifest.rungs[1:], strict=False):
        if not (rung.continues and rung.name in entries):
            continue
        require(before.name in entries, f"rung {rung.name!r} continues {before.name!r}, which has no entry", f"{where}.entries")
        check_features(entries[before.name], entries[rung.name].inputs, where=f"{where}.entries")
    unique((g.rung for g in payload.goldens), what="goldens of rung", where=f"{where}.goldens")
    require({g.rung for g in payload.goldens} == set(entries), "not one golden for each entry", f"{where}.goldens")
    for i, golden in enumerate(payload.goldens):
        _check_goldens(golden, entries[golden.rung], inputs, sizes, where=f"{where}.goldens[{i}]")
    check_placement(payload, where=where)


def _check_entry(entry: Entry, rung: Rung, classes: int, sizes: Mapping[str, int], *, where: str) -> None:
    require_listed(entry.file, sizes, f"{where}.file")
    for field, tensors in (("inputs", entry.inputs), ("outputs", entry.outputs)):
        require(tensors, f"no {field}", f"{where}.{field}")
        for i, tensor in enumerate(tensors):
            check_tensor(tensor, where=f"{where}.{field}[{i}]")
    first, logits = entry.inputs[0], entry.outputs[0]
    if logits.layout == "NC":
        require(logits.shape[1] == classes, f"{logits.shape[1]} logits for {classes} classes", f"{where}.outputs[0].shape")
    if rung.continues:
        require(entry.pixel_table is None, "a rung that continues takes no pixels", f"{where}.pixel_table")
        return
    side = rung.resolution_px
    wanted = {"NCHW": (CHANNELS, side, side), "NHWC": (side, side, CHANNELS)}.get(first.layout)
    require(first.shape[1:] == wanted, f"{first.layout} {list(first.shape)} is no {side} px image", f"{where}.inputs[0].shape")
    require(entry.pixel_table is not None, "no pixel table", f"{where}.pixel_table")
    size = CHANNELS * PIXEL_VALUES * DTYPE_SIZE_BYTES[first.dtype]
    require_size(entry.pixel_table or "", size, sizes, f"{where}.pixel_table")


def _check_goldens(
    golden: GoldenOutputs, entry: Entry, inputs: Mapping[str, GoldenInputs], sizes: Mapping[str, int], *, where: str
) -> None:
    output = entry.outputs[0]
    require(golden.rung in inputs, f"rung {golden.rung!r} has no golden inputs", f"{where}.rung")
    require(golden.dtype == output.dtype, f"dtype {golden.dtype!r}, but the entry gives {output.dtype!r}", f"{where}.dtype")
    shape = (inputs[golden.rung].shape[0], *output.shape[1:])
    require(golden.shape == shape, f"shape {list(golden.shape)} is not {list(shape)}", f"{where}.shape")
    require(golden.tolerance >= 0, f"tolerance {golden.tolerance} is below 0", f"{where}.tolerance")
    require_size(golden.file, math.prod(shape) * DTYPE_SIZE_BYTES[output.dtype], sizes, f"{where}.file")
