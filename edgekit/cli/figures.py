"""Figures as a person reads them; `-` for what is not known."""

__all__ = ["UNKNOWN", "milliseconds", "percent", "points", "size"]

UNKNOWN = "-"
_MB = 1_000_000
_KB = 1_000


def size(size_bytes: int) -> str:
    """Bytes -> kB or MB, decimal."""
    return f"{size_bytes / _MB:.2f} MB" if size_bytes >= _MB else f"{size_bytes / _KB:.1f} kB"


def percent(share: float | None) -> str:
    """0..1 -> per cent."""
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def points(drop_pp: float | None) -> str:
    """Percentage points, with sign."""
    return UNKNOWN if drop_pp is None else f"{drop_pp:+.2f}"


def milliseconds(latency_ms: float | None) -> str:
    """More digits than these no measurement holds."""
    if latency_ms is None:
        return UNKNOWN
    return f"{latency_ms:.2f} ms" if latency_ms >= 1 else f"{latency_ms:.3f} ms"
