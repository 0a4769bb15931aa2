"""The steps and epochs of a training."""

import math
import time

import numpy as np
import torch

from edgekit.build.facts import Facts
from edgekit.build.pipeline import Progress
from edgekit.build.training.checkpoints import Keeper, pack
from edgekit.build.training.course import Course
from edgekit.build.training.evaluate import evaluate
from edgekit.build.training.lesson import Epoch
from edgekit.build.training.material import NetworkFacts, material_of
from edgekit.build.training.objective import Objective, hard_loss, learning, soft_loss
from edgekit.build.training.samples import loader
from edgekit.build.training.schedule import rate
from edgekit.build.training.seeds import STEP, seed_of
from edgekit.spec.errors import GoalError

__all__ = ["Run"]

_LARGEST_NORM = 1.0
"""Of the gradient of all weights. A new head's first gradients, or one odd sample, would else throw trained weights away."""


class Run:
    """Runs a course's epochs, keeps checkpoints, tells how it goes."""

    def __init__(self, course: Course, keeper: Keeper, progress: Progress, x: torch.Tensor) -> None:
        """`x` shows device and layout of the network's input."""
        lesson, training = course.lesson, course.training
        self.course, self.keeper, self.progress = course, keeper, progress
        self.device = training.device
        last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
        self.layout = torch.channels_last if last else torch.contiguous_format
        parts = (lesson.fit,) if lesson.unlabelled is None else (lesson.fit, lesson.unlabelled.without_labels())
        self.samples = material_of(parts, lesson.facts, seed=training.seed, augment=training.augment)
        self.objective = Objective(
            course.module,
            lesson.teacher,
            course.alignment,
            lesson.softness,
            training.label_smoothing,
            self.device,
            training.bfloat16,
            lesson.exits,
        )
        facts = lesson.facts
        self.facts = tuple(facts.at(side) for side in training.resolutions_px) if isinstance(facts, Facts) else ()
        self._taught: dict[int, np.ndarray] = {}

    def epoch(self) -> None:
        """What is left of the epoch that runs, and its end."""
        course = self.course
        begun = time.monotonic() - course.sums.seconds
        course.module.train(True)
        batches = course.order.batches(course.epoch, start=course.step)
        for batch, labels in loader(self.samples, batches, device=self.device):
            course.sums.seconds = time.monotonic() - begun
            # Packed before the step and kept after its loss: only weights that were seen to give a number are kept.
            packed = pack(course.state()) if self.keeper.due() else None
            self._step(batch, labels)
            if packed is not None:
                self.keeper.keep(packed)
            self._tell()
        self._close(begun)

    def _step(self, batch: torch.Tensor, labels: torch.Tensor) -> None:
        course, training = self.course, self.course.training
        count, labelled = len(labels), int((labels >= 0).sum())
        batch, labels = (t.to(self.device, non_blocking=True) for t in (batch, labels))
        torch.manual_seed(seed_of(training.seed, STEP, course.done))
        course.optimizer.zero_grad()
        total = torch.zeros(2, dtype=torch.float64, device=self.device)
        parts = math.ceil(count / training.micro_batch)
        for i in range(parts):
            # Every so-manieth sample, so that those without labels, which come last, are spread over all parts.
            x = self.samples.prepare(batch[i::parts]).contiguous(memory_format=self.layout)
            loss, correct = self.objective.part(x, labels[i::parts], count=count, labelled=labelled)
            loss.backward()
            total += torch.stack((loss.detach().double(), correct.double()))
        groups = course.optimizer.param_groups
        norm = torch.nn.utils.clip_grad_norm_([p for g in groups for p in g["params"]], _LARGEST_NORM)
        # One transfer from the device a step.
        loss, correct, length = torch.cat((total, norm.double().reshape(1))).tolist()
        if not (math.isfinite(loss) and math.isfinite(length)):
            raise self._diverged(
                "loss" if not math.isfinite(loss) else "gradient", f"in step {course.done + 1} of {course.steps}"
            )
        for group in groups:
            group["lr"] = rate(course.done, steps=course.steps, training=training) * group["factor"]
        course.optimizer.step()
        course.step += 1
        course.remember()
        sums = course.sums
        sums.loss += loss * count
        sums.correct += correct
        sums.judged += labelled or count
        sums.samples += count

    def _close(self, begun: float) -> None:
        course = self.course
        sums = course.sums
        learning_rate = course.optimizer.param_groups[0]["lr"]
        means = (sums.loss / sums.samples, sums.correct / sums.judged)
        with course.averaged():
            loss, top1 = self._tuned()
            if not math.isfinite(loss):
                raise self._diverged("tuning loss", f"after step {course.done} of {course.steps}")
            course.close_epoch(Epoch(course.epoch, *means, loss, top1, learning_rate, time.monotonic() - begun))
        if self.keeper.path is not None:
            self.keeper.keep(pack(course.state()))
        self.progress(
            course.done / course.steps, f"epoch {len(course.history)} done, tuning loss {loss:.3f}, top-1 {100 * top1:.1f} %"
        )

    def _tuned(self) -> tuple[float, float]:
        """(loss, top-1) on the samples to tune on: the mean over all sides of photos, and over all answers that learn."""
        each = [self._tuned_as(place, facts) for place, facts in enumerate(self.facts or (self.course.lesson.facts,))]
        loss, top1 = np.mean(each, axis=0).tolist()
        return loss, top1

    def _tuned_as(self, place: int, facts: NetworkFacts) -> tuple[float, float]:
        course, lesson = self.course, self.course.lesson
        answers = torch.from_numpy(self._answers(course.module, facts)).double()
        judged = learning(answers, lesson.exits)
        if lesson.tune.labels is not None:
            labels = torch.tensor(lesson.tune.labels)
            losses = [hard_loss(logits, labels) for logits in judged]
        else:
            if place not in self._taught:
                # Exits that learn alone are taught by an answer that stays what it is.
                own = answers[:, -1].float().numpy() if lesson.teacher is None else self._answers(lesson.teacher, facts)
                self._taught[place] = own
            taught = torch.from_numpy(self._taught[place]).double()
            labels = taught.argmax(1)
            losses = [soft_loss(logits, taught, temperature=1.0) for logits in judged]
        right = torch.stack([(logits.argmax(1) == labels).double().mean() for logits in judged])
        return float(torch.stack(losses).mean()) / len(answers), float(right.mean())

    def _answers(self, module: torch.nn.Module, facts: NetworkFacts) -> np.ndarray:
        course = self.course
        return evaluate(module, course.lesson.tune, facts, device=self.device, batch_size=course.training.micro_batch)

    def _tell(self) -> None:
        course, sums = self.course, self.course.sums
        of = f"epoch {course.epoch} of {course.training.epochs}"
        told = f"{of}, loss {sums.loss / sums.samples:.3f}, top-1 {100 * sums.correct / sums.judged:.1f} %"
        self.progress(course.done / course.steps, told)

    def _diverged(self, what: str, when: str) -> GoalError:
        course, path = self.course, self.keeper.path
        kept = path is not None and path.is_file()
        return GoalError(
            f"the training diverged: its {what} is no finite number {when}, epoch {course.epoch} of {course.training.epochs}",
            where=f"the last good weights are in {path}" if kept else "there are no good weights but those it began with",
            fix=f"lower --learning-rate from {course.training.learning_rate:g} to {course.training.learning_rate / 10:g}",
            code="diverged",
        )
