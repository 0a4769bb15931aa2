"""Which operators a payload holds, of which type, and who runs them: read back from the file by the engine's own tools.

What the lowering believed does not count: a convolution that stayed float shows here and nowhere else.
"""

import importlib
import importlib.metadata
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgekit.runtime.engines.edges import load_failure
from edgekit.spec.errors import UnknownName
from edgekit.spec.manifest import OperatorCount, Placement

if TYPE_CHECKING:
    from edgekit.runtime.engines.pte import Plan

__all__ = ["FLOAT_TYPES", "float_operators", "joined", "read", "read_methods"]

FLOAT_TYPES = ("float16", "float32", "float64", "bfloat16")

WEIGHTED = {
    "conv", "convinteger", "conv2d", "conv_2d", "convtranspose", "convtranspose2d", "transpose_conv", "depthwiseconv2d",
    "depthwise_conv_2d", "fullyconnected", "fully_connected", "gemm", "matmul", "fusedconv", "fusedgemm", "fusedmatmul",
    "nchwcconv", "batch_matmul", "batchmatrixmultiply",
}  # fmt: skip
"""Operators that must not be float in an INT8 payload, as the engines name them, in lower case."""

PORTABLE = ("aten::convolution", "aten::linear", "aten::addmm", "aten::mm", "aten::bmm")
"""Kernels of ExecuTorch outside of any delegate; a program does not say on what they compute, and it is always floats."""

XNN_TYPES = {
    "xnn_datatype_fp32": "float32", "xnn_datatype_fp16": "float16", "xnn_datatype_qint8": "int8", "xnn_datatype_quint8": "uint8",
    "xnn_datatype_qint32": "int32", "xnn_datatype_qcint8": "int8", "xnn_datatype_qcint32": "int32", "xnn_datatype_qcint4": "int4",
    "xnn_datatype_qdint8": "int8", "xnn_datatype_qbint4": "int4", "xnn_datatype_bf16": "bfloat16", "xnn_datatype_int32": "int32",
}  # fmt: skip


NON_FINITE = re.compile(r"(?<=: )-?(?:inf|nan)\b")
NON_FINITE_NAMES = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN", "-nan": "NaN"}
"""How flatc writes the bounds of an open clamp, and how Python's json reads them."""


def read(engine: str, path: Path) -> Placement:
    """A payload file -> its operators by type and result dtype, and the delegate that takes them on this machine.

    Raises:
        BundleError: the file is damaged.
        UnknownName: no such engine.
    """
    if engine == "executorch":
        return _read_pte(path)
    if engine == "onnx":
        return _read_onnx(path)
    if engine == "litert":
        return _read_tflite(path)
    points = importlib.metadata.entry_points(group="edgekit.lowerings")
    for point in points:
        if point.name == engine:
            placement: Placement = point.load().placement(path)
            return placement
    raise UnknownName("engine", engine, {point.name for point in points}, listing="edgekit doctor")


def read_methods(engine: str, path: Path) -> dict[str, Placement]:
    """Each method of a `.pte`, each signature of a `.tflite` -> its own placement; any other payload as a whole, named ``""``.

    Raises as `read` does.
    """
    if engine == "executorch":
        return {plan.name: _read_pte(path, plan.name) for plan in _plans(path)}
    if engine == "litert":
        return _read_signatures(path)
    return {"": read(engine, path)}


def joined(placements: Iterable[Placement]) -> Placement:
    """What all rungs hold; of delegate calls those of the rung that makes most."""
    found = tuple(placements)
    counts: Counter[tuple[str, str, str]] = Counter()
    for each in (operator for placement in found for operator in placement.operators):
        counts[each.type, each.dtype, each.delegate] += each.count
    calls = [p.delegate_calls for p in found if p.delegate_calls is not None]
    delegate = "+".join(dict.fromkeys(part for p in found for part in p.delegate.split("+")))
    operators = tuple(OperatorCount(kind, dtype, count, taken) for (kind, dtype, taken), count in sorted(counts.items()))
    return Placement(delegate, max(calls) if calls else None, operators)


def float_operators(placement: Placement) -> tuple[OperatorCount, ...]:
    """Convolutions and matrix products that run in float."""
    return tuple(o for o in placement.operators if o.type in PORTABLE or (o.type.lower() in WEIGHTED and o.dtype in FLOAT_TYPES))


def _read_tflite(path: Path) -> Placement:
    from edgekit.runtime.engines import litert

    operators = litert.operators(path)
    taken = sum(o.count for o in operators if o.delegate)
    left = sum(o.count for o in operators if not o.delegate)
    delegate = "CPU" if not taken else "XNNPACK" if not left else "XNNPACK+CPU"
    return Placement(delegate, None, operators)


def _read_signatures(path: Path) -> dict[str, Placement]:
    """The interpreter tells of the first graph only, so each signature is looked at in a file of its own."""
    from ai_edge_litert.tools import flatbuffer_utils

    found = {}
    for index, signature in enumerate(flatbuffer_utils.read_model(str(path)).signatureDefs or ()):
        model = flatbuffer_utils.read_model(str(path))
        model.subgraphs = [model.subgraphs[signature.subgraphIndex]]
        model.signatureDefs = [model.signatureDefs[index]]
        model.signatureDefs[0].subgraphIndex = 0
        with tempfile.TemporaryDirectory() as folder:
            alone = Path(folder) / path.name
            alone.write_bytes(bytes(flatbuffer_utils.convert_object_to_bytearray(model)))
            found[signature.signatureKey.decode()] = _read_tflite(alone)
    return found or {"": _read_tflite(path)}


def _plans(path: Path) -> "tuple[Plan, ...]":
    from edgekit.runtime.engines.pte import read_plans

    try:
        return read_plans(path.read_bytes())
    except (OSError, ValueError) as error:
        raise load_failure(path, error) from error


def _read_pte(path: Path, method: str | None = None) -> Placement:
    plans = _plans(path)
    # One run calls one method: of several, such as buckets of one network, the one that calls most is told.
    plan = max(plans, key=lambda each: (each.name == method, len(each.delegate_calls) + len(each.kernel_calls)))
    try:
        graphs = _xnnpack_graphs(path, plans.index(plan))
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise load_failure(path, error) from error
    counts: Counter[tuple[str, str, str]] = Counter()
    for graph in graphs:
        types = dict(_value_types(graph))
        for node in graph["xnodes"]:
            name = node["xnode_union_type"].removeprefix("XNN")
            output = node["xnode_union"].get("output_id", 0)
            counts[name, types.get(output, ""), "XNNPACK"] += 1
    calls, kernels = plan.delegate_calls, plan.kernel_calls
    counts.update((name, "", "") for name in kernels)
    delegate = "CPU" if not calls else "XNNPACK+CPU" if kernels else "XNNPACK"
    return Placement(delegate, len(calls), _counts(counts))


def _xnnpack_graphs(path: Path, method: int) -> list[dict[str, Any]]:
    """The graphs inside the XNNPACK delegates of a method, decompiled with ExecuTorch's own schema."""
    import executorch.backends.xnnpack.serialization.xnnpack_graph_serialize as serialization
    from executorch.exir._serialize import _flatbuffer, _program

    program = _program.deserialize_pte_binary(path.read_bytes()).program
    places = [delegate.processed.index for delegate in program.execution_plan[method].delegates]
    blobs = [bytes(program.backend_delegate_data[place].data) for place in places]
    schema = Path(serialization.__file__).with_name("schema.fbs")
    graphs = []
    with tempfile.TemporaryDirectory() as folder:
        for blob in blobs:
            header = serialization.XNNHeader.from_bytes(blob[: serialization.XNNHeader.EXPECTED_LENGTH])
            start = header.flatbuffer_offset
            binary = Path(folder) / "graph.bin"
            binary.write_bytes(blob[start : start + header.flatbuffer_size])
            _flatbuffer._flatc_decompile(folder, str(schema), str(binary), ["--raw-binary"])
            text = binary.with_suffix(".json").read_text()
            graphs.append(json.loads(NON_FINITE.sub(lambda found: NON_FINITE_NAMES[found[0]], text)))
    return graphs


def _value_types(graph: dict[str, Any]) -> Any:
    for value in graph["xvalues"]:
        union = value["xvalue_union"]
        tensor = union.get("tensor_value", union)
        yield tensor.get("id_out", 0), XNN_TYPES.get(tensor.get("datatype", ""), tensor.get("datatype", ""))


def _read_onnx(path: Path) -> Placement:
    """What ONNX Runtime makes of the file: fusion decides there what runs on integers."""
    onnxruntime = importlib.import_module("onnxruntime")
    onnx = importlib.import_module("onnx")
    with tempfile.TemporaryDirectory() as folder:
        optimized = Path(folder) / "optimized.onnx"
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.optimized_model_filepath = str(optimized)
        # On x86 the engine leaves int8 activations partly float; on Arm, for which such a payload is made, it does not.
        options.add_session_config_entry("session.qdqisint8allowed", "1")
        # The level above adds layouts of this very CPU; here we want what runs everywhere.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        try:
            onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the engine raises a class of its own for each of its states
            raise load_failure(path, error) from error
        model = onnx.load(optimized)
    return Placement("CPUExecutionProvider", None, _counts(_onnx_counts(model, onnx)))


def _onnx_counts(model: Any, onnx: Any) -> Counter[tuple[str, str, str]]:
    def name_of(elem: int) -> str:
        return str(onnx.helper.tensor_dtype_to_np_dtype(elem).name)

    types = {i.name: name_of(i.data_type) for i in model.graph.initializer}
    types |= {i.name: name_of(i.type.tensor_type.elem_type) for i in model.graph.input}
    counts: Counter[tuple[str, str, str]] = Counter()
    for node in model.graph.node:
        dtype = _onnx_result(node, types, name_of)
        types |= dict.fromkeys(node.output, dtype)
        counts[node.op_type, dtype, ""] += 1
    return counts


def _onnx_result(node: Any, types: dict[str, str], name_of: Any) -> str:
    """Dtype of a node's result. Operators of ONNX Runtime's own have no shape inference, but an output zero point as an input."""
    if node.op_type == "Cast":
        return name_of(next(a.i for a in node.attribute if a.name == "to"))
    if node.op_type == "DequantizeLinear":
        return types.get(node.input[1], "float32")
    if node.op_type == "QuantizeLinear":
        return types.get(node.input[2], "uint8") if len(node.input) > 2 else "uint8"
    integer = {"QLinearConv": 7, "QLinearMatMul": 7, "QGemm": 8}.get(node.op_type)
    if integer is not None:
        # QGemm without an output zero point dequantizes: its result is float.
        return types.get(node.input[integer], "float32") if len(node.input) > integer and node.input[integer] else "float32"
    if node.op_type == "QLinearConcat":
        return types.get(node.input[1], "")
    return types.get(node.input[0], "") if node.input else ""


def _counts(counts: Counter[tuple[str, str, str]]) -> tuple[OperatorCount, ...]:
    return tuple(OperatorCount(kind, dtype, count, delegate) for (kind, dtype, delegate), count in sorted(counts.items()))
