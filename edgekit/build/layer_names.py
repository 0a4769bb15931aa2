"""Where in the user's network a node of its graph comes from: `conv2d_12` -> `blocks.3.depthwise_conv`."""

from collections.abc import Iterable

from torch import fx

__all__ = ["module_of", "modules_of"]


def module_of(node: fx.Node) -> str:
    """The path of the module that made a node; the node's own name where that is not known.

    Export notes for each node the modules that it was called in, the innermost last; saving a program keeps that. Nodes that a
    rewrite put in have no such note.
    """
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values()]
    path = str(paths[-1]) if paths else ""
    # A module that is called twice is noted as `block@1` the second time.
    return path.split("@")[0].removeprefix("L['self'].") or node.name


def modules_of(nodes: Iterable[fx.Node]) -> tuple[str, ...]:
    """The paths of some nodes. Where several share one, the second and later are marked: `features.0`, `features.0 (2)`."""
    seen: dict[str, int] = {}
    names = []
    for node in nodes:
        path = module_of(node)
        seen[path] = seen.get(path, 0) + 1
        names.append(path if seen[path] == 1 else f"{path} ({seen[path]})")
    return tuple(names)
