"""One PT2E annotation that XNNPACK, LiteRT and ONNX Runtime all turn into integer kernels.

The stock quantizers put a quantize step between a convolution and its activation, which some engines then run in float. Here

* convolution, linear, add and mul are annotated together with the activation that follows: only its output is quantized;
* padding is quantized before, never after: its output shares the scale of its input;
* pooling by maximum, reshapes, slices and clamps on their own share the scale of their input: to LiteRT a second quantize step
  right behind the first one means something else; concatenation shares one scale among all of its inputs;
* activations are int8, one scale a tensor; weights are int8, symmetric, one scale an output channel, with a floor.

A clamp whose bounds are known is given the scale that spans them, so that saturation does the clamping.

Layers that a recipe names stay in float, with the padding in front and the activation behind: `dequantize -> pad -> layer ->
clamp -> quantize`. Their neighbours are quantized as ever, and so are the edges of the network.
"""

import difflib
from collections.abc import Collection
from types import SimpleNamespace

import torch
from torch import fx
from torchao.quantization.pt2e.observer import (
    HistogramObserver,
    MinMaxObserver,
    PerChannelMinMaxObserver,
    UniformQuantizationObserverBase,
)
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)

from edgekit.build.observers import MseObserver, PercentileObserver
from edgekit.build.recipe import Recipe
from edgekit.spec.errors import InputError

__all__ = ["BEST", "WEIGHT_SCALE_FLOOR", "BestObserver", "EdgeQuantizer", "is_answer"]

WEIGHT_SCALE_FLOOR = 2.0**-14
"""Dead channels have tiny weights, hence tiny scales and int32 biases near overflow; below this floor a weight is zero anyway."""

OBSERVERS: dict[str, type[UniformQuantizationObserverBase]] = {
    "minmax": MinMaxObserver,
    "histogram": HistogramObserver,
    "percentile": PercentileObserver,
    "mse": MseObserver,
}

BEST = 20
"""Logits a photo that keep their order and their distances."""

ACTIVATION_SCALE_FLOOR = 2.0**-16

aten = torch.ops.aten
KEY = "quantization_annotation"
LINEARS = (aten.conv2d.default, aten.conv1d.default, aten.linear.default)
ELEMENTWISE = (aten.add.Tensor, aten.add_.Tensor, aten.mul.Tensor, aten.mul_.Tensor)
CLAMPS = (
    aten.relu.default,
    aten.relu_.default,
    aten.hardtanh.default,
    aten.hardtanh_.default,
    aten.relu6.default,
    aten.clamp.default,
    aten.clamp_min.default,
)
POOLS = (aten.adaptive_avg_pool2d.default, aten.mean.dim)
PADS = (aten.pad.default, aten.constant_pad_nd.default)
SAME_SCALE = (
    aten.flatten.using_ints,
    aten.view.default,
    aten.reshape.default,
    aten.permute.default,
    aten.transpose.int,
    aten.max_pool2d.default,
    aten.avg_pool2d.default,
    aten.upsample_nearest2d.vec,
    aten.slice.Tensor,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unsqueeze.default,
    aten.dropout.default,
    aten.dropout_.default,
    aten.contiguous.default,
    aten.clone.default,
)


class BestObserver(MinMaxObserver):
    """The range of the `BEST` largest values of each row: (n, classes) logits whose least ones need not be told apart.

    They saturate at the lowest step. With a thousand classes that makes the step a third finer where answers are decided;
    with at most `BEST` classes it is the whole range.
    """

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        """Take in one batch of outputs."""
        if x_orig.dim() == 2 and x_orig.shape[1] > BEST:
            super().forward(x_orig.topk(BEST, dim=1).values)
        else:
            super().forward(x_orig)
        return x_orig


class EdgeQuantizer(Quantizer):
    """Static INT8 for convolutional networks, with the observer and the float layers of a recipe."""

    def __init__(self, recipe: Recipe | None = None) -> None:
        """Fix the two specifications that every annotation uses."""
        super().__init__()
        # LiteRT's converter reads this attribute of the quantizer it is handed.
        self.global_config = SimpleNamespace(is_dynamic=False)
        self.recipe = recipe or Recipe()
        self.activation = _activation(OBSERVERS[self.recipe.observer])
        self.entry = _activation(MinMaxObserver)
        self.exit = _activation(BestObserver)
        self.weight = QuantizationSpec(
            dtype=torch.int8,
            observer_or_fake_quant_ctr=PerChannelMinMaxObserver.with_args(eps=WEIGHT_SCALE_FLOOR),
            quant_min=-127,
            quant_max=127,
            qscheme=torch.per_channel_symmetric,
            ch_axis=0,
            is_dynamic=False,
        )

    def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
        """Put an annotation on every node that should run on integers.

        Raises:
            InputError: `float-layers`; the recipe names a layer that the network lacks.
        """
        floats = _float_part(model, self.recipe.float_layers)
        for node in model.graph.nodes:
            if node.op != "call_function" or _done(node) or node in floats:
                continue
            if node.target in LINEARS:
                self._annotate_linear(node)
            elif node.target in ELEMENTWISE:
                self._annotate_elementwise(node)
            elif node.target in POOLS:
                _put(node, {node.args[0]: self.activation}, self.activation)
            elif node.target is aten.cat.default:
                self._annotate_concat(node)
            elif node.target in SAME_SCALE or node.target in PADS or node.target in CLAMPS:
                self._annotate_same_scale(node)
        for node in floats:
            self._annotate_float(node)
        self._widen_edges(model)
        return model

    def validate(self, model: fx.GraphModule) -> None:
        """Nothing to refuse: operators without an annotation stay float and the operator gate names them."""

    def _widen_edges(self, model: fx.GraphModule) -> None:
        """The whole range for the input, that of the best answers for the output; a histogram clips both.

        Pixels fill their range evenly; its step is then exactly theirs. Of the logits, the largest decide.
        """
        for node in model.graph.nodes:
            annotation = node.meta.get(KEY)
            if annotation is None:
                continue
            for x, spec in annotation.input_qspec_map.items():
                if x.op == "placeholder" and spec is self.activation:
                    annotation.input_qspec_map[x] = self.entry
            if annotation.output_qspec is self.activation and is_answer(node):
                annotation.output_qspec = self.exit

    def _annotate_float(self, node: fx.Node) -> None:
        """Quantize the edges of the network next to a float operator, and its result once for all who read it as integers."""
        entry = {x: self.activation for x in node.all_input_nodes if x.op == "placeholder"}
        readers = [user for user in node.users if user.op != "output"]
        # A reader that is float itself is to read what was computed, not what was quantized for the others.
        integer = all(_done(user) and node in user.meta[KEY].input_qspec_map for user in readers)
        output = self.activation if integer or len(readers) < len(node.users) else None
        if entry or output is not None:
            _put(node, entry, output)

    def _annotate_linear(self, node: fx.Node) -> None:
        inputs = {node.args[0]: self.activation, node.args[1]: self.weight}
        self._annotate_with_clamp(node, inputs)

    def _annotate_elementwise(self, node: fx.Node) -> None:
        operands = [a for a in node.args[:2] if isinstance(a, fx.Node)]
        self._annotate_with_clamp(node, dict.fromkeys(operands, self.activation))

    def _annotate_with_clamp(self, node: fx.Node, inputs: dict[fx.Node, QuantizationSpec]) -> None:
        users = list(node.users)
        if len(users) == 1 and users[0].target in CLAMPS:
            _put(node, inputs, None)
            _put(users[0], {}, self.activation)
        else:
            _put(node, inputs, self.activation)

    def _annotate_same_scale(self, node: fx.Node) -> None:
        x = node.args[0]
        if isinstance(x, fx.Node):
            _put(node, {x: self.activation}, SharedQuantizationSpec((x, node)))

    def _annotate_concat(self, node: fx.Node) -> None:
        first, *rest = node.args[0]
        shared = SharedQuantizationSpec((first, node))
        _put(node, {first: self.activation, **dict.fromkeys(rest, shared)}, shared)


def _activation(observer: type[UniformQuantizationObserverBase]) -> QuantizationSpec:
    """int8, one scale a tensor."""
    return QuantizationSpec(
        dtype=torch.int8,
        observer_or_fake_quant_ctr=observer.with_args(eps=ACTIVATION_SCALE_FLOOR),
        quant_min=-128,
        quant_max=127,
        qscheme=torch.per_tensor_affine,
        is_dynamic=False,
    )


def _float_part(model: fx.GraphModule, names: Collection[str]) -> dict[fx.Node, None]:
    """The named layers, clamps behind them and paddings in front that nobody else reads, the last of the network first."""
    layers = {node.name: node for node in model.graph.nodes if node.op == "call_function" and node.target in LINEARS}
    for name in names:
        if name not in layers:
            near = difflib.get_close_matches(name, layers, n=3, cutoff=0.4) or list(layers)[:3]
            raise InputError(
                f"the network has no convolution or linear layer {name!r} to keep in float",
                where="float layers",
                fix=f"did you mean {', '.join(near)}?",
                code="float-layers",
            )
    found = {layers[name] for name in names}
    for layer in list(found):
        users = list(layer.users)
        if len(users) == 1 and users[0].target in CLAMPS:
            found.add(users[0])
    for node in reversed(model.graph.nodes):
        if node.op == "call_function" and node.target in PADS and node.users and all(user in found for user in node.users):
            found.add(node)
    return dict.fromkeys(node for node in reversed(model.graph.nodes) if node in found)


def is_answer(node: fx.Node) -> bool:
    """Whether it leaves the network to be looked at. Maps of features that leave a staged network are read inside as well."""
    outside = [user.op == "output" for user in node.users]
    value = node.meta.get("val")
    return any(outside) and (all(outside) or not isinstance(value, torch.Tensor) or value.dim() < 4)


def _done(node: fx.Node) -> bool:
    return KEY in node.meta and node.meta[KEY]._annotated


def _put(node: fx.Node, inputs: dict[fx.Node, QuantizationSpec], output: QuantizationSpec | None) -> None:
    node.meta[KEY] = QuantizationAnnotation(input_qspec_map=inputs, output_qspec=output, _annotated=True)
