"""Peak memory of one payload, measured in a process of its own: in a shared one the largest hides all others."""

import resource
import subprocess
import sys
from pathlib import Path

from edgekit.spec.errors import EdgekitError

__all__ = ["peak_rss_mb"]

_RUNS = 3


def peak_rss_mb(bundle: Path, payload: str, *, threads: int, tokens: int | None = None) -> float:
    """Load a payload, run it a few times, give back the peak resident memory of that process in MB (10^6 bytes).

    Interpreter, numpy and the engine's libraries are included: that is what a program that uses the bundle pays.
    """
    command = [sys.executable, "-m", "edgekit.bench.memory", str(bundle), payload, str(threads), str(tokens or 0)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return float(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise EdgekitError(
            f"the process that measures memory failed: {last[0]}", where=f"{bundle}:{payload}", fix="edgekit verify the bundle"
        ) from None


def _own_peak_mb() -> float:
    """Of this process since its start. `ru_maxrss` will not do on Linux: it starts with what the parent had."""
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def _main(bundle: str, payload: str, threads: str, tokens: str) -> None:
    from edgekit.bench.lanes import open_lanes

    with open_lanes(Path(bundle), payloads=(payload,), threads=int(threads)) as opened:
        (loaded,) = opened.lanes
        lane = next(lane for lane in loaded.buckets() if (lane.tokens or 0) == int(tokens))
        for _ in range(_RUNS):
            lane.run()
    print(_own_peak_mb())


if __name__ == "__main__":
    _main(*sys.argv[1:])
