"""A trained network -> its plain form, with everything folded that can be."""

import math

import torch
from torch import Tensor, nn

from edgekit.build.text.mobilebert import MobileLayer, Narrow
from edgekit.build.text.network import Attention, Scale, TextNetwork
from edgekit.build.text.plain import Affine, Block, Plain, PlainLayer

__all__ = ["copied", "reading", "rewrite"]

Norm = nn.LayerNorm | Scale


def rewrite(network: TextNetwork) -> Plain:
    """The same function in the operators of `plain`; weights are copies.

    Equal within float32 rounding: folds are computed in float64.
    """
    config, embeddings = network.config, network.embeddings
    with torch.no_grad():
        constant = embeddings.positions.weight.detach().clone()
        if embeddings.types is not None:
            constant += embeddings.types.weight[0]
        before: Norm = embeddings.norm
        affine = _affine(before)
        layers = []
        for layer in network.layers:
            plain, before = _mobile(layer, before) if isinstance(layer, MobileLayer) else _bert(layer, before)
            layers.append(plain)
        reader = network.pooler if network.pooler is not None else network.head
        folded = None if reader is None else reading(reader, before)
        table = nn.Embedding.from_pretrained(embeddings.words.weight.detach().clone())
        plain = Plain(
            table,
            constant,
            layers,
            affine=affine,
            transform=copied(embeddings.transform) if hasattr(embeddings, "transform") else None,
            pooler=folded if network.pooler is not None else None,
            head=folded if network.pooler is None else copied(network.head),
            last=_affine(before) if reader is None else None,
            pooling=config.pooling,
            pooler_act=config.pooler if network.pooler is not None else "",
        )
    return plain.eval().requires_grad_(False)


def _bert(layer: nn.Module, before: Norm) -> tuple[PlainLayer, Norm]:
    linears = _attention(layer.attention, before, before)
    block = Block(reading(layer.up, layer.norm1), copied(layer.down), _affine(layer.norm2), act=_name(layer.act))
    return PlainLayer(linears, _affine(layer.norm1), [block], heads=layer.attention.heads, out=None), layer.norm2


def _mobile(layer: MobileLayer, before: Norm) -> tuple[PlainLayer, Norm]:
    """The norms of the two ways in are affine where they have no statistics, and then vanish in their linear layers."""
    linears = {"shrink": _narrow(layer.shrink, before), "shared": _narrow(layer.shared, before)}
    linears |= _attention(layer.attention, None, before)
    blocks, inside = [], layer.norm1
    for each in layer.feed_forwards:
        blocks.append(Block(reading(each.up, inside), copied(each.down), _affine(each.norm), act=_name(each.act)))
        inside = each.norm
    linears["widen"] = reading(layer.widen, inside)
    plain = PlainLayer(linears, _affine(layer.norm1), blocks, heads=layer.attention.heads, out=_affine(layer.norm2))
    return plain, layer.norm2


def _attention(attention: Attention, inputs: Norm | None, values: Norm) -> dict[str, nn.Linear]:
    """Queries carry 1/sqrt(width of a head)."""
    q, k = (copied(x) if inputs is None else reading(x, inputs) for x in (attention.q, attention.k))
    width = attention.q.out_features // attention.heads
    for tensor in (q.weight, q.bias):
        tensor.copy_((tensor.double() / math.sqrt(width)).float())
    return {"q": q, "k": k, "v": reading(attention.v, values), "o": copied(attention.o)}


def _narrow(narrow: Narrow, before: Norm) -> nn.Linear:
    """A linear layer that reads `before` and whose own gain and shift follow."""
    linear, norm = reading(narrow.linear, before), narrow.norm
    gain, shift = norm.weight.double(), norm.bias.double()
    return _linear(linear.weight.double() * gain[:, None], linear.bias.double() * gain + shift)


def reading(linear: nn.Linear, norm: Norm) -> nn.Linear:
    """The layer that gives the same from a normed state as `linear` from that state with gain and shift."""
    weight, bias = linear.weight.double(), linear.bias.double()
    return _linear(weight * norm.weight.double(), bias + weight @ norm.bias.double())


def copied(linear: nn.Linear) -> nn.Linear:
    """The same layer with weights of its own."""
    return _linear(linear.weight, linear.bias)


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    new = nn.Linear(weight.shape[1], weight.shape[0])
    new.weight.copy_(weight.float())
    new.bias.copy_(bias.float())
    return new


def _affine(norm: Norm) -> Affine:
    epsilon = norm.eps if isinstance(norm, nn.LayerNorm) else None
    return Affine(norm.weight.detach().clone(), norm.bias.detach().clone(), epsilon=epsilon)


def _name(act: nn.Module) -> str:
    return {nn.GELU: "gelu", nn.ReLU: "relu"}[type(act)]
