"""ExecuTorch payloads on the runtime of the executorch wheel, which brings torch with it."""

import importlib
import mmap
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.runtime.engines import Tensor
from edgekit.runtime.engines.edges import (
    check_edges,
    count_types,
    installed_version,
    load_failure,
    missing_engine,
    no_such_method,
)
from edgekit.runtime.engines.pte import Plan, read_plans
from edgekit.runtime.engines.stderr import captured
from edgekit.spec.errors import SetupError
from edgekit.spec.manifest import Entry

__all__ = ["INSTALL", "NAME", "ExecutorchSession", "load", "version"]

NAME = "executorch"
INSTALL = "pip install executorch"

BACKENDS = {"XnnpackBackend": "XNNPACK"}
"""Registered names of backends -> the names that people use."""

SCALAR_TYPES = {0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64", 11: "bool"}
"""ExecuTorch's ScalarType numbers, as in its portable_type/scalar_type.h."""

_OPEN: "weakref.WeakSet[ExecutorchSession]" = weakref.WeakSet()
"""Mirrors a global of the engine: loaded methods point into its one thread pool, so it must not be replaced under them."""


class ExecutorchSession:
    """A loaded method of a `.pte`."""

    def __init__(self, program: Any, method: Any, plan: Plan, from_numpy: Any) -> None:
        """Wrap a loaded method of a program."""
        self._program = program
        names = sorted({BACKENDS.get(name, name) for name in plan.delegate_calls})
        self.delegate = "+".join([*names, "CPU"] if plan.kernel_calls else names) or "CPU"
        self.fallback = count_types(plan.kernel_calls)
        self._method = method
        self._from_numpy = from_numpy

    def run(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Inputs in dtype and shape of the entry -> outputs."""
        # The engine copies the inputs into its planned memory, and the outputs out of it (it would reuse that in the next call).
        outputs = self._method([self._from_numpy(value) for value in inputs])
        return tuple([value.numpy() for value in outputs])

    def also(self, path: Path, entry: Entry) -> "ExecutorchSession":
        """Another method of the same program; see `Session`."""
        return _load_method(path, entry, self._program, self._from_numpy)

    def close(self) -> None:
        """Free the method."""
        self._method = self._program = None
        _OPEN.discard(self)


def version() -> str | None:
    """Installed version of ExecuTorch; None also where its torch is missing."""
    if installed_version("torch", "torch") is None:
        return None
    return installed_version("executorch", "executorch")


def load(path: Path, entry: Entry, *, threads: int) -> ExecutorchSession:
    """Load a method of a `.pte`; see `Engine.load`."""
    bindings, torch = _bindings()
    _set_threads(bindings, threads)
    try:
        with captured() as printed:
            program = bindings._load_program(str(path), program_verification=bindings.Verification.InternalConsistency)
    except RuntimeError as error:
        raise load_failure(path, printed.last(default=error)) from error
    return _load_method(path, entry, program, torch.from_numpy)


def _load_method(path: Path, entry: Entry, program: Any, from_numpy: Any) -> ExecutorchSession:
    name = entry.method or "forward"
    plans = _plans(path)
    if name not in plans:
        raise no_such_method(path, name, plans)
    try:
        with captured() as printed:
            method = program.load_method(name)
    except RuntimeError as error:
        raise load_failure(path, printed.last(default=error)) from error
    meta = method.method_meta()
    check_edges(path, entry.inputs, _edges(meta.input_tensor_meta, meta.num_inputs()))
    check_edges(path, entry.outputs, _edges(meta.output_tensor_meta, meta.num_outputs()))
    session = ExecutorchSession(program, method, plans[name], from_numpy)
    _OPEN.add(session)
    return session


def _bindings() -> tuple[Any, Any]:
    try:
        with captured():
            torch = importlib.import_module("torch")
            # The extension itself: `executorch.runtime` would first import the exporter, which takes three times as long.
            bindings = importlib.import_module("executorch.extension.pybindings._C")
    except ImportError as error:
        raise missing_engine(NAME, INSTALL, error) from error
    return bindings, torch


def _plans(path: Path) -> dict[str, Plan]:
    try:
        # The plans lie before the segments with the weights: of a mapped file only their pages are read.
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return {plan.name: plan for plan in read_plans(data)}
    except (OSError, ValueError) as error:
        raise load_failure(path, error) from error


def _set_threads(bindings: Any, threads: int) -> None:
    with captured():
        current = bindings._threadpool_get_thread_count()
        if current == threads:
            return
        if len(_OPEN):
            raise SetupError(
                f"ExecuTorch has one thread pool for the whole process, with {current} threads now; {threads} are asked for",
                where="threads",
                fix=f"close the open model first, or use threads={current}",
                code="engine-threads",
            )
        bindings._unsafe_reset_threadpool(threads)


def _edges(tensor: Any, count: int) -> list[tuple[np.dtype[Any], tuple[int, ...]]]:
    infos = [tensor(index) for index in range(count)]
    return [(np.dtype(SCALAR_TYPES.get(info.dtype(), "object")), tuple(info.sizes())) for info in infos]
