"""`load-text`: nothing -> a checkpoint of a network that reads text."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from edgekit.build.artifact import Artifact
from edgekit.build.pipeline import Progress
from edgekit.build.text.origin import TextOrigin

__all__ = ["LoadText"]


@dataclass(frozen=True, slots=True)
class LoadText:
    """Bring weights and tokenizer into our own form.

    Attributes:
        origin: where they come from.
        max_tokens: the longest text that the network will be given.
    """

    origin: TextOrigin
    max_tokens: int

    name: ClassVar[str] = "load-text"
    version: ClassVar[int] = 1
    accepts: ClassVar[str] = "source"
    returns: ClassVar[str] = "checkpoint"
    tools: ClassVar[tuple[str, ...]] = ("torch", "safetensors", "tokenizers")

    def run(self, source: Artifact, out: Path, progress: Progress) -> None:
        """Write weights, facts and tokenizer.

        Raises:
            InputError: `hf-weights`, `hf-config`, `tokenizer`, `tokenizer-size`; `text-buckets`: texts are longer than it reads.
        """
        import torch

        from edgekit.build.text.checkpoint import read_text_checkpoint, write_text_checkpoint
        from edgekit.build.text.config import read_classes
        from edgekit.build.text.facts import CLASSIFICATION, EMBEDDING, TextFacts
        from edgekit.build.text.network import TextNetwork
        from edgekit.build.text.tokenizer import open_tokenizer
        from edgekit.build.text.weights import load_weights
        from edgekit.build.training.record import state_digest
        from edgekit.spec.errors import InputError

        progress(0.1, "reading the weights")
        origin, folder = self.origin, self.origin.folder.path
        if origin.kind == "checkpoint":
            module, facts, tokenizer = read_text_checkpoint(folder)
            facts = replace(facts, max_tokens=self.max_tokens)
        else:
            config = origin.config()
            tokenizer = open_tokenizer(folder, vocabulary=config.vocabulary)
            classes = read_classes(folder) if origin.kind == "folder" else ()
            torch.manual_seed(origin.seed)
            module = TextNetwork(config, len(classes)).eval()
            if origin.kind == "folder":
                load_weights(module, folder)
            digest = "" if origin.kind == "random" else state_digest(module)
            task = CLASSIFICATION if classes else EMBEDDING
            facts = TextFacts(
                name=origin.name,
                task=task,
                classes=len(classes),
                config=config,
                wordpiece=tokenizer.facts,
                max_tokens=self.max_tokens,
                weights=origin.told,
                weights_sha256=digest,
                license=origin.license,
                names=classes,
            )
        if self.max_tokens > facts.config.positions:
            raise InputError(
                f"texts of {self.max_tokens} tokens are longer than the network reads: {facts.config.positions}",
                where="--tokens",
                fix=f"--tokens {facts.config.positions}",
                code="text-buckets",
            )
        write_text_checkpoint(out, module, facts, tokenizer=tokenizer)
