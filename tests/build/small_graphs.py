"""Small networks as exported graphs, and what their passes are judged by."""

import torch
from torch import nn

from edgekit.build.programs import graph_of

EXAMPLE = (1, 3, 8, 8)


class Net(nn.Module):
    """Named parts and a function that joins them."""

    def __init__(self, join, **parts):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.join = join

    def forward(self, x):
        return self.join(self, x)


def graph(join, *, seed=0, **parts):
    """An exported graph to edit; batch norms get statistics of their own."""
    torch.manual_seed(seed)
    net = Net(join, **parts).eval()
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_var.uniform_(0.5, 2.0)
            layer.running_mean.uniform_(-1, 1)
            if layer.affine:
                layer.weight.data.uniform_(0.5, 1.5)
                layer.bias.data.normal_()
    return graph_of(torch.export.export(net, (torch.zeros(EXAMPLE),), strict=False))


def images(seed=1, scale=3.0):
    return scale * torch.randn(4, *EXAMPLE[1:], generator=torch.Generator().manual_seed(seed))


def outputs(module):
    with torch.no_grad():
        return torch.cat([module(image[None]) for image in images()])


def operators(module):
    """Names of the operators in order, such as `conv2d`."""
    return [n.target.__name__.split(".")[0] for n in module.graph.nodes if n.op == "call_function"]
