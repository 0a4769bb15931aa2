"""The float network before it is exported: fitted to the data, taught, made smaller.

Written against a `walk`, which runs a chain or only notes it: a plan and a build cannot differ.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from edgekit.build.artifact import Artifact, Pinned, pin
from edgekit.build.compression import Compression
from edgekit.build.facts import Facts
from edgekit.build.network import Network
from edgekit.build.pipeline import Stage
from edgekit.build.splits import Splits
from edgekit.build.stages.distill import Distill
from edgekit.build.stages.fit import Fit
from edgekit.build.stages.load import Load
from edgekit.build.stages.prune import Prune
from edgekit.build.stages.separable import Separable
from edgekit.build.training.plan import SoftLabels, Training
from edgekit.spec.digest import sha256_bytes

__all__ = ["DEFAULT_EPOCHS", "SOURCE", "Learner", "Prepared", "Walk", "prepare", "training_of"]

Walk = Callable[[str, tuple[Stage, ...], Artifact], Artifact]
"""(what for, stages, where they begin) -> what they end in."""

SOURCE = Artifact("source", sha256_bytes(b"edgekit"), Path())
"""Where all chains begin: everything that decides a network is in the fields of `Load`."""

DEFAULT_EPOCHS = 5
DISTIL = SoftLabels(temperature=3.0, share=0.7, features=0.1)
RECOVER = SoftLabels(temperature=2.0, share=0.8)
FIT_RATE, RECOVERY_RATE = 1e-3, 5e-4
PRUNING_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Learner:
    """A network, what is known of it, and whether its head has to be fitted to the data."""

    network: Network
    facts: Facts
    fits: bool


@dataclass(frozen=True, slots=True)
class Prepared:
    """Checkpoints.

    Attributes:
        checkpoint: the network to build.
        teacher: the fitted teacher; None without one.
        alone: the student that learned from labels alone; None unless a teacher was compared with.
        whole: the network before it was made smaller; None if it was not.
    """

    checkpoint: Artifact
    teacher: Artifact | None = None
    alone: Artifact | None = None
    whole: Artifact | None = None


def prepare(
    student: Learner, teacher: Learner | None, *, splits: Splits | None, wish: Compression, seed: int, device: str, walk: Walk
) -> Prepared:
    """Load, then as wished: fit or distil, replace convolutions, prune, recover.

    Args:
        student: the network to build.
        teacher: to learn from.
        splits: the data; None only where nothing is trained.
        wish: what to do.
        seed: of every choice by lot.
        device: `cpu` or `cuda`.
        walk: runs or notes a chain.
    """
    trained = student.fits or teacher is not None
    checkpoint = walk("student", (Load(student.network, student.facts, settles=not trained),), SOURCE)
    if splits is None:
        return Prepared(checkpoint)
    training = training_of(wish, seed, device)
    taught = alone = whole = None
    if teacher is not None:
        taught = walk("teacher", (Load(teacher.network, teacher.facts, settles=False),), SOURCE)
        if teacher.fits:
            taught = walk("teacher", (Fit(teacher.network, splits, training),), taught)
        alone = walk("student alone", (Fit(student.network, splits, training),), checkpoint) if wish.baseline else None
        distill = Distill(student.network, teacher.network, taught, splits, training, DISTIL, _unlabelled(wish))
        checkpoint = walk("student", (distill,), checkpoint)
    elif student.fits:
        checkpoint = walk("student", (Fit(student.network, splits, training),), checkpoint)
    if wish.shapes:
        whole = checkpoint
        source = (student.network, checkpoint) if taught is None or teacher is None else (teacher.network, taught)
        checkpoint = _smaller(student.network, source, checkpoint, splits=splits, wish=wish, training=training, walk=walk)
    return Prepared(checkpoint, taught, alone, whole)


def _smaller(
    network: Network,
    source: tuple[Network, Artifact],
    checkpoint: Artifact,
    *,
    splits: Splits,
    wish: Compression,
    training: Training,
    walk: Walk,
) -> Artifact:
    """Replace, prune, and recover by what `source` knows."""
    epochs = training.epochs if wish.recovery_epochs is None else wish.recovery_epochs
    rate = RECOVERY_RATE if wish.learning_rate is None else wish.learning_rate
    training = replace(training, epochs=epochs, learning_rate=rate, patience=max(3, epochs // 2))
    recover = Distill(network, *source, splits, training, RECOVER, _unlabelled(wish), purpose="recover")
    if wish.separable:
        checkpoint = walk("student", (Separable(network), *((recover,) if epochs else ())), checkpoint)
    for ratio, measure in ((wish.prune, "parameters"), (wish.prune_macs, "macs")):
        if ratio is not None:
            short = replace(training, epochs=min(1, epochs))
            prune = Prune(network, splits, ratio, measure, round_to=wish.round_to, rounds=PRUNING_ROUNDS, training=short)
            checkpoint = walk("student", (prune, *((recover,) if epochs else ())), checkpoint)
    return checkpoint


def training_of(wish: Compression, seed: int, device: str) -> Training:
    """How a network is fitted to the data."""
    epochs = DEFAULT_EPOCHS if wish.epochs is None else wish.epochs
    return Training(
        epochs=epochs,
        batch_size=wish.batch_size,
        micro_batch=min(wish.batch_size, 64 if device == "cpu" else 256),
        learning_rate=FIT_RATE if wish.learning_rate is None else wish.learning_rate,
        # Under a cosine the loss falls most at the end: what stops sooner stops while steps are still large.
        patience=max(3, epochs // 2),
        seed=seed,
        device=device,
        resolutions_px=wish.resolutions_px,
    )


def _unlabelled(wish: Compression) -> Pinned | None:
    return None if wish.unlabelled is None else pin(wish.unlabelled)
