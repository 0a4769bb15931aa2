"""What stages tell each other of a network that reads text, beside its weights: `model.json` of its checkpoint."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from edgekit.build.facts import FILE
from edgekit.build.text.config import TextConfig
from edgekit.build.text.tokenizer import WordPieceFacts
from edgekit.spec import codec
from edgekit.spec.errors import EdgekitError, InputError

__all__ = ["CLASSIFICATION", "EMBEDDING", "TextFacts", "is_text", "read_text_facts", "write_text_facts"]

CLASSIFICATION = "text-classification"
EMBEDDING = "sentence-embedding"


@dataclass(frozen=True, slots=True)
class TextFacts:
    """A network's name, task and input.

    Attributes:
        name: of the model.
        task: `text-classification` or `sentence-embedding`.
        classes: outputs; 0 for an embedding, which has as many numbers as a hidden state.
        config: its structure.
        wordpiece: how texts become ids.
        max_tokens: to which longer texts are cut, [CLS] and [SEP] included.
        weights: where they came from; `random` where nobody trained them.
        weights_sha256: digest of the weights; empty for random ones.
        license: of the weights.
        names: of the classes, where the data that the network was fitted to named them.
    """

    name: str
    task: str
    classes: int
    config: TextConfig
    wordpiece: WordPieceFacts
    max_tokens: int
    weights: str
    weights_sha256: str
    license: str
    names: tuple[str, ...] = ()

    @property
    def outputs(self) -> int:
        """Numbers that the network gives for a text."""
        return self.classes or self.config.hidden

    def with_classes(self, classes: int) -> "TextFacts":
        """The same network with another number of outputs; names of another number of classes are dropped."""
        if classes == self.classes:
            return self
        return replace(self, classes=classes, names=(), task=CLASSIFICATION if classes else EMBEDDING)


def write_text_facts(folder: Path, facts: TextFacts) -> None:
    """Write `model.json`."""
    (folder / FILE).write_text(json.dumps(codec.to_json(facts), indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_text_facts(folder: Path) -> TextFacts:
    """Read `model.json`.

    Raises:
        InputError: `weights`; it is missing or damaged, or of a network that reads no text.
    """
    path = folder / FILE

    def fail(what: str, where: str) -> EdgekitError:
        return InputError(what, where=where, fix="write the checkpoint again with edgekit fit", code="weights")

    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise fail(f"{folder} is no checkpoint: it holds no {FILE}", str(folder)) from None
    except (OSError, ValueError) as error:
        raise fail(f"the checkpoint's {FILE} cannot be read: {error}", str(path)) from None
    return codec.from_json(TextFacts, data, where=str(path), fail=fail)


def is_text(folder: Path) -> bool:
    """Whether a checkpoint's folder says that its network reads text."""
    try:
        data = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(data, dict) and data.get("task") in (CLASSIFICATION, EMBEDDING)
