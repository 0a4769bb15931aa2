"""What the commands share: how they are declared, and the types of their arguments."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from edgekit.spec.errors import UnknownName

__all__ = [
    "BUNDLE",
    "MINUTES",
    "MODEL",
    "PERCENTAGE_POINTS",
    "PHOTOS",
    "POSITIVE",
    "SEED",
    "SHARE",
    "Lengths",
    "Milliseconds",
    "NameList",
    "Sides",
    "command",
    "engine_names",
    "flat",
    "lowering_names",
    "precision_names",
]

MODEL = "A name, path/file.py:FUNCTION, timm:NAME or hf:DIR."
BUNDLE = click.Path(exists=True, path_type=Path)
POSITIVE = click.IntRange(min=1)
PHOTOS = click.IntRange(1, 100_000)
MINUTES = click.FloatRange(0, 100_000, min_open=True)
SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
PERCENTAGE_POINTS = click.FloatRange(0, 100, min_open=True, max_open=True)
SEED = click.IntRange(0, 2**32 - 1)


def command(function: Callable[..., Any]) -> click.Command:
    """A function of a `Screen` and its options -> a command that also takes --json and --debug."""
    for option in (
        click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks and what libraries print."),
        click.option("--json", "as_json", is_flag=True, expose_value=False, help="Print one JSON document on stdout."),
    ):
        function = option(function)
    name = function.__module__.rpartition(".")[2]
    settings = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
    return click.command(name=name, context_settings=settings)(click.pass_obj(function))


class Milliseconds(click.FloatRange):
    """A positive number; click's own range lets NaN through."""

    def __init__(self) -> None:
        """A range that ends where nobody waits any more."""
        super().__init__(0, 1e9, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse and check."""
        number = float(super().convert(value, param, ctx))
        if number != number:
            self.fail(f"{value} is no number", param, ctx)
        return number


class Lengths(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """`16,32` -> `(16, 32)`: ascending lengths in tokens."""

    name = "list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Split and check."""
        if isinstance(value, tuple):
            return value
        try:
            lengths = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is no list of numbers, such as 16,32,64,128", param, ctx)
        if lengths[0] < 2 or list(lengths) != sorted(set(lengths)):
            self.fail(f"{value!r} does not ascend from at least 2", param, ctx)
        return lengths


class Sides(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """`128,224` -> `(128, 224)`: ascending sides in pixels, two at least."""

    name = "list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Split and check."""
        if isinstance(value, tuple):
            return value
        try:
            sides = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is no list of numbers, such as 128,224", param, ctx)
        if not 2 <= len(sides) <= 4 or sides[0] < 16 or sides[-1] > 4096 or list(sides) != sorted(set(sides)):
            self.fail(f"{value!r} is not two to four sides that ascend within 16 and 4096", param, ctx)
        return sides


class NameList(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """`a,b` -> `("a", "b")`; every name must be known."""

    name = "list"

    def __init__(self, kind: str, known: Callable[[], Iterable[str]]) -> None:
        """Take the kind of thing for messages and what gives the names that are right."""
        self.kind = kind
        self.known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Split and check.

        Raises:
            UnknownName: one of the names is not known.
        """
        if isinstance(value, tuple):
            return value
        names = tuple(name.strip() for name in str(value).split(",") if name.strip())
        known = tuple(self.known())
        for name in names:
            if name not in known:
                raise UnknownName(self.kind, name, known)
        if not names:
            self.fail(f"no {self.kind} given", param, ctx)
        return names


def flat(lists: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Names of all lists, each once, in the order given."""
    return tuple(dict.fromkeys(name for names in lists for name in names))


def engine_names() -> tuple[str, ...]:
    """Engines that may be asked for, those of third parties included."""
    from edgekit import catalog

    return catalog.engine_names()


def lowering_names() -> tuple[str, ...]:
    """Payload formats that may be asked for, those of third parties included."""
    from edgekit import catalog

    return catalog.lowering_names()


def precision_names() -> tuple[str, ...]:
    """What a payload may be built in."""
    from edgekit.build.request import TEXT_PRECISIONS

    return TEXT_PRECISIONS
