"""ONNX payloads on ONNX Runtime's CPU provider."""

from pathlib import Path
from typing import Any

import numpy as np

from edgekit.runtime.engines import Tensor
from edgekit.runtime.engines.edges import check_edges, installed_version, load_failure, missing_engine
from edgekit.runtime.engines.stderr import captured
from edgekit.spec.manifest import Entry

__all__ = ["INSTALL", "NAME", "OnnxSession", "load", "version"]

NAME = "onnx"
INSTALL = "pip install onnxruntime"

PROVIDER = "CPUExecutionProvider"
ERRORS_ONLY = 3
"""ONNX Runtime's severity: 2 would print warnings about graphs that run well."""


class OnnxSession:
    """A loaded ONNX graph."""

    def __init__(self, session: Any, entry: Entry) -> None:
        """Wrap an `onnxruntime.InferenceSession`."""
        self.delegate = "+".join(session.get_providers())
        self.fallback: tuple[str, ...] = ()
        self._session = session
        self._inputs = tuple(node.name for node in session.get_inputs())
        self._edges = _edges(session.get_inputs()), _edges(session.get_outputs())
        self._outputs = [node.name for node in session.get_outputs()][: len(entry.outputs)]

    def run(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Inputs in dtype and shape of the entry -> outputs."""
        return tuple(self._session.run(self._outputs, dict(zip(self._inputs, inputs, strict=True))))

    def also(self, path: Path, entry: Entry) -> "OnnxSession":
        """The same graph for another length, where its length is symbolic; see `Session`."""
        check_edges(path, entry.inputs, self._edges[0])
        check_edges(path, entry.outputs, self._edges[1])
        return OnnxSession(self._session, entry)

    def close(self) -> None:
        """Free the session."""
        self._session = None


def version() -> str | None:
    """Installed version of ONNX Runtime."""
    return installed_version("onnxruntime", "onnxruntime")


def load(path: Path, entry: Entry, *, threads: int) -> OnnxSession:
    """Load an ONNX payload; see `Engine.load`."""
    try:
        with captured():
            import onnxruntime
    except ImportError as error:
        raise missing_engine(NAME, INSTALL, error) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = ERRORS_ONLY
    try:
        with captured():
            session = onnxruntime.InferenceSession(str(path), options, providers=[PROVIDER])
    except Exception as error:
        # Its exceptions have no common base: InvalidProtobuf, NoSuchFile, Fail, NotImplemented, ...
        raise load_failure(path, error) from error
    check_edges(path, entry.inputs, _edges(session.get_inputs()))
    check_edges(path, entry.outputs, _edges(session.get_outputs()))
    return OnnxSession(session, entry)


def _edges(nodes: Any) -> list[tuple[np.dtype[Any], tuple[int, ...]]]:
    dtypes = {"float": "float32"}
    found = []
    for node in nodes:
        name = node.type.removeprefix("tensor(").removesuffix(")")
        # A symbolic side comes as a string; -1 differs from every side of a manifest, but for the length of a text.
        shape = tuple(side if isinstance(side, int) else -1 for side in node.shape)
        found.append((np.dtype(dtypes.get(name, name)), shape))
    return found
