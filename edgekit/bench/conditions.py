"""What a figure depends on besides the bundle: processor, system, threads, versions."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

__all__ = ["conditions", "cpu_model"]


def conditions(*, threads: int, runs: int, engines: Mapping[str, str]) -> Mapping[str, str]:
    """-> names and values, all text, for a report.

    Args:
        threads: threads of each session.
        runs: rounds that were timed.
        engines: version of each engine that ran.
    """
    found = {
        "cpu": cpu_model(),
        "cpus": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "threads": str(threads),
        "runs": str(runs),
    }
    return MappingProxyType(found | {name: version for name, version in sorted(engines.items())})


def cpu_model() -> str:
    """The processor's name as Linux gives it, else as the platform module does; `unknown` where neither knows."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.is_file() else []
    for key in ("model name", "Hardware", "Model"):
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() == key and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown"
