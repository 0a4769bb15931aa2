"""What is installed against what was tested: `constraints.txt` and the requirements of edgekit's own extras."""

import importlib.metadata
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["EXTRAS", "PackageState", "constraints_path", "fixes", "package_states", "pins"]

EXTRAS = ("core", "build", "executorch", "litert", "onnx")
"""Groups of requirements, `core` for those that edgekit cannot do without."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


@dataclass(frozen=True, slots=True)
class PackageState:
    """One distribution.

    Attributes:
        name: as edgekit requires it.
        extras: groups that need it.
        wanted: the tested version; None if none is pinned.
        installed: None if it is not installed.
        state: `ok`, `missing` or `other version`.
        fix: the command that mends it; empty if nothing is to be done.
    """

    name: str
    extras: tuple[str, ...]
    wanted: str | None
    installed: str | None
    state: str
    fix: str


def constraints_path() -> Path | None:
    """The file of tested versions: of the checkout, or the copy inside an installed edgekit; None if there is neither."""
    package = Path(__file__).resolve().parents[1]
    places = (package / "_constraints.txt", package.parent / "constraints.txt")
    return next((path for path in places if path.is_file()), None)


def pins(path: Path) -> dict[str, str]:
    """`name==version` lines -> version by canonical name."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, equals, version = line.partition("#")[0].partition(";")[0].strip().partition("==")
        if equals:
            found[_canonical(name)] = version.strip()
    return found


def package_states(wanted: Mapping[str, str]) -> tuple[PackageState, ...]:
    """The state of every distribution that edgekit or one of its extras requires, in the order of `EXTRAS`."""
    groups: dict[str, list[str]] = {}
    names = {}
    for requirement in importlib.metadata.requires("edgekit") or ():
        extra = _EXTRA.search(requirement)
        group = extra.group(1) if extra else "core"
        match = _NAME.match(requirement)
        if match and group in EXTRAS:
            names[_canonical(match.group())] = match.group()
            groups.setdefault(_canonical(match.group()), []).append(group)
    order = sorted(groups, key=lambda name: (min(map(EXTRAS.index, groups[name])), name))
    return tuple(_state(names[name], tuple(groups[name]), wanted.get(name)) for name in order)


def fixes(states: Sequence[PackageState], constraints: Path | None) -> tuple[str, ...]:
    """The fewest commands that mend everything that is missing or of another version."""
    bad = [state for state in states if state.state != "ok"]
    commands = []
    for extra in ("build", "executorch", "litert", "onnx"):
        if any(extra in state.extras and state.state == "missing" for state in bad):
            pinned = f"-c {constraints} " if constraints else ""
            commands.append(f"pip install {pinned}'edgekit[{extra}]'")
        if commands:
            break
    other = [f"{state.name}=={state.wanted}" for state in bad if state.state == "other version"]
    if other:
        commands.append(f"pip install {' '.join(other)}")
    return tuple(commands)


def _state(name: str, extras: tuple[str, ...], wanted: str | None) -> PackageState:
    target = f"{name}=={wanted}" if wanted else name
    try:
        installed = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return PackageState(name, extras, wanted, None, "missing", f"pip install '{target}'")
    # A build such as 2.13.0+cpu is the tested version, built for another platform.
    same = wanted is None or installed.partition("+")[0] == wanted.partition("+")[0]
    return PackageState(
        name, extras, wanted, installed, "ok" if same else "other version", "" if same else f"pip install '{target}'"
    )


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
