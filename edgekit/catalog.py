"""From a name or a path to a model, a target, an engine or a lowering. Nothing found here is run, and torch is never imported.

Models and targets are files in folders: those of the checkout or the copies inside an installed edgekit, and the folder of
every module that another distribution declares in the entry point groups `edgekit.models` and `edgekit.targets`.
"""

import ast
import importlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from edgekit.build.request import ModelSource
from edgekit.host import complete
from edgekit.spec.errors import InputError, SetupError, UnknownName
from edgekit.spec.model import ModelSpec, specs_from_file
from edgekit.spec.target import TargetProfile, load_target

if TYPE_CHECKING:
    from edgekit.runtime.engines import Engine

__all__ = [
    "engine_names",
    "find_engine",
    "find_lowering",
    "find_model",
    "find_target",
    "lowering_names",
    "model_names",
    "target_names",
]

TOKENS = (16, 32, 64, 128)
"""Lengths of text that a network is built for, unless its file or the user says otherwise."""

_IMAGENET_MEAN = (123.675, 116.28, 103.53)
_IMAGENET_STD = (58.395, 57.12, 57.375)


def model_names() -> tuple[str, ...]:
    """All models that have a name, by family."""
    return tuple(_specs())


def find_model(text: str) -> ModelSource:
    """`efficientnet_lite0`, `path/file.py:make`, `timm:NAME` or `hf:DIR` -> where that network comes from.

    Raises:
        UnknownName: no such model or function, with the nearest names.
        InputError: the file is missing or is not Python.
    """
    if text.startswith("timm:"):
        return _timm(text.removeprefix("timm:"))
    if text.startswith("hf:"):
        return _hugging_face(Path(text.removeprefix("hf:")))
    path, _, factory = text.partition(".py:")
    if text.endswith(".py") or factory:
        return _user_file(Path(text if text.endswith(".py") else f"{path}.py"), factory or "make")
    specs = _specs()
    if text not in specs:
        raise UnknownName("model", text, specs, listing="edgekit models")
    return ModelSource("family", text, specs[text].family, specs[text])


def target_names() -> tuple[str, ...]:
    """All targets, in alphabetical order."""
    return tuple(sorted(_target_files()))


def find_target(text: str) -> TargetProfile:
    """A name, an alias or the path of a `.yaml` file -> that device; of the host with the cores of this machine.

    Raises:
        UnknownName: no such target, with the nearest names.
        InputError: the file is missing or breaks the rules of docs/target-format.md.
    """
    if text.endswith((".yaml", ".yml")):
        return complete(load_target(Path(text)))
    files = _target_files()
    if text in files:
        return complete(load_target(files[text]))
    by_alias = {alias: target for target in map(load_target, files.values()) for alias in target.aliases}
    if text not in by_alias:
        raise UnknownName("target", text, {*files, *by_alias}, listing="edgekit targets")
    return complete(by_alias[text])


def engine_names() -> tuple[str, ...]:
    """All engines that edgekit or another distribution brings code for, installed or not."""
    from edgekit.runtime import engines

    return engines.names()


def find_engine(name: str) -> "Engine":
    """The module that runs payloads of engine `name`; the engine itself is imported only by its `load`.

    Raises:
        UnknownName: no such engine.
    """
    from edgekit.runtime import engines

    return engines.find(name)


def lowering_names() -> tuple[str, ...]:
    """All payload formats that can be built."""
    return tuple(sorted({entry.name for entry in importlib.metadata.entry_points(group="edgekit.lowerings")}))


def find_lowering(name: str) -> ModuleType:
    """The module that lowers to payloads of engine `name`; this one imports torch.

    Raises:
        UnknownName: no such lowering.
    """
    for entry in importlib.metadata.entry_points(group="edgekit.lowerings", name=name):
        return importlib.import_module(entry.value)
    raise UnknownName("lowering", name, lowering_names(), listing="edgekit doctor")


def _specs() -> dict[str, ModelSpec]:
    specs: dict[str, ModelSpec] = {}
    for folder in _folders("models"):
        for path in sorted(folder.glob("[!_]*.py")):
            for spec in specs_from_file(path):
                _refuse_twice("model", spec.name, specs[spec.name].family if spec.name in specs else None, path)
                specs[spec.name] = spec
    return specs


def _target_files() -> dict[str, Path]:
    files: dict[str, Path] = {}
    for folder in _folders("targets"):
        for path in sorted(folder.glob("*.yaml")):
            _refuse_twice("target", path.stem, files.get(path.stem), path)
            files[path.stem] = path
    return files


def _refuse_twice(kind: str, name: str, first: Path | None, second: Path) -> None:
    if first is not None:
        raise InputError(f"two files define the {kind} {name!r}", where=f"{first} and {second}", fix="rename one", code="catalog")


def _folders(kind: str) -> Iterator[Path]:
    """Folders that hold the files of a kind, edgekit's own first."""
    package = Path(__file__).resolve().parent
    checkout = package.parent
    if (package / f"_{kind}").is_dir():
        yield package / f"_{kind}"
    # A bare folder beside the package could be anybody's `models` in site-packages: it counts only in a checkout.
    elif (checkout / "pyproject.toml").is_file():
        yield checkout / kind
    for entry in sorted(importlib.metadata.entry_points(group=f"edgekit.{kind}"), key=lambda entry: entry.name):
        yield _module_folder(entry)


def _module_folder(entry: importlib.metadata.EntryPoint) -> Path:
    try:
        found = importlib.util.find_spec(entry.value)
    except ImportError:
        found = None
    if found is None or not (found.submodule_search_locations or found.origin):
        raise SetupError(
            f"entry point {entry.name!r} names the module {entry.value!r}, which is not installed",
            where=f"group {entry.group}",
            fix="install or remove the distribution that declares it",
            code="entry-point",
        )
    return Path(found.submodule_search_locations[0]) if found.submodule_search_locations else Path(str(found.origin)).parent


def _timm(name: str) -> ModelSource:
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        raise InputError(f"{name!r} is no name of a timm model", where="model name", fix="write timm:NAME", code="unknown-model")
    return ModelSource("timm", name, None, None)


def _hugging_face(folder: Path) -> ModelSource:
    """A local folder with config.json, weights and tokenizer; what is in it is read by the builder."""
    if not (folder / "config.json").is_file():
        raise InputError(
            "there is no config.json" if folder.is_dir() else "there is no such folder",
            where=str(folder),
            fix="name a local folder as Hugging Face's save_pretrained writes it: --model hf:DIR",
            code="hf-folder",
        )
    name = _plain_name(folder.resolve().name)
    spec = ModelSpec(name, folder, "sentence-embedding", tokens=TOKENS, description="a local Hugging Face folder")
    return ModelSource("hf", name, folder, spec)


def _user_file(path: Path, factory: str) -> ModelSource:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except OSError as error:
        raise InputError(
            f"cannot read the model: {error.strerror}", where=str(path), fix="check the path", code="model"
        ) from error
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise InputError(f"not Python: {error}", where=f"{path}{line}", fix="mend the file", code="model") from error
    names = set(_assigned(tree))
    specs = {spec.name: spec for spec in specs_from_file(path)} if "SPECS" in names else {}
    if factory in specs and "make" in names:
        return ModelSource("family", factory, path, specs[factory])
    functions = names - {"SPECS"}
    if factory not in functions and not _imports_all(tree):
        raise UnknownName("function", factory, {*specs, *functions}, listing=f"{path}:NAME takes a function of the file, which")
    return ModelSource("file", factory, path, specs.get(factory) or _assumed(path))


def _assigned(tree: ast.Module) -> Iterator[str]:
    """Names that the top level of a module defines, assigns or imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _imports_all(tree: ast.Module) -> bool:
    return any(alias.name == "*" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names)


def _plain_name(text: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "_", text.lower()).strip("_-") or "model"


def _assumed(path: Path) -> ModelSpec:
    name = _plain_name(path.stem)
    return ModelSpec(
        name=name,
        family=path,
        task="image-classification",
        classes=0,
        resolution_px=224,
        mean=_IMAGENET_MEAN,
        std=_IMAGENET_STD,
        description="the user's own network",
    )
