"""Write constraints.txt: the exact versions of all that edgekit[build,dev] needs, as installed in this environment.

Run it in an environment in which all tests pass: `.venv/bin/python tools/constraints.py`.
"""

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

_HEADER = """\
# Exact versions that the tests run with: pip install -c constraints.txt -e ".[build,dev]"
# Written by tools/constraints.py. CUDA libraries are left out: torch pins its own, and other platforms have none.
"""
_PINNED_BY_TORCH = re.compile(r"(nvidia|cuda)-|triton$")


def needed(requirement: Requirement, seen: set[tuple[str, str]]) -> Iterator[str]:
    """Names of the installed distributions that a requirement pulls in, itself included."""
    name = re.sub(r"[-_.]+", "-", requirement.name).lower()
    for extra in {"", *requirement.extras}:
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            return
        yield name
        for child in map(Requirement, requires):
            if child.marker is None or child.marker.evaluate({"extra": extra}):
                yield from needed(child, seen)


def main() -> None:
    """Write the file beside pyproject.toml."""
    names = set(needed(Requirement("edgekit[build,dev]"), set())) | {"uv"}
    pinned = sorted(name for name in names - {"edgekit"} if not _PINNED_BY_TORCH.match(name))
    lines = [f"{name}=={metadata.version(name)}\n" for name in pinned]
    Path(__file__).parent.parent.joinpath("constraints.txt").write_text(_HEADER + "".join(lines))


if __name__ == "__main__":
    main()
