"""The target: what is known of one device, each figure with its source. The file is docs/target-format.md."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgekit.spec import codec
from edgekit.spec.errors import InputError
from edgekit.spec.schema import apply_schema

__all__ = ["Cluster", "EnginePreference", "Isa", "TargetProfile", "figures", "load_target"]


@dataclass(frozen=True, slots=True)
class Isa:
    """Instruction set of a core: architecture such as `v8.2` or `x86-64`, and what it has; None is unknown."""

    arch: str
    dotprod: bool | None
    fp16: bool | None
    i8mm: bool | None
    bf16: bool | None
    sve2: bool | None


@dataclass(frozen=True, slots=True)
class Cluster:
    """Equal cores at one clock."""

    core: str
    count: int
    max_ghz: float | None
    isa: Isa


@dataclass(frozen=True, slots=True)
class EnginePreference:
    """An engine for this device.

    Attributes:
        engine: `executorch`, `litert` or `onnx`.
        delegate: who runs the network inside the engine, such as `XNNPACK`.
        precision_order: `int8`, `fp16`, `fp32`, the fastest first.
        reason: why this place in the order.
    """

    engine: str
    delegate: str
    precision_order: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class TargetProfile:
    """One device; an unknown figure is None.

    Attributes:
        name: unique name, also that of the file.
        soc: the maker's name of the chip; None for a host.
        aliases: other names a user may type.
        kind: `phone`, `board` or `host`.
        cpu: clusters, the fastest first; empty only for a host.
        memory_mb: memory of the smallest variant.
        android_api: API level at launch, and of the last update (None: unknown); None without Android.
        engines: in order of preference.
        onnx_activation_dtype: `int8` or `uint8`, whichever ONNX Runtime runs faster here.
        threads: default number of threads at run time.
        sources: field path or the start of one -> where the figure was read.
        default_precision: what is built if the user does not say.
        notes: what a user of this device should know.
    """

    name: str
    soc: str | None
    aliases: tuple[str, ...]
    kind: str
    cpu: tuple[Cluster, ...]
    memory_mb: int | None
    android_api: tuple[int, int | None] | None
    engines: tuple[EnginePreference, ...]
    onnx_activation_dtype: str
    threads: int
    sources: Mapping[str, str]
    default_precision: str = "int8"
    notes: tuple[str, ...] = ()


def load_target(path: Path) -> TargetProfile:
    """Read and check one target file.

    Raises:
        InputError: `target`; the file is missing, no YAML, breaks the schema, or has a figure without a source.
    """
    values = _load_yaml(path)

    def fail(what: str, where: str) -> InputError:
        return InputError(what, where=f"{path}: {where}", fix="see docs/target-format.md", code="target")

    profile = codec.from_json(TargetProfile, values, where="target", fail=fail, strict=True)
    apply_schema("target", values, where="target", fail=fail)
    if profile.name != path.stem:
        raise fail(f"name {profile.name!r} is not that of the file", "target.name")
    if not profile.cpu and profile.kind != "host":
        raise fail("no clusters", "target.cpu")
    if profile.android_api and profile.android_api[1] and profile.android_api[1] < profile.android_api[0]:
        raise fail("the last API level is below the first", "target.android_api")
    known = set(_paths(values))
    for figure in figures(profile):
        if not _prefixes(figure) & set(profile.sources):
            raise fail(f"no source for {figure}", "target.sources")
    for key in profile.sources:
        if key not in known:
            raise fail(f"source for {key!r}, which is no field of this target", "target.sources")
    return profile


def figures(profile: TargetProfile) -> tuple[str, ...]:
    """Paths of all figures that are known and so need a source."""
    found = []
    for i, cluster in enumerate(profile.cpu):
        found += [f"cpu[{i}].count", f"cpu[{i}].isa"]
        if cluster.max_ghz is not None:
            found.append(f"cpu[{i}].max_ghz")
    found += [name for name in ("memory_mb", "android_api") if getattr(profile, name) is not None]
    return tuple(found)


def _prefixes(figure: str) -> set[str]:
    """`cpu[0].isa` -> `cpu`, `cpu[0]`, `cpu[0].isa`, `cpu.isa`: the keys that cover it."""
    starts = {figure[: m.start()] for m in re.finditer(r"[.\[]", figure)} | {figure}
    return starts | {re.sub(r"\[\d+\]", "", start) for start in starts}


def _paths(values: Any, prefix: str = "") -> Iterator[str]:
    """Every path in a JSON tree, also without the indexes."""
    items: list[tuple[str, Any]] = []
    if isinstance(values, Mapping):
        items = [(f"{prefix}.{key}" if prefix else str(key), value) for key, value in values.items()]
    elif isinstance(values, list):
        items = [(f"{prefix}[{i}]", value) for i, value in enumerate(values)]
    for path, value in items:
        yield path
        yield re.sub(r"\[\d+\]", "", path)
        yield from _paths(value, path)


def _load_yaml(path: Path) -> Any:
    import yaml

    class UniqueLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Plain values only, and no key twice."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [key.value for key, _ in node.value]
            twice = next((k for k in keys if keys.count(k) > 1), None)
            if twice is not None:
                raise yaml.constructor.ConstructorError(None, None, f"key {twice!r} occurs twice", node.start_mark)
            return super().construct_mapping(node, deep=deep)

    try:
        text = path.read_text(encoding="utf-8")
        return yaml.load(text, Loader=UniqueLoader)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=str(path), fix="check the path", code="target") from error
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8", where=str(path), fix="save it as UTF-8", code="target") from error
    except yaml.YAMLError as error:
        what = " ".join(str(error).split())[:200]
        raise InputError(f"not YAML: {what}", where=str(path), fix="see docs/target-format.md", code="target") from error
