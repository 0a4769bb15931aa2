"""From a name or a user's file to a module with weights."""

import inspect
import pickle
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from edgekit.build.network import Network
from edgekit.build.user_code import FAILURES, first_line, import_file, line_in, local_digest
from edgekit.spec.digest import canonical_json, sha256_bytes
from edgekit.spec.errors import InputError, SetupError, UnknownName

__all__ = ["fingerprint", "head_rows", "is_random", "make_network", "read_weights"]


def make_network(network: Network) -> nn.Module:
    """The module in evaluation mode, without gradients.

    Raises:
        InputError: `model` (its code fails), `weights` (missing, corrupt, or of another architecture).
    """
    torch.manual_seed(network.seed)
    state, rename = None, None
    if network.weights is not None:
        state = read_weights(network.weights.path)
    code = None if network.file is None else import_file(network.file.path)[0]
    rename = getattr(code, "rename", None)
    if state is not None and rename is not None:
        state = rename(state)
    module = _construct(network, code, network.classes)
    if state is not None:
        module = _with_weights(network, code, module, state)
    _check_weights(network, module)
    return module.eval().requires_grad_(False).float()


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """A `.pth`, `.pt` or `.safetensors` file -> its tensors by name. Pickled code is never run.

    Raises:
        InputError: `weights`; not readable, or not a table of tensors.
    """
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state: Any = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # each format fails with classes of its own
        raise InputError(
            f"weights cannot be read: {_why_unreadable(error)}",
            where=str(path),
            fix="pass a .pth saved with torch.save(model.state_dict(), ...) or a .safetensors file",
            code="weights",
        ) from error
    for wrapper in ("state_dict", "model_state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(wrapper), dict):
            state = state[wrapper]
    if not isinstance(state, dict) or not state or not all(isinstance(v, torch.Tensor) for v in state.values()):
        raise InputError(
            f"weights are a {type(state).__name__}, not a table of tensors",
            where=str(path),
            fix="save model.state_dict(), not the model",
            code="weights",
        )
    return {key.removeprefix("module."): value for key, value in state.items()}


def head_rows(network: Network) -> int | None:
    """Number of classes that the weights, or what the user's file makes, seem to have: rows of the last matrix; None without one.

    Raises:
        InputError: see `make_network`.
    """
    if network.weights is not None:
        state: Mapping[str, torch.Tensor] = read_weights(network.weights.path)
    else:
        code = None if network.file is None else import_file(network.file.path)[0]
        state = _construct(network, code, network.classes).state_dict()
    matrices = [value for value in state.values() if not is_lazy(value) and value.dim() == 2]
    return int(matrices[-1].shape[0]) if matrices else None


def fingerprint(network: Network) -> str:
    """Of all that a user's file makes a network of: the file, what it imports from its folder, the weights that it loads itself.

    Raises:
        InputError: see `make_network`.
    """
    if network.file is None:
        return ""
    code, beside = import_file(network.file.path)
    parts = [local_digest(network.file.path, beside)]
    if network.weights is None:
        torch.manual_seed(network.seed)
        state = _construct(network, code, network.classes).state_dict()
        parts += [f"{key} {sha256_bytes(_bytes(value))}" for key, value in state.items() if not is_lazy(value)]
    return sha256_bytes(canonical_json(parts))


def _bytes(value: torch.Tensor) -> bytes:
    return bytes(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()) if value.numel() else b""


def is_random(network: Network) -> bool:
    """Whether another seed gives other weights, for most of them: then nobody trained them.

    A factory that loads trained weights by itself gives the same every time, at most with a new head.
    """
    if network.weights is not None:
        return False
    code = None if network.file is None else import_file(network.file.path)[0]
    states = []
    for seed in (network.seed, network.seed + 1):
        torch.manual_seed(seed)
        states.append(_construct(network, code, network.classes).state_dict())
    weights = {key: value.numel() for key, value in states[0].items() if value.dim() > 1 and value.is_floating_point()}
    other = sum(count for key, count in weights.items() if not torch.equal(states[0][key], states[1][key]))
    return 2 * other > sum(weights.values())


def _why_unreadable(error: Exception) -> str:
    if isinstance(error, pickle.UnpicklingError):
        # What torch says here is how to run that code after all.
        return "the file is damaged, or holds Python objects beside tensors, whose code is never run"
    if isinstance(error, EOFError | IndexError | KeyError | UnicodeDecodeError):
        return "the file is damaged, or of another format"
    return first_line(error).partition(". ")[0]


def _with_weights(network: Network, code: ModuleType | None, module: nn.Module, state: dict[str, torch.Tensor]) -> nn.Module:
    mismatch = _mismatch(module, state)
    classes = _head_size(module, state) if mismatch else None
    if classes is not None and network.classes not in (None, classes):
        raise InputError(
            f"the weights are of {classes} classes, --classes asks for {network.classes}",
            where="" if network.weights is None else str(network.weights.path),
            fix="leave --classes out, or pass weights of a network trained for your classes",
            code="classes",
        )
    if classes is not None:
        module = _construct(network, code, classes)
        mismatch = _mismatch(module, state)
    if mismatch:
        raise InputError(
            f"weights are of another architecture than {network.factory}: {mismatch}",
            where="" if network.weights is None else str(network.weights.path),
            fix="name the model that these weights belong to with --model, or pass its own weights",
            code="weights",
        )
    module.load_state_dict(state, strict=False)
    return module


def _check_weights(network: Network, module: nn.Module) -> None:
    if any(is_lazy(parameter) for parameter in module.parameters()):
        raise InputError(
            "the network has lazy layers, whose size nobody knows yet",
            where=network.factory if network.file is None else str(network.file.path),
            fix=f"let {network.factory}() run the network once before it returns it",
            code="model",
        )
    bad = [key for key, value in module.state_dict().items() if not value.isfinite().all()]
    if bad:
        source = network.weights or network.file
        raise InputError(
            f"{len(bad)} weights hold values that are no numbers: {', '.join(bad[:3])}{' ...' if len(bad) > 3 else ''}",
            where=network.factory if source is None else str(source.path),
            fix="take a checkpoint from before the training diverged",
            code="weights",
        )


def _mismatch(module: nn.Module, state: dict[str, torch.Tensor]) -> str:
    """What keeps `state` from being this module's weights, with the first few names; empty if nothing does."""
    own = {key: value for key, value in module.state_dict().items() if not key.endswith("num_batches_tracked")}
    missing = [key for key in own if key not in state]
    extra = [key for key in state if key not in own and not key.endswith("num_batches_tracked")]
    shapes = [
        f"{key} is {tuple(state[key].shape)} instead of {tuple(own[key].shape)}"
        for key in own
        if key in state and own[key].shape != state[key].shape
    ]
    parts = []
    for title, names in (("missing", missing), ("unexpected", extra), ("shape:", shapes)):
        if names:
            parts.append(f"{len(names)} {title} {', '.join(names[:2])}{' ...' if len(names) > 2 else ''}")
    return "; ".join(parts)


def _head_size(module: nn.Module, state: dict[str, torch.Tensor]) -> int | None:
    """Number of classes in `state`, if only the last linear layer differs from the module's."""
    heads = [name for name, layer in module.named_modules() if isinstance(layer, nn.Linear)]
    key = f"{heads[-1]}.weight" if heads else ""
    return int(state[key].shape[0]) if key in state and state[key].dim() == 2 else None


def _construct(network: Network, code: ModuleType | None, classes: int | None) -> nn.Module:
    try:
        if network.kind == "timm":
            module = _timm(network.factory, classes)
        elif network.kind == "family":
            module = code.make(network.factory, classes=classes or _default_classes(code, network.factory))
        else:
            factory = getattr(code, network.factory)
            module = factory(**_class_option(factory, classes))
    except (InputError, SetupError):
        raise
    except FAILURES as error:
        raise InputError(
            f"making the model failed: {type(error).__name__}: {first_line(error)}",
            where=_last_frame(error, network),
            fix=f"make {network.factory}() return an nn.Module; --debug shows the traceback",
            code="model",
        ) from error
    if not isinstance(module, nn.Module):
        raise InputError(
            f"{network.factory} returned no nn.Module, but: {type(module).__name__}",
            where=network.factory if network.file is None else f"{network.file.path}, {network.factory}",
            fix="return an nn.Module",
            code="model",
        )
    return module


def _default_classes(code: ModuleType | None, name: str) -> int:
    return int(code.SPECS[name]["classes"])


def _class_option(factory: Any, classes: int | None) -> dict[str, int]:
    if classes is None:
        return {}
    names = inspect.signature(factory).parameters
    option = next((name for name in ("classes", "num_classes") if name in names), None)
    return {} if option is None else {option: classes}


def _timm(name: str, classes: int | None) -> nn.Module:
    try:
        import timm
    except ImportError as error:
        raise SetupError(f"timm is not installed: {error}", where=f"timm:{name}", fix="pip install timm torchvision") from error
    options = {} if classes is None else {"num_classes": classes}
    if not timm.is_model(name):
        raise UnknownName("model", name, timm.list_models(), listing='python -c "import timm; print(timm.list_models())"')
    return timm.create_model(name, pretrained=False, **options)


def _last_frame(error: BaseException, network: Network) -> str:
    return network.factory if network.file is None else line_in(error, network.file.path)
