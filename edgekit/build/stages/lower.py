"""`lower`: a float or quantized program -> one payload, whose operators are read back from the file."""

import importlib.metadata
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.facts import read_facts
from edgekit.build.pipeline import Progress
from edgekit.build.stages.export import PROGRAM
from edgekit.build.stages.quantize import is_dynamic, read_dynamic, read_quantized
from edgekit.build.user_code import first_line
from edgekit.spec import codec
from edgekit.spec.errors import BundleError, EdgekitError, GoalError, UnknownName
from edgekit.spec.manifest import Entry, Payload, Placement

if TYPE_CHECKING:
    from edgekit.build.lowerings import Lowered

__all__ = ["PAYLOAD", "TOOLS", "LowerFloat", "LowerInteger", "explained", "lowering", "read_payload"]

PAYLOAD = "payload.json"

TOOLS: tuple[str, ...] = (
    "torch", "torchao", "executorch", "onnx", "onnx-ir", "onnxscript", "onnxruntime", "litert-torch", "litert-converter",
    "ai-edge-quantizer", "ai-edge-litert",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LowerInteger:
    """An INT8 payload.

    Attributes:
        engine: `executorch`, `litert` or `onnx`.
        activation_dtype: `int8` or `uint8`; only ONNX heeds it.
    """

    engine: str
    activation_dtype: str

    name: ClassVar[str] = "lower"
    version: ClassVar[int] = 3
    accepts: ClassVar[str] = "quantized"
    returns: ClassVar[str] = "payload"
    tools: ClassVar[tuple[str, ...]] = TOOLS

    @property
    def title(self) -> str:
        """Which payload."""
        return f"lower {self.engine}-int8"

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write the payload file and `payload.json`.

        Raises:
            GoalError: `float-operator`; a convolution or linear layer stayed float that the recipe does not name.
        """
        from edgekit.build.gates import check_layers, check_payload

        if is_dynamic(source.path):
            self._lower_dynamically(source, out, progress)
            return
        progress(0.05, "reading the quantized program")
        quantized = read_quantized(source.path)
        check_layers(quantized.folded, allowed=quantized.float_layers)
        progress(0.2, f"lowering to {self.engine}")
        code = lowering(self.engine)
        with explained(self.engine, "int8"):
            lowered = code.lower_integer(quantized, activation_dtype=self.activation_dtype)
        placement = _write(self.engine, "int8", lowered, code.SUFFIX, source, out, progress)
        check_payload(self.engine, placement, allowed=len(quantized.float_layers))

    def _lower_dynamically(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Operators that are read back give float results by design: here the payload must hold every layer's integers."""
        from edgekit.build.lowerings import dynamic

        progress(0.05, "reading the rounded program")
        program = read_dynamic(source.path)
        progress(0.2, f"lowering to {self.engine}")
        with explained(self.engine, "int8"):
            lowered = dynamic.lower(self.engine, program)
        _write(self.engine, "int8", lowered, lowering(self.engine).SUFFIX, source, out, progress)


@dataclass(frozen=True, slots=True)
class LowerFloat:
    """A float payload.

    Attributes:
        engine: `executorch`, `litert` or `onnx`.
        precision: `fp32` or `fp16`.
    """

    engine: str
    precision: str

    name: ClassVar[str] = "lower"
    version: ClassVar[int] = 3
    accepts: ClassVar[str] = "program"
    returns: ClassVar[str] = "payload"
    tools: ClassVar[tuple[str, ...]] = TOOLS

    @property
    def title(self) -> str:
        """Which payload."""
        return f"lower {self.engine}-{self.precision}"

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write the payload file and `payload.json`."""
        from edgekit.build import programs

        progress(0.05, "reading the program")
        program = programs.load(source.path / PROGRAM)
        progress(0.2, f"lowering to {self.engine}")
        code = lowering(self.engine)
        with explained(self.engine, self.precision):
            lowered = code.lower_float(program, precision=self.precision)
        _write(self.engine, self.precision, lowered, code.SUFFIX, source, out, progress)


@contextmanager
def explained(engine: str, precision: str) -> Iterator[None]:
    """Converters fail in ways of their own on operators that they do not know."""
    try:
        yield
    except BundleError as error:
        raise GoalError(
            f"{engine} does not load what its converter made of this network: {first_line(error)}",
            where=f"{engine}-{precision}",
            fix=f"build it with --precision fp16, or leave {engine} out with --engines",
            code="lowering",
        ) from error
    except (EdgekitError, ImportError, OSError, MemoryError):
        raise
    except Exception as error:
        cause = error.__cause__ or error
        raise GoalError(
            f"the converter of {engine} fails on this network: {type(cause).__name__}: {first_line(cause)}",
            where=f"{engine}-{precision}",
            fix=f"replace the operator it names, or leave {engine} out with --engines; --debug shows the traceback",
            code="lowering",
        ) from error


def lowering(engine: str) -> ModuleType:
    """The module that lowers to payloads of `engine`; it imports torch and the engine's converter.

    Raises:
        UnknownName: nobody declares one.
    """
    for point in importlib.metadata.entry_points(group="edgekit.lowerings", name=engine):
        module: ModuleType = point.load()
        return module
    known = {p.name for p in importlib.metadata.entry_points(group="edgekit.lowerings")}
    raise UnknownName("lowering", engine, known, listing="edgekit doctor")


def _write(
    engine: str, precision: str, lowered: "Lowered", suffix: str, source: Artifact, out: Path, progress: Progress
) -> Placement:
    from edgekit.build import operators

    rung = read_facts(source.path).rung
    file = f"model.{precision}{suffix}"
    (out / file).write_bytes(lowered.payload)
    progress(0.9, "reading its operators back")
    with explained(engine, precision):
        placement = operators.read(engine, out / file)
    entry = Entry(rung.name, f"payloads/{file}", lowered.method, lowered.inputs, lowered.outputs)
    payload = Payload(f"{engine}-{precision}", engine, precision, (entry,), placement, ())
    (out / PAYLOAD).write_text(json.dumps(codec.to_json(payload), indent=1) + "\n", encoding="utf-8")
    return placement


def read_payload(folder: Path) -> Payload:
    """What a lowering stage wrote; tables and goldens are still missing."""

    def fail(what: str, where: str) -> EdgekitError:
        return EdgekitError(what, where=where, fix="remove the store's entry", code="store")

    data: Mapping[str, Any] = json.loads((folder / PAYLOAD).read_text(encoding="utf-8"))
    return codec.from_json(Payload, data, where=str(folder / PAYLOAD), fail=fail)
