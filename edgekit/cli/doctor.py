"""`edgekit doctor`: what is installed against what was tested, which engines work, and the commands that mend it."""

import platform
import sys
from typing import Any

import click

from edgekit.cli.options import command as declare
from edgekit.cli.screen import Screen

__all__ = ["command"]

_LACKING = 4


@declare
@click.option("--strict", is_flag=True, help="Exit with 4 unless everything is installed in its tested version.")
def command(screen: Screen, *, strict: bool) -> int:
    """Compare what is installed with what was tested."""
    document = _examine()
    if screen.as_json:
        screen.document(document)
    else:
        _print(screen, document)
    return 0 if document["ok"] or not strict else _LACKING


def _examine() -> dict[str, Any]:
    import importlib.metadata

    from edgekit.build.store import default_root
    from edgekit.cli import toolchain

    constraints = toolchain.constraints_path()
    states = toolchain.package_states(toolchain.pins(constraints) if constraints else {})
    return {
        "ok": all(state.state == "ok" for state in states),
        "edgekit": importlib.metadata.version("edgekit"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "executable": sys.executable,
        "constraints": str(constraints) if constraints else None,
        "store": str(default_root()),
        "packages": [
            {
                "name": state.name,
                "extras": list(state.extras),
                "wanted": state.wanted,
                "installed": state.installed,
                "state": state.state,
                "fix": state.fix,
            }
            for state in states
        ],
        "engines": _engines(),
        "fixes": list(toolchain.fixes(states, constraints)),
    }


def _engines() -> list[dict[str, Any]]:
    from edgekit import catalog

    engines = [(name, catalog.find_engine(name)) for name in catalog.engine_names()]
    return [{"name": name, "version": engine.version(), "install": engine.INSTALL} for name, engine in engines]


def _print(screen: Screen, document: dict[str, Any]) -> None:
    screen.line(f"edgekit {document['edgekit']}, Python {document['python']}, {document['platform']}, {document['executable']}")
    screen.line(f"tested versions: {document['constraints'] or 'the list is not part of this installation'}")
    screen.line(f"store of finished stages: {document['store']}")
    screen.line()
    screen.table(
        ("package", "for", "tested", "installed", "state"),
        [
            (row["name"], ", ".join(row["extras"]), row["wanted"] or "any", row["installed"] or "-", row["state"])
            for row in document["packages"]
        ],
    )
    screen.table(
        ("engine", "version", "usable"),
        [
            (row["name"], row["version"] or "-", "yes" if row["version"] else f"no: {row['install']}")
            for row in document["engines"]
        ],
    )
    for fix in document["fixes"]:
        screen.line(f"to mend: {fix}")
    if not document["fixes"]:
        screen.line("everything is as tested")
