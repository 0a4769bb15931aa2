"""A network that looks at photos, as the guard sees it."""

from collections.abc import Mapping
from dataclasses import dataclass

from edgekit.bench.promise import Promise
from edgekit.build.artifact import Artifact
from edgekit.build.chains import Bundled, Chains
from edgekit.build.preparing import Walk
from edgekit.build.repairs import Repair, Step, repairs
from edgekit.build.splits import Splits
from edgekit.build.stages.answer import AnswerBundle, AnswerFloat, read_answers
from edgekit.build.stages.quantize import Quantize, is_dynamic
from edgekit.build.verdicts import pairs_agree, promises

__all__ = ["GuardedPhotos"]


@dataclass(frozen=True, slots=True)
class GuardedPhotos:
    """What `guard` asks of a build from photos; see `guard.Subject`.

    Attributes:
        chains: of the build.
        splits: the data.
        program: the float program.
        metric: that drops.
    """

    chains: Chains
    splits: Splits
    program: Artifact
    metric: str

    def repairs(self, walk: Walk) -> tuple[tuple[str, Step], ...]:
        """All five; a network with attention has no scales to mend, only layers to leave in float."""
        quantized = walk("int8", (Quantize(self.chains.photos),), self.program)
        return repairs(self.chains, self.program, walk, dynamic=is_dynamic(quantized.path))

    def attempt(self, repair: Repair, walk: Walk) -> tuple[Bundled, Mapping[str, Promise]]:
        """Quantize, lower, pack; run every payload on the photos to decide on."""
        made = self.chains.bundle(self.program, walk, recipe=repair.recipe, quantize=repair.quantize)
        reference = walk("float", (AnswerFloat(self.splits, "tune"),), self.program)
        asked = walk(repair.name, (AnswerBundle(self.splits, "tune", self.chains.facts),), made.bundle)
        answers = read_answers(asked.path)
        pairs_agree(answers)
        found = promises(read_answers(reference.path), answers)
        return made, {name: each for name, each in found.items() if name.endswith("-int8")}
