"""Remembers which payload won the race on this machine.

One small file per verdict, so that processes never edit a file that another one reads. Losing the cache costs a race, no more.
"""

import contextlib
import dataclasses
import json
import os
import platform
import tempfile
from collections.abc import Mapping
from pathlib import Path

from edgekit.runtime.results import Refusal
from edgekit.spec.digest import canonical_json, sha256_bytes

__all__ = ["Verdict", "machine", "read_verdict", "usable_cpus", "verdict_key", "write_verdict"]

VERDICT_FORMAT = 1
"""Part of the key: a change of how engines are run or raced makes old verdicts worthless."""

CPU_FACTS = ("model name", "Hardware", "CPU part", "flags", "Features")
"""Lines of /proc/cpuinfo that tell one kind of core from another, on x86 and on Arm."""


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """The winner's payload id, and why the others were not taken."""

    payload: str
    refused: tuple[Refusal, ...]


def usable_cpus() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine() -> Mapping[str, str]:
    """What decides which engine is fastest here, apart from the engines."""
    facts: set[str] = set()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in CPU_FACTS:
                facts.add(value.strip())
    return {
        "cpus": str(usable_cpus()),
        "facts": sha256_bytes(canonical_json(sorted(facts))),
        "machine": platform.machine(),
        "system": platform.system(),
    }


def verdict_key(digest: str, *, payloads: tuple[str, ...], versions: Mapping[str, str | None], threads: int) -> str:
    """Name of the verdict on a choice between `payloads` of the bundle `digest`."""
    parts = {
        "digest": digest,
        "format": VERDICT_FORMAT,
        "machine": dict(machine()),
        "payloads": list(payloads),
        "threads": threads,
        "versions": dict(versions),
    }
    return sha256_bytes(canonical_json(parts))


def _folder() -> Path:
    root = os.environ.get("EDGEKIT_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "edgekit") / "verdicts"


def read_verdict(key: str) -> Verdict | None:
    """The verdict, None where there is none that can be read."""
    try:
        data = json.loads((_folder() / f"{key}.json").read_text(encoding="utf-8"))
        refused = tuple(Refusal(str(r["engine"]), str(r["why"]), str(r["precision"])) for r in data["refused"])
        return Verdict(str(data["payload"]), refused)
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):
        return None


def write_verdict(key: str, verdict: Verdict) -> None:
    """Keep a verdict; a cache that cannot be written is no reason to fail."""
    data = {"payload": verdict.payload, "refused": [dataclasses.asdict(refusal) for refusal in verdict.refused]}
    with contextlib.suppress(OSError, RuntimeError):
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".verdict-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(data, stream, indent=1)
            Path(temporary).replace(folder / f"{key}.json")
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
