"""From a name or a user's file to a module with weights."""

import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from edgekit.build.network import Network
from edgekit.spec.errors import InputError, SetupError, UnknownName

__all__ = ["make_network", "read_weights"]


def make_network(network: Network) -> nn.Module:
    """The module in evaluation mode, without gradients.

    Raises:
        InputError: `model` (its code fails), `weights` (missing, corrupt, or of another architecture).
    """
    torch.manual_seed(network.seed)
    state, rename = None, None
    if network.weights is not None:
        state = read_weights(network.weights.path)
    code = None if network.file is None else _import_file(network.file.path)
    rename = getattr(code, "rename", None)
    if state is not None and rename is not None:
        state = rename(state)
    module = _construct(network, code, network.classes)
    if state is not None:
        module = _with_weights(network, code, module, state)
    return module.eval().requires_grad_(False)


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
            f"weights cannot be read: {_first_line(error)}",
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


def _with_weights(network: Network, code: ModuleType | None, module: nn.Module, state: dict[str, torch.Tensor]) -> nn.Module:
    mismatch = _mismatch(module, state)
    if mismatch and network.classes is None and (classes := _head_size(module, state)) is not None:
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
    except Exception as error:  # the user's code may raise anything
        raise InputError(
            f"making the model failed: {type(error).__name__}: {_first_line(error)}",
            where=_last_frame(error, network),
            fix=f"make {network.factory}() return an nn.Module; --debug shows the traceback",
            code="model",
        ) from error
    if not isinstance(module, nn.Module):
        raise InputError(
            f"{network.factory} returned a {type(module).__name__}",
            where="" if network.file is None else str(network.file.path),
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


def _import_file(path: Path) -> ModuleType:
    """Run a model file under a name of its own; files beside it can be imported by it."""
    name = f"edgekit_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file", where=str(path), fix="pass path/to/file.py:make", code="model")
    code = importlib.util.module_from_spec(spec)
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(code)
    except Exception as error:  # the user's code may raise anything
        raise InputError(
            f"importing the model file failed: {type(error).__name__}: {_first_line(error)}",
            where=f"{path}:{_line_in(error, path)}",
            fix="mend the file; --debug shows the traceback",
            code="model",
        ) from error
    finally:
        sys.path.remove(folder)
    return code


def _last_frame(error: BaseException, network: Network) -> str:
    return network.factory if network.file is None else f"{network.file.path}:{_line_in(error, network.file.path)}"


def _line_in(error: BaseException, path: Path) -> int:
    """The last line of `path` in an error's traceback."""
    if isinstance(error, SyntaxError) and error.lineno:
        return error.lineno
    line, trace = 1, error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename) == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _first_line(error: BaseException) -> str:
    return re.sub(r"\s+", " ", str(error)).strip()[:200]
