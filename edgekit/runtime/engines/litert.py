"""TFLite payloads on the LiteRT interpreter, or on the older tflite_runtime where only that is installed."""

from collections import Counter
from collections.abc import Sequence
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
from edgekit.runtime.engines.stderr import captured
from edgekit.spec.manifest import Entry, OperatorCount

__all__ = ["INSTALL", "NAME", "LitertSession", "load", "operators", "version"]

NAME = "litert"
INSTALL = "pip install ai-edge-litert"


class LitertSession:
    """A loaded signature of a TFLite file."""

    def __init__(self, interpreter: Any, signature: str, entry: Entry) -> None:
        """Wrap an `Interpreter` whose tensors are allocated."""
        self.delegate, self.fallback = _placement(interpreter)
        self._interpreter = interpreter
        # A runner resizes and allocates in every call, and its mere existence blocks `invoke`; so it is the exception.
        self._runner = interpreter.get_signature_runner(signature) if signature else None
        if self._runner is None:
            inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
        else:
            inputs, outputs = _in_order(self._runner.get_input_details()), _in_order(self._runner.get_output_details())
            self._names = (tuple(name for name, _ in inputs), tuple(name for name, _ in outputs))
            inputs, outputs = [detail for _, detail in inputs], [detail for _, detail in outputs]
        self.edges = (_edges(inputs), _edges(outputs))
        self._inputs = tuple(detail["index"] for detail in inputs)
        self._outputs = tuple(detail["index"] for detail in outputs)[: len(entry.outputs)]

    def run(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Inputs in dtype and shape of the entry -> outputs."""
        if self._runner is not None:
            named = self._runner(**dict(zip(self._names[0], inputs, strict=True)))
            return tuple(named[name] for name in self._names[1])
        interpreter = self._interpreter
        for index, value in zip(self._inputs, inputs, strict=True):
            interpreter.set_tensor(index, value)
        interpreter.invoke()
        return tuple([interpreter.get_tensor(index) for index in self._outputs])

    def also(self, path: Path, entry: Entry) -> "LitertSession":
        """Another signature of the same interpreter; see `Session`."""
        return _session(self._interpreter, path, entry)

    def close(self) -> None:
        """Free the interpreter."""
        self._runner = None
        self._interpreter = None


def version() -> str | None:
    """Installed version of LiteRT, else of tflite_runtime."""
    return installed_version("ai_edge_litert", "ai-edge-litert") or installed_version("tflite_runtime", "tflite-runtime")


def load(path: Path, entry: Entry, *, threads: int) -> LitertSession:
    """Load a TFLite payload; see `Engine.load`."""
    interpreter_type = _interpreter_type()
    try:
        with captured():
            interpreter = interpreter_type(model_path=str(path), num_threads=threads)
            interpreter.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        raise load_failure(path, error) from error
    return _session(interpreter, path, entry)


def _session(interpreter: Any, path: Path, entry: Entry) -> LitertSession:
    session = LitertSession(interpreter, _signature_to_call(interpreter, path, entry.method), entry)
    check_edges(path, entry.inputs, session.edges[0])
    check_edges(path, entry.outputs, session.edges[1])
    return session


def _interpreter_type() -> Any:
    try:
        with captured():
            from ai_edge_litert.interpreter import Interpreter
    except ImportError as first:
        try:
            from tflite_runtime.interpreter import Interpreter
        except ImportError:
            raise missing_engine(NAME, INSTALL, first) from first
    return Interpreter


def _signature_to_call(interpreter: Any, path: Path, method: str) -> str:
    """Name of the signature to call through a runner; empty where the plain interpreter calls the same graph."""
    known = interpreter.get_signature_list()
    if method and method not in known:
        raise no_such_method(path, method, known)
    return method if method and len(known) > 1 else ""


def _in_order(details: dict[str, Any]) -> list[tuple[str, Any]]:
    # Signatures are maps; converters number the tensors in the order of the arguments.
    return sorted(details.items())


def _edges(details: Sequence[Any]) -> tuple[tuple[np.dtype[Any], tuple[int, ...]], ...]:
    return tuple((np.dtype(detail["dtype"]), tuple(int(side) for side in detail["shape"])) for detail in details)


def operators(path: Path) -> tuple[OperatorCount, ...]:
    """Operators of the first graph of a TFLite file as the interpreter sees them, and who takes them here.

    The dtype is that of the first result. Raises as `load` does.
    """
    try:
        with captured():
            interpreter = _interpreter_type()(model_path=str(path), num_threads=1)
            interpreter.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        raise load_failure(path, error) from error
    own, taken = _own_and_taken(interpreter._get_ops_details())
    counts = Counter(
        (op["op_name"], np.dtype(op["result_types"][0]).name if op["result_types"] else "", "XNNPACK" if i in taken else "")
        for i, op in own.items()
    )
    return tuple(OperatorCount(kind, dtype, n, delegate) for (kind, dtype, delegate), n in sorted(counts.items()))


def _placement(interpreter: Any) -> tuple[str, tuple[str, ...]]:
    """-> delegate in use, operators that it left to the interpreter."""
    try:
        details = interpreter._get_ops_details()
    except AttributeError:
        return "unknown", ()
    own, taken = _own_and_taken(details)
    left = count_types(op["op_name"] for index, op in own.items() if index not in taken)
    if len(own) == len(details):
        return "CPU", left
    # The only delegate that the wheel applies on its own is XNNPACK; others must be asked for, which this module does not.
    return ("XNNPACK+CPU" if left else "XNNPACK"), left


def _own_and_taken(details: Sequence[Any]) -> tuple[dict[int, Any], set[int]]:
    """-> the file's operators by index, and the indices of those that a delegate took.

    After delegation the interpreter lists the original operators and, behind them, one DELEGATE operator per part that was taken;
    the original ones between its inputs and outputs are those that it runs.
    """
    delegates = [op for op in details if op["op_name"] == "DELEGATE"]
    own = {int(op["index"]): op for op in details if op["op_name"] != "DELEGATE"}
    makers = {int(tensor): index for index, op in own.items() for tensor in op["outputs"]}
    taken: set[int] = set()
    for delegate in delegates:
        stop = {int(tensor) for tensor in delegate["inputs"]}
        wanted = [int(tensor) for tensor in delegate["outputs"]]
        while wanted:
            maker = makers.get(wanted.pop())
            if maker is not None and maker not in taken:
                taken.add(maker)
                wanted.extend(int(tensor) for tensor in own[maker]["inputs"] if int(tensor) not in stop)
    return own, taken
