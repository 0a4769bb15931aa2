"""`export`: a checkpoint -> a float program of `torch.export`, the hub from which every payload is lowered."""

import io
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.facts import Facts, read_facts, write_facts
from edgekit.build.network import Network
from edgekit.build.pipeline import Progress
from edgekit.build.user_code import FAILURES, first_line
from edgekit.spec.errors import InputError

__all__ = ["PROGRAM", "Export"]

PROGRAM = "program.pt2"

_PACKAGE = f"{Path(__file__).parents[2]}{os.sep}"
"""Our own code, wherever it is installed: a user's folder may be called edgekit too."""


@dataclass(frozen=True, slots=True)
class Export:
    """Trace the network for one image of a fixed size.

    Attributes:
        network: where it comes from.
        staged: with its early exits: every exit's answer and the features it looks at become outputs.
    """

    network: Network
    staged: bool = False

    name: ClassVar[str] = "export"
    version: ClassVar[int] = 2
    accepts: ClassVar[str] = "checkpoint"
    returns: ClassVar[str] = "program"
    tools: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "timm")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write `program.pt2`; `model.json` goes along."""
        import torch

        from edgekit.build import programs
        from edgekit.build.checkpoint import read_checkpoint
        from edgekit.build.ladder.exit_checkpoint import read_staged

        facts = read_facts(source.path)
        progress(0.1, "rebuilding the network")
        module = read_staged(source.path, self.network) if self.staged else read_checkpoint(source.path, self.network)
        progress(0.4, "tracing")
        image = torch.zeros(1, 3, facts.resolution_px, facts.resolution_px)
        try:
            with _quiet():
                program = torch.export.export(module.eval(), (image,), strict=False)
        except FAILURES as error:
            raise _not_traceable(error, facts, self.network) from error
        programs.save(program, out / PROGRAM)
        write_facts(out, facts)


@contextmanager
def _quiet() -> Iterator[None]:
    """What torch logs and prints of a failed trace is the graph so far; the error says where it stopped."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def _not_traceable(error: BaseException, facts: Facts, network: Network) -> InputError:
    # Behind the first sentence torch gives advice for its own developers.
    text = first_line(error).partition(" (")[0]
    return InputError(
        f"torch.export cannot trace {facts.name}: {type(error).__name__}: {text}",
        where=_source_line(error, network),
        fix="replace control flow on tensor values by torch.where, and Python numbers taken from tensors by tensors",
        code="trace",
    )


def _source_line(error: BaseException, network: Network) -> str:
    """The line of the user's code where tracing stopped: in the traceback, else in torch's message."""
    frames = []
    cause: BaseException | None = error
    while cause is not None:
        trace = cause.__traceback__
        while trace is not None:
            frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
            trace = trace.tb_next
        frames += [(name, int(line)) for name, line in re.findall(r'File "([^"]+)", line (\d+)', str(cause))]
        cause = cause.__cause__
    own = None if network.file is None else str(network.file.path.resolve())
    others = [f for f in frames if "site-packages" not in f[0] and not f[0].startswith(_PACKAGE)]
    mine = [f for f in frames if f[0] == own] or others
    return f"{mine[-1][0]}:{mine[-1][1]}" if mine else network.factory
