"""The command line. Commands parse and print; each lies in a module of its own, which is imported when it is called."""

import importlib
import sys
from collections.abc import Sequence

import click

from edgekit.cli.screen import Screen

__all__ = ["COMMANDS", "Commands", "group", "invoke", "main"]

COMMANDS = (
    ("build", "Quantize a network once and build a verified bundle for a device."),
    ("fit", "Train a network on labelled photos: fit, distil, prune."),
    ("run", "Run a bundle on an image."),
    ("verify", "Check a bundle on every engine here: hashes, goldens, accuracy, agreement."),
    ("inspect", "Show what a bundle holds: operators, delegates, sizes, provenance."),
    ("bench", "Measure a bundle on this machine."),
    ("targets", "List the devices, or show one."),
    ("models", "List the networks, or show one."),
    ("doctor", "Compare what is installed with what was tested."),
)
"""Names and one-line helps, here so that `--help` imports no command."""


class Commands(click.Group):
    """A group whose commands are `command` of `edgekit.cli.<name>`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of a user's day."""
        return [name for name, _ in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        found: click.Command = importlib.import_module(f"edgekit.cli.{cmd_name}").command
        return found

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest commands if there is none of that name."""
        name = args[0]
        if not name.startswith("-") and name not in self.list_commands(ctx):
            from edgekit.spec.errors import UnknownName

            raise UnknownName("command", name, self.list_commands(ctx), listing="edgekit --help")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS))


def _version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"edgekit {version('edgekit')}")
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks and what libraries print.")
def group() -> None:
    """From a PyTorch model and a device's name to a bundle that runs there.

    Every command takes --json: one document on stdout. Exit codes: 0 done, 2 wrong input, 3 goal not met, 4 the environment
    lacks something, 1 a fault of edgekit, 130 interrupted.
    """


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line -> its exit code. Errors are printed, never raised, except with `--debug`, which adds a traceback."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    screen = Screen(as_json="--json" in options, debug="--debug" in options)
    try:
        code = group.main(list(arguments) or ["--help"], prog_name="edgekit", standalone_mode=False, obj=screen)
    except BaseException as error:
        from edgekit.cli.failure import exit_code

        return exit_code(error, screen)
    return code if isinstance(code, int) else 0


def main() -> None:
    """Entry point of the `edgekit` script."""
    sys.exit(invoke(sys.argv[1:]))
