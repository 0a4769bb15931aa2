"""What a network is to make small: distance from labels, from a teacher's answers, from its feature maps.

Every function gives a sum over samples and leaves the division to its caller: parts of a step then add up to the whole step.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgekit.build.training.device import autocast
from edgekit.build.training.features import Alignment
from edgekit.build.training.plan import Exits, SoftLabels

__all__ = ["Objective", "hard_loss", "learning", "soft_loss"]


def hard_loss(logits: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """(n, classes) float32, (n,) int64 -> () : cross entropy, summed; negative labels count nothing.

    Smoothing moves that share of each label evenly onto all classes (Szegedy et al., arXiv 1512.00567, section 7).
    """
    return F.cross_entropy(logits, labels, label_smoothing=smoothing, ignore_index=-1, reduction="sum")


def soft_loss(logits: Tensor, taught: Tensor, *, temperature: float) -> Tensor:
    """(n, classes) float32 of student and teacher -> () : KL divergence at a temperature, summed.

    Hinton et al., Distilling the Knowledge in a Neural Network (arXiv 1503.02531), section 2: times the temperature's square, so
    that its gradients stay as large as those of the labels whatever the temperature is.
    """
    student = F.log_softmax(logits / temperature, dim=1)
    teacher = F.log_softmax(taught / temperature, dim=1)
    return F.kl_div(student, teacher, reduction="sum", log_target=True) * temperature**2


def learning(answers: Tensor, exits: Exits | None) -> tuple[Tensor, ...]:
    """(n, classes), or (n, exits + 1, classes) with exits -> (n, classes) of each answer that learns, in their order."""
    if exits is None:
        return (answers,)
    return answers.unbind(1) if exits.joint else answers[:, :-1].unbind(1)


@dataclass(frozen=True, slots=True)
class Objective:
    """The loss of a lesson.

    Attributes:
        module: that learns.
        teacher: see `Lesson`.
        alignment: of feature maps; None leaves it out.
        soft: see `Lesson`; None without a teacher.
        smoothing: of labels.
        device: `cpu` or `cuda`.
        bfloat16: see `Training`.
        exits: see `Lesson`.
    """

    module: nn.Module
    teacher: nn.Module | None
    alignment: Alignment | None
    soft: SoftLabels | None
    smoothing: float
    device: str
    bfloat16: bool = False
    exits: Exits | None = None

    def part(self, x: Tensor, labels: Tensor, *, count: int, labelled: int) -> tuple[Tensor, Tensor]:
        """Input of n samples, (n,) int64 -> (its share of the step's loss, samples answered right: the mean over all answers).

        Args:
            x: input of a part of a step.
            labels: negative where there is none.
            count: samples in the whole step.
            labelled: samples with a label in the whole step.
        """
        with autocast(self.device, on_cpu=self.bfloat16):
            taught = self._taught(x)
            answers = self.module(x).float()
        logits = answers if self.exits is None else answers[:, -1]
        teacher = taught if taught is not None or self.exits is None else logits.detach()
        # Without any label the teacher's answer is what counts as right.
        right = labels if labelled or teacher is None else teacher.argmax(1)
        judged = torch.stack(learning(answers.detach(), self.exits))
        correct = (judged.argmax(2) == right).double().sum() / len(judged)
        loss = logits.new_zeros(())
        if self.exits is not None:
            loss = loss + self._of_exits(answers, labels, self.exits, count=count, labelled=labelled)
            if not self.exits.joint:
                return loss, correct
        share = 0.0 if self.soft is None else self.soft.share
        if labelled and share < 1:
            loss = loss + (1 - share) * hard_loss(logits, labels, smoothing=self.smoothing) / labelled
        if taught is not None and self.soft is not None:
            loss = loss + share * soft_loss(logits, taught, temperature=self.soft.temperature) / count
        if self.alignment is not None and self.soft is not None:
            loss = loss + self.soft.features * self.alignment.loss() / count
        return loss, correct

    def _of_exits(self, answers: Tensor, labels: Tensor, exits: Exits, *, count: int, labelled: int) -> Tensor:
        """What early exits add to the loss; the last answer teaches them and learns nothing from that."""
        *early, last = answers.unbind(1)
        soft, loss = exits.soft, answers.new_zeros(())
        for weight, logits in zip(exits.weights_of(len(early)), early, strict=True):
            taught = soft_loss(logits, last.detach(), temperature=soft.temperature)
            loss = loss + weight * soft.share * taught / count
            if labelled and soft.share < 1:
                loss = loss + weight * (1 - soft.share) * hard_loss(logits, labels, smoothing=self.smoothing) / labelled
        return loss

    def _taught(self, x: Tensor) -> Tensor | None:
        if self.teacher is None:
            return None
        with torch.no_grad():
            return self.teacher(x).float()
