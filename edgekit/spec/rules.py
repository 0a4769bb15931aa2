"""Rules of the manifest that images and texts share."""

import re
from collections.abc import Iterable, Mapping

from edgekit.spec.manifest import Entry, Manifest, Payload, Rung, TensorSpec, refuse

__all__ = [
    "DIMENSION_MAX",
    "DTYPE_SIZE_BYTES",
    "INTEGER_RANGE",
    "LAYOUTS",
    "SLUG",
    "check_features",
    "check_margins",
    "check_placement",
    "check_rung",
    "check_tensor",
    "require",
    "require_listed",
    "require_size",
    "unique",
]

DTYPE_SIZE_BYTES: Mapping[str, int] = {"int8": 1, "uint8": 1, "int32": 4, "int64": 8, "float16": 2, "float32": 4}
INTEGER_RANGE: Mapping[str, tuple[int, int]] = {"int8": (-128, 127), "uint8": (0, 255)}
LAYOUTS: Mapping[str, int] = {"NCHW": 4, "NHWC": 4, "NC": 2, "NT": 2, "TC": 2}
SLUG = re.compile(r"[a-z0-9][a-z0-9._-]*")
DIMENSION_MAX = 2**31 - 1


def check_rung(rung: Rung, *, last: bool, where: str) -> None:
    """Refuse a name or margins that cannot be."""
    require(SLUG.fullmatch(rung.name), f"rung name {rung.name!r}", f"{where}.name")
    require(rung.min_margin >= 0, f"margin {rung.min_margin} is below 0", f"{where}.min_margin")
    if last:
        require(rung.min_margin == 0, "the last rung must take every answer: 0", f"{where}.min_margin")
        require(rung.margins is None, "the last rung takes every answer", f"{where}.margins")
    if rung.margins is not None:
        accurate, fast = rung.margins.accurate, rung.margins.fast
        falls = accurate >= rung.min_margin >= fast >= 0
        require(falls, f"accurate {accurate}, {rung.min_margin}, fast {fast} do not fall to 0 at least", f"{where}.margins")


def check_features(before: Entry, taken: tuple[TensorSpec, ...], *, where: str) -> None:
    """Refuse a rung that takes other features than the one before it gives; their names may differ."""
    given = before.outputs[1:]
    require(given, f"rung {before.rung!r} gives no features to continue with", where)
    alike = [_without_name(t) for t in given] == [_without_name(t) for t in taken]
    require(alike, f"the features of rung {before.rung!r} are not what the rung after it takes", where)


def check_margins(manifest: Manifest) -> None:
    """A margin counts steps of the logits (or logits, if they are floats), so all payloads of its rung must be alike."""
    for i, rung in enumerate(manifest.rungs):
        outputs = [e.outputs[0] for p in manifest.payloads for e in p.entries if e.rung == rung.name]
        require(outputs, f"no payload serves rung {rung.name!r}", f"manifest.rungs[{i}]")
        if rung.enough("accurate") > 0:
            alike = len({o.scale for o in outputs}) == 1
            require(alike, "its payloads' logits differ in scale", f"manifest.rungs[{i}].min_margin")


def check_placement(payload: Payload, *, where: str) -> None:
    """Refuse counts that cannot be."""
    placement = payload.placement
    calls = placement.delegate_calls
    require(calls is None or 0 <= calls <= DIMENSION_MAX, f"{calls} calls", f"{where}.placement.delegate_calls")
    for i, count in enumerate(placement.operators):
        at = f"{where}.placement.operators[{i}]"
        require(count.type != "" and 1 <= count.count <= DIMENSION_MAX, f"operator {count.type!r} x {count.count}", at)


def check_tensor(tensor: TensorSpec, *, where: str) -> None:
    """Refuse a tensor whose dtype, layout, shape and scale do not go together."""
    require(tensor.dtype in DTYPE_SIZE_BYTES, f"unknown dtype {tensor.dtype!r}", f"{where}.dtype")
    require(tensor.layout in LAYOUTS, f"unknown layout {tensor.layout!r}", f"{where}.layout")
    fits = len(tensor.shape) == LAYOUTS[tensor.layout] and all(1 <= d <= DIMENSION_MAX for d in tensor.shape)
    require(fits, f"shape {list(tensor.shape)} is no {tensor.layout}", f"{where}.shape")
    if tensor.dtype not in INTEGER_RANGE:
        plain = tensor.scale is None and tensor.zero_point is None
        require(plain, f"a {tensor.dtype} tensor has no scale and zero point", f"{where}.scale")
        return
    require(tensor.scale is not None and tensor.scale > 0, f"scale {tensor.scale} is not above 0", f"{where}.scale")
    low, high = INTEGER_RANGE[tensor.dtype]
    inside = tensor.zero_point is not None and low <= tensor.zero_point <= high
    require(inside, f"zero point {tensor.zero_point} is no {tensor.dtype}", f"{where}.zero_point")


def require(ok: object, what: str, where: str) -> None:
    """Refuse unless `ok`.

    Raises:
        BundleError: `bundle-manifest`.
    """
    if not ok:
        raise refuse(what, where)


def require_listed(name: str, sizes: Mapping[str, int], where: str) -> None:
    """Refuse a file that `files` does not list."""
    require(name in sizes, f"file {name!r} is not listed in files", where)


def require_size(name: str, size_bytes: int, sizes: Mapping[str, int], where: str) -> None:
    """Refuse a file that is not listed with this size."""
    require_listed(name, sizes, where)
    require(sizes[name] == size_bytes, f"file {name!r} has {sizes[name]} bytes, not {size_bytes}", where)


def unique(names: Iterable[str], *, what: str, where: str) -> None:
    """Refuse a name that occurs twice."""
    seen: set[str] = set()
    for name in names:
        require(name not in seen, f"{what} {name!r} occurs twice", where)
        seen.add(name)


def _without_name(tensor: TensorSpec) -> tuple[object, ...]:
    return tensor.dtype, tensor.shape, tensor.layout, tensor.scale, tensor.zero_point
