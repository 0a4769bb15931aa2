"""Which resolutions a network takes: found by running it, since no rule covers patches, poolings and skip connections alike."""

from collections.abc import Callable

import torch
from torch import nn

from edgekit.build.training.trial import undisturbed
from edgekit.build.user_code import FAILURES, first_line
from edgekit.spec.errors import InputError

__all__ = ["MOST", "check_resolutions", "refusal"]

MOST = 4
"""Resolutions of one ladder: each is one more payload entry to calibrate, and on EfficientNet-Lite0 three cost more than two."""

_SEARCHED_PX = 64
"""How far around a resolution that is refused one is looked for that is not: the largest stride in use is 32."""


def check_resolutions(module: nn.Module, resolutions_px: tuple[int, ...], *, name: str) -> None:
    """Run one black image of each resolution.

    Args:
        module: takes (n, 3, side, side); is left as it was.
        resolutions_px: sides to try.
        name: of the network, for messages.

    Raises:
        InputError: `resolutions`; too many, one twice, or one that the network's stride forbids: then the least that it takes and
            the nearest ones are named.
    """
    if len(set(resolutions_px)) < len(resolutions_px) or len(resolutions_px) > MOST:
        raise InputError(
            f"resolutions {', '.join(map(str, resolutions_px))} px: a ladder has at most {MOST}, each once",
            where=name,
            fix="name two to four different ones, such as 128,160,224",
            code="resolutions",
        )
    for side in resolutions_px:
        why = refusal(module, side)
        if why:
            least, near = _valid(lambda px: not refusal(module, px), side, most=max(*resolutions_px, 224))
            raise InputError(
                f"{name} does not take photos of {side} px: {why}",
                where="resolutions",
                fix=_advice(least, near),
                code="resolutions",
            )


def refusal(module: nn.Module, side_px: int) -> str:
    """Why the network does not take (1, 3, side, side); empty where it does."""
    if side_px < 1:
        return "a side is at least 1 px"
    found: list[str] = []

    def note(name: str) -> Callable[[nn.Module, object, object], None]:
        def look(layer: nn.Module, inputs: object, output: object) -> None:
            # Some operators make nothing of a map without places, and the mean over it no number, without a word.
            if isinstance(output, torch.Tensor) and output.numel() == 0:
                found.append(f"nothing is left of the map in {name or 'its output'}")
            found.extend(_unread(layer, inputs, name))

        return look

    hooks = [layer.register_forward_hook(note(name)) for name, layer in module.named_modules()]
    modes = [(layer, layer.training) for layer in module.modules()]
    place = next((p.device for p in module.parameters()), torch.device("cpu"))
    try:
        module.train(False)
        with undisturbed(module):
            answer = module(torch.zeros(1, 3, side_px, side_px, device=place))
    except FAILURES as error:
        return first_line(error).rstrip(".:")
    finally:
        for layer, mode in modes:
            layer.training = mode
        for hook in hooks:
            hook.remove()
    if found:
        return found[0]
    answers = answer if isinstance(answer, tuple) else (answer,)
    return "" if all(bool(torch.isfinite(each).all()) for each in answers) else "its answer is no finite number"


def _unread(layer: nn.Module, inputs: object, name: str) -> list[str]:
    """A convolution over patches that do not overlap silently leaves out what is no whole patch."""
    if not isinstance(layer, nn.Conv2d) or not isinstance(inputs, tuple):
        return []
    if layer.kernel_size != layer.stride or layer.padding not in ((0, 0), "valid"):
        return []
    sides = tuple(inputs[0].shape[2:])
    left = [side % patch for side, patch in zip(sides, layer.kernel_size, strict=True)]
    return (
        [f"{name} reads patches of {layer.kernel_size[0]}, and {max(left)} of {max(sides)} places are left"] if any(left) else []
    )


def _valid(takes: Callable[[int], bool], side: int, *, most: int) -> tuple[int | None, tuple[int, ...]]:
    """(the least side that is taken, the nearest ones below and above); None and empty where there is none up to `most`."""
    least = next((px for px in range(1, most + _SEARCHED_PX + 1) if takes(px)), None)
    if least is None:
        return None, ()
    below = next((px for px in range(side - 1, max(least, side - _SEARCHED_PX) - 1, -1) if takes(px)), None)
    above = next((px for px in range(max(side + 1, least), max(side, least) + _SEARCHED_PX + 1) if takes(px)), None)
    return least, tuple(px for px in (below, above) if px is not None)


def _advice(least: int | None, near: tuple[int, ...]) -> str:
    if least is None:
        return "build at the network's own resolution"
    nearest = f"; the nearest are {' and '.join(map(str, near))} px" if near else ""
    return f"the least that it takes is {least} px{nearest}"
