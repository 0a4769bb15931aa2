"""One network in three formats, small enough to write by hand: a convolution over the whole image, then the logits.

All engines compute it in integers, so they must agree with `reference` to the step. Rounding of exact halves is theirs, hence the
odd scales.
"""

import math

import numpy as np

SIDE, CLASSES = 16, 10
IN_SCALE, IN_ZERO, WEIGHT_SCALE, OUT_SCALE, OUT_ZERO = 0.0234375, -3, 0.0101, 0.517, 5
IMAGES = 4
MEAN, STD = (120.0, 115.0, 100.0), (60.0, 57.0, 58.0)


def weights():
    """(classes, 3, side, side) int8 and (classes,) int32."""
    random = np.random.default_rng(0)
    return random.integers(-127, 128, (CLASSES, 3, SIDE, SIDE)).astype(np.int8), random.integers(-20000, 20000, CLASSES).astype(
        np.int32
    )


def golden_images():
    """(n, side, side, 3) uint8."""
    return np.random.default_rng(1).integers(0, 256, (IMAGES, SIDE, SIDE, 3)).astype(np.uint8)


def reference(x):
    """(1, 3, side, side) int8 -> (1, classes) int8."""
    kernel, bias = weights()
    total = np.einsum("chw,kchw->k", x[0].astype(np.int64) - IN_ZERO, kernel.astype(np.int64)) + bias
    steps = np.rint(total * (IN_SCALE * WEIGHT_SCALE / OUT_SCALE)) + OUT_ZERO
    return np.clip(steps, -128, 127).astype(np.int8)[None]


def write_onnx(path, *, shift=0):
    """QLinearConv + Reshape; `shift=128` gives uint8 edges."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    kernel, bias = weights()
    dtype = np.uint8 if shift else np.int8
    kind = TensorProto.UINT8 if shift else TensorProto.INT8
    constants = {
        "xs": np.float32(IN_SCALE),
        "xz": dtype(IN_ZERO + shift),
        "w": kernel,
        "ws": np.float32(WEIGHT_SCALE),
        "wz": np.int8(0),
        "ys": np.float32(OUT_SCALE),
        "yz": dtype(OUT_ZERO + shift),
        "b": bias,
        "shape": np.array([1, CLASSES], np.int64),
    }
    graph = helper.make_graph(
        [
            helper.make_node("QLinearConv", ["image", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["c"]),
            helper.make_node("Reshape", ["c", "shape"], ["logits"]),
        ],
        "tiny",
        [helper.make_tensor_value_info("image", kind, (1, 3, SIDE, SIDE))],
        [helper.make_tensor_value_info("logits", kind, (1, CLASSES))],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def _tensor(schema, name, shape, kind, buffer, *, scale=(), zero=()):
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.type, tensor.buffer = name, list(shape), kind, buffer
    if len(scale):
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale, tensor.quantization.zeroPoint = list(scale), list(zero)
    return tensor


def _buffer(schema, values=None):
    buffer = schema.BufferT()
    if values is not None:
        buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
    return buffer


def _operator(schema, code, inputs, outputs, kind, options):
    operator = schema.OperatorT()
    operator.opcodeIndex, operator.inputs, operator.outputs = code, inputs, outputs
    operator.builtinOptionsType, operator.builtinOptions = kind, options
    return operator


def _code(schema, builtin, version):
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = builtin
    code.version = version
    return code


def _graph(schema):
    """CONV_2D + RESHAPE, NHWC."""
    int8, int32 = schema.TensorType.INT8, schema.TensorType.INT32
    graph = schema.SubGraphT()
    out = {"scale": [OUT_SCALE], "zero": [OUT_ZERO]}
    bias_scale = float(np.float32(IN_SCALE) * np.float32(WEIGHT_SCALE))
    graph.tensors = [
        _tensor(schema, "image", (1, SIDE, SIDE, 3), int8, 0, scale=[IN_SCALE], zero=[IN_ZERO]),
        _tensor(schema, "w", (CLASSES, SIDE, SIDE, 3), int8, 1, scale=[WEIGHT_SCALE] * CLASSES, zero=[0] * CLASSES),
        _tensor(schema, "b", (CLASSES,), int32, 2, scale=[bias_scale] * CLASSES, zero=[0] * CLASSES),
        _tensor(schema, "c", (1, 1, 1, CLASSES), int8, 0, **out),
        _tensor(schema, "shape", (2,), int32, 3),
        _tensor(schema, "logits", (1, CLASSES), int8, 0, **out),
    ]
    conv, reshape = schema.Conv2DOptionsT(), schema.ReshapeOptionsT()
    conv.padding = schema.Padding.VALID
    conv.strideH = conv.strideW = conv.dilationHFactor = conv.dilationWFactor = 1
    reshape.newShape = [1, CLASSES]
    graph.operators = [
        _operator(schema, 0, [0, 1, 2], [3], schema.BuiltinOptions.Conv2DOptions, conv),
        _operator(schema, 1, [3, 4], [5], schema.BuiltinOptions.ReshapeOptions, reshape),
    ]
    graph.inputs, graph.outputs = [0], [5]
    return graph


def _signature(schema, key, subgraph):
    def named(name, index):
        entry = schema.TensorMapT()
        entry.name, entry.tensorIndex = name, index
        return entry

    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = key, subgraph
    signature.inputs, signature.outputs = [named("image", 0)], [named("logits", 5)]
    return signature


def write_tflite(path, *, signatures=("serving_default",)):
    """The object API of the schema that comes with LiteRT; one subgraph per signature."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    kernel, bias = weights()
    model = schema.ModelT()
    model.version = 3
    model.operatorCodes = [_code(schema, schema.BuiltinOperator.CONV_2D, 3), _code(schema, schema.BuiltinOperator.RESHAPE, 1)]
    contents = (None, kernel.transpose(0, 2, 3, 1), bias, np.array([1, CLASSES], np.int32))
    model.buffers = [_buffer(schema, values) for values in contents]
    model.subgraphs = [_graph(schema) for _ in signatures]
    model.signatureDefs = [_signature(schema, key, index) for index, key in enumerate(signatures)]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))


def write_pte(path):
    """Dequantize, convolution, quantize around int8 edges; XNNPACK fuses the three."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.pt2e import quantize_pt2e  # noqa: F401  registers quantized_decomposed

    ops = torch.ops.quantized_decomposed
    kernel, bias = weights()

    class Tiny(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("w", torch.from_numpy(kernel))
            self.register_buffer("ws", torch.full((CLASSES,), WEIGHT_SCALE))
            self.register_buffer("wz", torch.zeros(CLASSES, dtype=torch.int64))
            self.b = torch.nn.Parameter(torch.from_numpy((bias * (IN_SCALE * WEIGHT_SCALE)).astype(np.float32)))

        def forward(self, x):
            x = ops.dequantize_per_tensor(x, IN_SCALE, IN_ZERO, -128, 127, torch.int8)
            w = ops.dequantize_per_channel(self.w, self.ws, self.wz, 0, -127, 127, torch.int8)
            y = ops.quantize_per_tensor(torch.conv2d(x, w, self.b), OUT_SCALE, OUT_ZERO, -128, 127, torch.int8)
            return y.reshape(1, CLASSES)

    example = (torch.zeros(1, 3, SIDE, SIDE, dtype=torch.int8),)
    exported = torch.export.export(Tiny().eval(), example, strict=False)
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    path.write_bytes(lowered.to_executorch().buffer)


def is_far_from_a_tie(x):
    """Whether no output of `reference` is within a hundredth of a step of being rounded the other way."""
    kernel, bias = weights()
    total = np.einsum("chw,kchw->k", x[0].astype(np.int64) - IN_ZERO, kernel.astype(np.int64)) + bias
    return all(abs(math.modf(abs(v))[0] - 0.5) > 0.01 for v in total * (IN_SCALE * WEIGHT_SCALE / OUT_SCALE))
