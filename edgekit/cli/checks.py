"""What can be said about arguments before anything slow is imported."""

import contextlib
import importlib.util
import os
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from edgekit.spec.errors import InputError, SetupError

__all__ = [
    "checkpoint_can_be_written",
    "data",
    "installed_for_build",
    "installed_for_training",
    "out_can_be_written",
    "out_path",
    "store_can_be_written",
    "weights",
]

_WEIGHTS = (".pth", ".pt", ".safetensors")
_MODULES = (
    ("torch", ()),
    ("torchao", ()),
    ("executorch", ("executorch",)),
    ("onnx", ("onnx",)),
    ("onnxscript", ("onnx",)),
    ("litert_torch", ("litert",)),
    ("ai_edge_quantizer", ("litert",)),
)
"""Modules that a build imports, and the engines that need them; none named: all do."""

_TRAINING_MODULES = ("torch", "torchvision")


def data(path: Path | None, *, text: bool = False, option: str = "--data") -> None:
    """Refuse data of `option` that is not there, cannot be read, is empty, or is of another kind than the network reads."""
    if path is None:
        return
    kind = ".csv" if text else ".npz"
    fix = "name a CSV of texts, or a folder of such" if text else "name a folder of images or an .npz file"
    if not path.exists():
        raise InputError(f"there is no {path}", where=option, fix=fix, code="data-missing")
    if path.is_file() and path.suffix.lower() != kind:
        raise InputError(f"{path} is a file, but no {kind}", where=option, fix=fix, code="data-kind")
    try:
        empty = path.is_dir() and not any(path.iterdir())
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}", where=option, fix="check its permissions", code="data-unreadable"
        ) from error
    if empty:
        raise InputError(f"{path} is empty", where=option, fix=fix, code="data-empty")


def weights(path: Path | None, *, text: bool = False, option: str = "--weights") -> None:
    """Refuse weights of `option` that are not there, cannot be read, or have another ending."""
    if path is None or path.is_dir():  # a checkpoint: what it holds is checked where it is read
        return
    if text:
        raise InputError(
            f"{path} is a file, no folder" if path.exists() else f"there is no {path}",
            where=option,
            fix="name a folder that edgekit fit wrote, or one as Hugging Face's save_pretrained writes it",
            code="weights-kind" if path.exists() else "weights-missing",
        )
    if path.suffix not in _WEIGHTS:
        raise InputError(
            f"{path} does not end in {', '.join(_WEIGHTS)}", where=option, fix="save a state dict there", code="weights-kind"
        )
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}", where=option, fix="check the path", code="weights-missing"
        ) from error
    if empty:
        raise InputError(f"{path} is empty", where=option, fix="save a state dict there", code="weights-corrupt")


def out_path(out: Path | None, *, name: str, as_zip: bool) -> tuple[Path, bool]:
    """`--out` and `--zip` -> where the bundle goes, and whether it is one file; an `.ekb` ending means a file as well."""
    place = out if out is not None else Path("bundles") / name
    packed = as_zip or place.suffix == ".ekb"
    return (place.with_name(place.name + ".ekb") if packed and place.suffix != ".ekb" else place), packed


def out_can_be_written(out: Path) -> None:
    """Refuse an `--out` that cannot be written or holds something that is no bundle; nothing remains of the attempt."""
    _place_can_be_written(out, replaceable=_may_be_replaced(out), kind="bundle")


def checkpoint_can_be_written(out: Path) -> None:
    """Refuse an `--out` that cannot be written or holds something that is no checkpoint."""
    fine = out.is_dir() and ((out / "model.json").is_file() or not any(out.iterdir()))
    _place_can_be_written(out, replaceable=fine, kind="checkpoint")


def _place_can_be_written(out: Path, *, replaceable: bool, kind: str) -> None:
    if out.exists() and not replaceable:
        raise InputError(
            f"{out} is there already and is no {kind}",
            where="--out",
            fix="name another place, or remove it",
            code="output-exists",
        )
    folder = out.absolute().parent
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as probe:
            probe.write(b"x" * 4096)
            probe.flush()
            # Some file systems only find out that they are full when the bytes must really go somewhere.
            with contextlib.suppress(AttributeError):
                os.fdatasync(probe.fileno())
    except OSError as error:
        raise InputError(
            f"cannot write to {folder}: {error.strerror}",
            where="--out",
            fix="name a folder that can be written and has space left",
            code="output-unwritable",
        ) from error


def _may_be_replaced(out: Path) -> bool:
    if out.suffix == ".ekb":
        return out.is_file() and (out.stat().st_size == 0 or zipfile.is_zipfile(out))
    return out.is_dir() and ((out / "manifest.json").is_file() or not any(out.iterdir()))


def store_can_be_written(path: Path | None) -> None:
    """Refuse a store that cannot be written; it is made if it is not there yet."""
    from edgekit.build.store import Store, default_root

    store = Store(path or default_root())
    with store.explained():
        store.root.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=store.root):
            pass


def installed_for_build(engines: Sequence[str]) -> None:
    """Refuse to begin if a library that the build needs is not installed."""
    missing = [
        module for module, needed_by in _MODULES if (not needed_by or set(needed_by) & set(engines)) and not _is_installed(module)
    ]
    _refuse_missing(missing)


def installed_for_training() -> None:
    """Refuse to begin if a library that training needs is not installed; no converter is needed."""
    _refuse_missing([module for module in _TRAINING_MODULES if not _is_installed(module)])


def _refuse_missing(missing: Sequence[str]) -> None:
    if missing:
        raise SetupError(
            f"building needs {', '.join(missing)}",
            where="the Python environment",
            fix="pip install 'edgekit[build]', or see: edgekit doctor",
            code="build-extra-missing",
        )


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
