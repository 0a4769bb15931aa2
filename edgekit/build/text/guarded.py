"""A network that reads text, as the guard sees it, and what is tried when its INT8 payloads lose too much."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgekit.bench.promise import Promise
from edgekit.build.artifact import Artifact
from edgekit.build.chains import Bundled
from edgekit.build.likeness import check_alike
from edgekit.build.preparing import Walk
from edgekit.build.recipe import Recipe
from edgekit.build.repairs import Repair, Step, noisiest
from edgekit.build.sensitivity_rows import read_sensitivities
from edgekit.build.stages.answer import FLOAT, Answers, read_answers
from edgekit.build.stages.answer_text import AnswerText, AnswerTextBundle
from edgekit.build.stages.fit_text import ROUNDED_TRAINING, TrainRoundedText
from edgekit.build.stages.sense_text import SenseText
from edgekit.build.text.chains import TextChains
from edgekit.build.text.splits import TextSplits
from edgekit.build.verdicts import promises

__all__ = ["GuardedTexts"]


@dataclass(frozen=True, slots=True)
class GuardedTexts:
    """What `guard` asks of a build from texts; see `guard.Subject`.

    Attributes:
        chains: of the build.
        splits: the data.
        checkpoint: the float network.
        metric: that drops.
    """

    chains: TextChains
    splits: TextSplits
    checkpoint: Artifact
    metric: str

    def repairs(self, walk: Walk) -> tuple[tuple[str, Step], ...]:
        """By what they cost to build and to run; ranges are taken at run time, so there is no observer to choose."""

        def as_built(best: Recipe) -> Repair:
            return Repair("as built", "weights by the output row, activations at run time")

        def mixed(best: Recipe) -> Repair:
            rows = read_sensitivities(walk("sensitivity", (SenseText(self.splits),), self.checkpoint).path)
            layers = noisiest(rows)
            what = f"{len(layers)} of {len(rows)} layers in float: {', '.join(layers)}"
            return Repair("mixed precision", what, replace(best, float_layers=layers), sensitivities=rows)

        def train(best: Recipe) -> Repair:
            training = replace(ROUNDED_TRAINING, seed=self.chains.request.seed, device=self.chains.training.device)
            what = f"{training.epochs} epochs of training with rounding, taught by the float network"
            stage = TrainRoundedText(self.splits, training)
            return Repair("training", what, replace(best, float_layers=()), stage)

        return (("as built", as_built), ("mixed precision", mixed), ("training", train))

    def attempt(self, repair: Repair, walk: Walk) -> tuple[Bundled, Mapping[str, Promise]]:
        """Round, lower, pack; run every payload on the texts to decide on."""
        checkpoint = self.checkpoint if repair.quantize is None else walk("int8", (repair.quantize,), self.checkpoint)
        made = self.chains.bundle(checkpoint, walk, recipe=repair.recipe)
        reference = read_answers(walk("float", (AnswerText(self.splits, "tune"),), self.checkpoint).path)
        asked = walk(repair.name, (AnswerTextBundle(self.checkpoint, self.splits, "tune"),), made.bundle)
        answers = _int8(read_answers(asked.path))
        check_alike(answers.logits, reference=reference.logits[FLOAT], of="texts")
        return made, promises(reference, answers)


def _int8(answers: Answers) -> Answers:
    return replace(answers, logits={name: logits for name, logits in answers.logits.items() if name.endswith("-int8")})
