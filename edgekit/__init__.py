"""From a PyTorch model and a device's name to a bundle that runs there: small, fast, proved.

```
import edgekit

edgekit.build("efficientnet_lite0", target="snapdragon865", out="lite0")
with edgekit.open("lite0") as model:
    print(model.run("photo.jpg").labels[0])
```
"""

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgekit.runtime import open
    from edgekit.verbs import build

__all__ = ["build", "open"]


class _BuildPackage(types.ModuleType):
    """`edgekit.build` is a package and a verb: called, it is `edgekit.verbs.build`."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return importlib.import_module("edgekit.verbs").build(*args, **options)


class _Edgekit(types.ModuleType):
    """Sees the import system set the attribute `build`, which would hide the function of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "build" and type(value) is types.ModuleType:
            value.__class__ = _BuildPackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Edgekit


def __getattr__(name: str) -> Any:
    """`build` and `open` are imported when they are first asked for: one needs torch, the other does not."""
    if name == "open":
        from edgekit.runtime import open

        return open
    if name == "build":
        return importlib.import_module("edgekit.build")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Names to offer."""
    return [*__all__]
