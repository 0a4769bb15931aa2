"""Make a network that plain INT8 ruins: the same function, with channels of a tensor whose ranges differ up to a hundredfold.

```
python tools/bench/stretch.py --model efficientnet_lite0 --factor 100 -o stretched.pt
python tools/bench/stretch.py --model resnet18 --weights W.pt --classes 10 --factor 100 -o stretched.pt
edgekit build --model efficientnet_lite0 --weights stretched.pt ...
```

Every channel that may be scaled gets a factor: the batch norm that makes it is multiplied, the weights that read it are divided.
Streams are written down by hand for each family, so that this shares nothing with `equalise`, which has to find them.
"""

import argparse
import copy
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from edgekit.build.checkpoint import read_checkpoint, write_checkpoint
from edgekit.build.construct import make_network
from edgekit.build.origin import network_of
from edgekit.catalog import find_model

TOLERANCE = 1e-4
"""Of the largest logit; float32 rounds other products than before."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Channels that reach from layers to layers through nothing but additions, ReLU and pooling.

    Attributes:
        makers: batch norms whose outputs they are.
        readers: convolutions or linear layers whose inputs they are.
    """

    makers: tuple[str, ...]
    readers: tuple[str, ...]


def stretch(module: nn.Module, *, factor: float = 100.0, seed: int = 0, side_px: int = 64) -> nn.Module:
    """A copy in which the ranges of channels differ `factor`-fold, log-uniformly, and the function is the same.

    Args:
        module: EfficientNet-Lite, MobileNetV2 or ResNet, in evaluation mode.
        factor: largest factor / smallest factor of a stream.
        seed: of the factors.
        side_px: of the image on which the function is checked.

    Raises:
        ValueError: another family, or the function changed.
    """
    stretched = copy.deepcopy(module).eval()
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for stream in streams(stretched):
            makers = [stretched.get_submodule(name) for name in stream.makers]
            factors = factor ** (torch.rand(len(makers[0].weight), generator=chance, dtype=torch.float64) - 0.5)
            for norm in makers:
                norm.weight.copy_(norm.weight.double() * factors)
                norm.bias.copy_(norm.bias.double() * factors)
            for layer in (stretched.get_submodule(name) for name in stream.readers):
                shape = (1, -1, *(1,) * (layer.weight.dim() - 2))
                layer.weight.copy_(layer.weight.double() / factors.view(shape))
        images = torch.randn(2, 3, side_px, side_px, generator=chance)
        before, after = module.eval()(images), stretched(images)
    change = float((before - after).abs().max() / before.abs().max())
    if not change < TOLERANCE:
        raise ValueError(f"stretching changed the logits by {change:.1e} of the largest, more than {TOLERANCE:.0e}")
    return stretched


def streams(module: nn.Module) -> list[Stream]:
    """The streams of a network, by family."""
    if hasattr(module, "conv_stem") and hasattr(module, "blocks"):
        return _joined(_lite(module))
    if hasattr(module, "features") and hasattr(module, "classifier"):
        return _joined(_mobilenet(module))
    if hasattr(module, "layer4"):
        return [*_inner(module), *_joined(_resnet(module))]
    raise ValueError(f"no streams are written down for {type(module).__name__}")


Link = tuple[bool, tuple[str, ...], tuple[str, ...]]
"""(whether the block adds to the stream in front, what makes its output, what reads its input)."""


def _joined(links: Iterator[Link]) -> list[Stream]:
    """A block that adds goes on with the stream, any other reads it and begins the next."""
    found: list[Stream] = []
    makers: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    for adds, makes, reads in links:
        if adds:
            makers, readers = (*makers, *makes), (*readers, *reads)
            continue
        if makers:
            found.append(Stream(makers, (*readers, *reads)))
        makers, readers = makes, ()
    return found


def _lite(module: nn.Module) -> Iterator[Link]:
    for index, block in enumerate(module.blocks):
        # The first block reads what ReLU6 bounds; nothing makes a stream in front of it.
        yield block.residual, (f"blocks.{index}.bn2",), (f"blocks.{index}.expand_conv",)
    yield False, (), ("conv_head",)


def _mobilenet(module: nn.Module) -> Iterator[Link]:
    blocks = [(index, block) for index, block in enumerate(module.features) if hasattr(block, "use_res_connect")]
    for index, block in blocks:
        yield block.use_res_connect, (f"features.{index}.conv.{len(block.conv) - 1}",), (f"features.{index}.conv.0.0",)
    yield False, (), (f"features.{blocks[-1][0] + 1}.0",)


def _blocks(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for stage in range(1, 5):
        for index, block in enumerate(getattr(module, f"layer{stage}")):
            yield f"layer{stage}.{index}", block


def _resnet(module: nn.Module) -> Iterator[Link]:
    yield False, ("bn1",), ()
    for name, block in _blocks(module):
        last = "bn3" if hasattr(block, "bn3") else "bn2"
        if block.downsample is None:
            yield True, (f"{name}.{last}",), (f"{name}.conv1",)
        else:
            yield False, (f"{name}.{last}", f"{name}.downsample.1"), (f"{name}.conv1", f"{name}.downsample.0")
    yield False, (), ("fc",)


def _inner(module: nn.Module) -> Iterator[Stream]:
    for name, block in _blocks(module):
        for number in (1, 2) if hasattr(block, "conv3") else (1,):
            yield Stream((f"{name}.bn{number}",), (f"{name}.conv{number + 1}",))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", required=True, help="a name from `edgekit models`")
    parser.add_argument("--weights", type=Path, help="file, or checkpoint of edgekit fit; those of its package if left out")
    parser.add_argument("--classes", type=int, help="outputs; as many as the weights have if left out")
    parser.add_argument("--factor", type=float, default=100.0, help="largest range / smallest range that is brought in")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--out", type=Path, required=True, help="state dict to write; a folder if a checkpoint was given")
    arguments = parser.parse_args()
    network, facts = network_of(
        find_model(arguments.model),
        weights=arguments.weights,
        classes=arguments.classes,
        seed=arguments.seed,
        resolution_px=None,
    )
    if arguments.weights is not None and arguments.weights.is_dir():
        module = stretch(read_checkpoint(arguments.weights, network), factor=arguments.factor, seed=arguments.seed)
        shutil.copytree(arguments.weights, arguments.out, dirs_exist_ok=True)
        write_checkpoint(arguments.out, module, facts)
        return 0
    module = stretch(make_network(network), factor=arguments.factor, seed=arguments.seed)
    torch.save(module.state_dict(), arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
