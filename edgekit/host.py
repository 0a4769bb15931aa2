"""The cores of this machine, for the target `host`: read from the kernel, unknown where it does not say."""

import dataclasses
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path

from edgekit.spec.target import Cluster, Isa, TargetProfile

__all__ = ["clusters", "complete"]

_ARM_PARTS = {
    "0x41/0xd03": "Cortex-A53",
    "0x41/0xd05": "Cortex-A55",
    "0x41/0xd08": "Cortex-A72",
    "0x41/0xd0b": "Cortex-A76",
    "0x41/0xd0c": "Neoverse-N1",
    "0x41/0xd40": "Neoverse-V1",
    "0x41/0xd49": "Neoverse-N2",
    "0x41/0xd4f": "Neoverse-V2",
}
_FREQUENCY = "/sys/devices/system/cpu/cpu{}/cpufreq/cpuinfo_max_freq"
_KHZ_PER_GHZ = 1_000_000


def complete(target: TargetProfile) -> TargetProfile:
    """A target of kind `host` without cores -> the same with this machine's cores; any other is given back as it is."""
    if target.kind != "host" or target.cpu:
        return target
    found = clusters(_read("/proc/cpuinfo"), machine=platform.machine())
    arm = platform.machine() in ("aarch64", "arm64")
    # With dot product but without i8mm, ONNX Runtime's int8 kernels take fewer instructions on Arm than its uint8 ones.
    signed = arm and all(c.isa.dotprod and not c.isa.i8mm for c in found)
    return dataclasses.replace(
        target,
        cpu=found,
        onnx_activation_dtype="int8" if signed else target.onnx_activation_dtype,
        sources={**target.sources, "cpu": "/proc/cpuinfo and cpufreq of this machine"},
    )


def clusters(cpuinfo: str, *, machine: str) -> tuple[Cluster, ...]:
    """The text of /proc/cpuinfo -> equal cores together, the fastest first; one cluster of unknown cores if it is empty."""
    arm = machine in ("aarch64", "arm64")
    groups: dict[tuple[str, float | None, Isa], int] = {}
    for number, processor in enumerate(_processors(cpuinfo)):
        core = _arm_core(processor) if arm else processor.get("model name", machine)
        isa = _arm_isa(processor.get("Features", "")) if arm else _x86_isa(processor.get("flags", ""))
        group = (core, _max_ghz(processor.get("processor", str(number))), isa)
        groups[group] = groups.get(group, 0) + 1
    if not groups:
        unknown = Isa(machine or "unknown", None, None, None, None, None)
        return (Cluster(machine or "unknown", os.cpu_count() or 1, None, unknown),)
    found = [Cluster(core, count, ghz, isa) for (core, ghz, isa), count in groups.items()]
    return tuple(sorted(found, key=lambda cluster: -(cluster.max_ghz or 0.0)))


def _processors(cpuinfo: str) -> Iterator[Mapping[str, str]]:
    for block in cpuinfo.split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines() if ":" in line)
        fields = {name.strip(): value.strip() for name, _, value in pairs}
        if "processor" in fields:
            yield fields


def _arm_core(processor: Mapping[str, str]) -> str:
    part = f"{processor.get('CPU implementer', '?')}/{processor.get('CPU part', '?')}"
    return _ARM_PARTS.get(part, f"Arm core {part}")


def _arm_isa(features: str) -> Isa:
    has = set(features.split())
    arch = "v9.0" if "sve2" in has else "v8.2" if "asimdhp" in has else "v8.0"
    return Isa(arch, "asimddp" in has, "asimdhp" in has, "i8mm" in has, "bf16" in has, "sve2" in has)


def _x86_isa(flags: str) -> Isa:
    """The nearest of x86: VNNI is its dot product of bytes, AMX its matrix multiply."""
    has = set(flags.split())
    if not has:
        return Isa("x86-64", None, None, None, None, None)
    vnni = bool(has & {"avx512_vnni", "avx_vnni"})
    return Isa("x86-64", vnni, "avx512_fp16" in has, "amx_int8" in has, "avx512_bf16" in has, False)


def _max_ghz(processor: str) -> float | None:
    text = _read(_FREQUENCY.format(processor)).strip()
    return round(int(text) / _KHZ_PER_GHZ, 2) if text.isdigit() else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
