"""Networks whose channels cannot be followed: say which operator and which line."""

import copy
import os
import re
import traceback
from pathlib import Path

import torch
import torch_pruning
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from edgekit.build.user_code import FAILURES, first_line
from edgekit.spec.errors import InputError

__all__ = ["refuse_branches", "untraceable"]

_OURS = tuple(f"{Path(path).parent}{os.sep}" for path in (torch.__file__, torch_pruning.__file__, Path(__file__).parent))


def refuse_branches(module: nn.Module, image: torch.Tensor) -> None:
    """Refuse control flow on values: only the path that this image takes would be followed.

    Raises:
        InputError: `prune-trace`.
    """
    # Tensors without values: whatever looks at one fails. A copy, because a forward may keep what it computes.
    try:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
            copy.copy(module)(mode.from_tensor(image))
    except FAILURES as error:
        if type(error).__name__ in ("DataDependentOutputException", "DynamicOutputShapeException"):
            raise untraceable(error) from error


def untraceable(error: BaseException) -> InputError:
    """What stopped the tracing -> an error that names the operator and the line of the network's code."""
    text = first_line(error)
    operator = re.search(r"aten[.:]+(\w+)", text)
    names = {"_local_scalar_dense": "a Python number or condition taken from a tensor"}
    name = operator.group(1) if operator else ""
    what = names.get(name, f"operator {name}") if name else f"{type(error).__name__}: {text}"
    return InputError(
        f"the network's channels cannot be followed for pruning: {what}",
        where=_line(error),
        fix="leave --prune out, or replace that line: torch.where instead of `if`, x.shape[1] instead of a fixed number",
        code="prune-trace",
    )


def _line(error: BaseException) -> str:
    """The last line that is not of the libraries or of this package, as `file:line in function`."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_OURS)]
    return f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
