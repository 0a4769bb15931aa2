"""Runs bundles: numpy and one engine, nothing else.

```
with open("lite0.bundle") as model:
    print(model.run("photo.jpg").labels[0])
```
"""

from edgekit.runtime.model import Model
from edgekit.runtime.model import open_model as open
from edgekit.runtime.results import Label, Latency, Refusal, Result
from edgekit.runtime.text_model import TextModel

__all__ = ["Label", "Latency", "Model", "Refusal", "Result", "TextModel", "open"]
