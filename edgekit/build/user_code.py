"""The user's model file: run it, name its lines in errors, and tell when anything that it depends on changed."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

from edgekit.spec.digest import canonical_json, sha256_bytes, sha256_file
from edgekit.spec.errors import InputError

__all__ = ["FAILURES", "first_line", "import_file", "line_in", "local_digest"]

FAILURES = (Exception, SystemExit)
"""What code that is not ours may raise: anything. A file that calls `sys.exit` must not end a build without a word."""


def import_file(path: Path) -> tuple[ModuleType, tuple[ModuleType, ...]]:
    """Run a model file under a name of its own -> it, and the modules beside it that it imported.

    Raises:
        InputError: `model`; not Python, or it fails.
    """
    name = f"edgekit_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file", where=str(path), fix="pass path/to/file.py:make", code="model")
    code = importlib.util.module_from_spec(spec)
    folder = path.parent.resolve()
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(code)
    except FAILURES as error:
        raise InputError(
            f"importing the model file failed: {type(error).__name__}: {first_line(error)}",
            where=line_in(error, path),
            fix="mend the file; --debug shows the traceback",
            code="model",
        ) from error
    finally:
        sys.path.remove(str(folder))
        beside = {n: sys.modules[n] for n in set(sys.modules) - before if _is_below(sys.modules[n], folder)}
        for each in beside:  # the next build in this process must see them as they are then
            del sys.modules[each]
    return code, tuple(beside.values())


def local_digest(path: Path, beside: tuple[ModuleType, ...]) -> str:
    """Of a model file and of those beside it that it imported."""
    folder = path.parent.resolve()
    files = {str(Path(m.__file__).resolve().relative_to(folder)): Path(m.__file__) for m in beside if m.__file__}
    if not files:
        return sha256_file(path)
    return sha256_bytes(canonical_json([sha256_file(path), {name: sha256_file(file) for name, file in files.items()}]))


def line_in(error: BaseException, path: Path) -> str:
    """`path:line`, the last line of `path` in an error's traceback; `path` alone where it has none."""
    if isinstance(error, SyntaxError) and error.lineno and Path(error.filename or path).resolve() == path.resolve():
        return f"{path}:{error.lineno}"
    line, trace, wanted = 0, error.__traceback__, path.resolve()
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).resolve() == wanted:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{path}:{line}" if line else str(path)


def first_line(error: BaseException) -> str:
    """What an error says, without terminal colours, in one line."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    return re.sub(r"\s+", " ", text).strip()[:200]


def _is_below(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    if not file or not file.endswith(".py") or "site-packages" in file:
        return False
    return folder in Path(file).resolve().parents
