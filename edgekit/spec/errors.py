"""The error tree. Every error says what is wrong, where, and the command or change that fixes it.

```
EdgekitError          exit 1   a fault of ours, or of a library we call
├── InputError        exit 2   wrong input: arguments, models, weights, data, bundles
│   ├── UnknownName            no such target, model, engine; names the nearest
│   └── BundleError            a bundle that must be refused: broken, tampered with, too new
├── GoalError         exit 3   the work is done but a goal or a gate is not met
└── SetupError        exit 4   the environment lacks an engine, a library, space or a permission
```
"""

import difflib
from collections.abc import Iterable

__all__ = ["BundleError", "EdgekitError", "GoalError", "InputError", "SetupError", "UnknownName"]


class EdgekitError(Exception):
    """Base of all errors that edgekit raises on purpose.

    Attributes:
        code: short stable slug for programs, such as `bundle-hash`; defaults to the class's own.
        what: what is wrong, with the offending value.
        where: file, option, layer or tensor where it was found.
        fix: the command or change that mends it.
        exit_code: what the command line exits with.
    """

    exit_code = 1
    default_code = "internal"

    def __init__(self, what: str, *, where: str = "", fix: str = "", code: str | None = None) -> None:
        """Keep the parts apart: the command line prints them as three lines or as JSON."""
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix
        self.code = code or self.default_code

    def __str__(self) -> str:
        """One line: what, where and fix."""
        parts = [self.what]
        if self.where:
            parts.append(f"at {self.where}")
        if self.fix:
            parts.append(f"fix: {self.fix}")
        return "; ".join(parts)

    def as_dict(self) -> dict[str, str]:
        """The object under `error` in `--json` output."""
        return {"code": self.code, "what": self.what, "where": self.where, "fix": self.fix}


class InputError(EdgekitError):
    """The user's arguments, model, weights, data or files are wrong."""

    exit_code = 2
    default_code = "input"


class UnknownName(InputError):  # noqa: N818 - it reads as a sentence where it is raised
    """A name that the catalog does not hold."""

    default_code = "unknown-name"

    def __init__(self, kind: str, name: str, known: Iterable[str], *, listing: str = "") -> None:
        """Name the nearest known names.

        Args:
            kind: what was looked up, such as `target`.
            name: what the user wrote.
            known: all names that would have been right.
            listing: command that lists them.
        """
        known = sorted(known)
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(known)}"
        fix = f"{hint} ({listing} lists all)" if listing else hint
        super().__init__(f"unknown {kind} {name!r}", where=f"{kind} name", fix=fix, code=f"unknown-{kind}")


class BundleError(InputError):
    """A bundle that must not be opened."""

    default_code = "bundle"


class GoalError(EdgekitError):
    """A goal that cannot be met, or a gate that the result does not pass."""

    exit_code = 3
    default_code = "goal"


class SetupError(EdgekitError):
    """The environment lacks something that the command needs."""

    exit_code = 4
    default_code = "setup"
