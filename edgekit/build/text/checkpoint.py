"""A checkpoint of a network that reads text: weights, facts, tokenizer, and how it was trained."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from edgekit.build.checkpoint import HISTORY, WEIGHTS
from edgekit.build.text.facts import TextFacts, read_text_facts, write_text_facts
from edgekit.build.text.network import TextNetwork
from edgekit.build.text.tokenizer import Tokenizer, open_tokenizer
from edgekit.spec.errors import InputError

__all__ = ["TOKENIZER", "read_text_checkpoint", "with_text_head", "write_text_checkpoint"]

TOKENIZER = "tokenizer"


def write_text_checkpoint(
    out: Path, module: TextNetwork, facts: TextFacts, *, tokenizer: Tokenizer, history: Mapping[str, Any] | None = None
) -> None:
    """Write `weights.pt`, `model.json`, `tokenizer/` and, if anything was trained, `history.json` into `out`."""
    # On a full disk torch's own writer ends the whole process.
    buffer = io.BytesIO()
    torch.save({key: value.cpu() for key, value in module.state_dict().items()}, buffer)
    (out / WEIGHTS).write_bytes(buffer.getbuffer())
    tokenizer.write(out / TOKENIZER)
    write_text_facts(out, facts)
    if history:
        (out / HISTORY).write_text(json.dumps(history, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_text_checkpoint(folder: Path) -> tuple[TextNetwork, TextFacts, Tokenizer]:
    """The network as the checkpoint has it, in evaluation mode, without gradients; its facts and its tokenizer.

    Raises:
        InputError: `weights` (missing, damaged, or of another structure than the facts say), `tokenizer`, `tokenizer-size`.
    """
    facts = read_text_facts(folder)
    tokenizer = open_tokenizer(folder / TOKENIZER, vocabulary=facts.config.vocabulary)
    module = TextNetwork(facts.config, facts.classes)
    try:
        module.load_state_dict(_state(folder))
    except RuntimeError as error:
        raise _damaged(
            folder, f"the weights are not of the network in model.json: {str(error).splitlines()[-1].strip()}"
        ) from None
    return module.eval().requires_grad_(False), facts, tokenizer


def with_text_head(folder: Path, classes: int, *, seed: int, keep: bool) -> tuple[TextNetwork, tuple[str, ...]]:
    """The checkpoint's network with `classes` outputs, and the names of the tensors that are new: none where its head stays.

    Args:
        folder: the checkpoint.
        classes: wanted outputs.
        seed: of a new head.
        keep: whether a head of as many classes stays; not where these mean something else.

    Raises:
        InputError: see `read_text_checkpoint`.
    """
    module, facts, _ = read_text_checkpoint(folder)
    if keep and facts.classes == classes:
        return module, ()
    torch.manual_seed(seed)
    wider = TextNetwork(facts.config, classes)
    known = {key: value for key, value in module.state_dict().items() if not key.startswith("head.")}
    missing = wider.load_state_dict(known, strict=False).missing_keys
    return wider.eval().requires_grad_(False), tuple(missing)


def _state(folder: Path) -> dict[str, torch.Tensor]:
    try:
        state = torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise _damaged(folder, f"it holds no {WEIGHTS}") from None
    except Exception:  # torch has no class of its own for a damaged file
        raise _damaged(folder, f"its {WEIGHTS} is damaged") from None
    bad = [key for key, value in state.items() if not value.isfinite().all()]
    if bad:
        raise _damaged(folder, f"{len(bad)} weights hold values that are no numbers: {', '.join(bad[:3])}")
    return state


def _damaged(folder: Path, what: str) -> InputError:
    return InputError(
        f"the checkpoint cannot be used: {what}",
        where=str(folder),
        fix="write it again with edgekit fit",
        code="weights",
    )
