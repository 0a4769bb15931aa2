"""How long and how a network is trained, as a value: free of torch, part of a stage's key."""

from dataclasses import dataclass

__all__ = ["DEVICES", "EXIT_TRAINING", "TEXT_TRAINING", "Exits", "SoftLabels", "Training"]

DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True, slots=True)
class Training:
    """One training.

    Attributes:
        epochs: passes over the samples to fit.
        batch_size: samples a step, over all its parts.
        micro_batch: samples that go through the network at a time; gradients of the parts of a step are added up.
        learning_rate: peak of the schedule: linear warm-up, then a cosine to zero.
        weight_decay: of AdamW; none on biases and norms.
        warmup: share of all steps, 0..1.
        label_smoothing: 0..1.
        patience: epochs without better answers or a lower loss on samples to tune after which it stops; 0 never stops early.
        seed: of order, augmentation and new layers.
        device: `cpu` or `cuda`; `auto` was resolved before (`device.resolve`).
        augment: random crops, mirrored halves and colours; without it photos look as the device sees them, as texts always do.
        average_epochs: how far back the running mean of the weights reaches, which is what is tuned and kept; 0 keeps the last
            weights (Polyak and Juditsky 1992; Tarvainen and Valpola, arXiv 1703.01780, for the exponential form).
        bfloat16: whether matrices are multiplied in bfloat16 on a CPU too, as on a GPU: twice as fast where it has instructions
            for that (AMX, AVX512-BF16), slower elsewhere. Answers on samples to tune are computed in float32 all the same.
        new_factor: how many times faster tensors learn that were drawn anew, such as another head.
        resolutions_px: sides of photos; each step takes one of them, all equally often. Empty takes the network's own alone. What
            is tuned on is the mean over all of them (Wang et al., Resolution Switchable Networks, arXiv 2007.09558).
    """

    epochs: int = 5
    batch_size: int = 32
    micro_batch: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 0.02
    warmup: float = 0.1
    label_smoothing: float = 0.1
    patience: int = 3
    seed: int = 0
    device: str = "cpu"
    augment: bool = True
    average_epochs: float = 1.0
    new_factor: float = 1.0
    bfloat16: bool = False
    resolutions_px: tuple[int, ...] = ()


TEXT_TRAINING = Training(epochs=5, learning_rate=2e-4, weight_decay=0.01, augment=False, average_epochs=0.5, new_factor=10.0)
"""For a transformer that was trained on other texts and gets a new head. MiniLM on banking77 answers 92.05 % of the texts to tune
right; 91.9 % with half the rate and four epochs."""


EXIT_TRAINING = Training(epochs=20, learning_rate=1e-2, patience=5, augment=False)
"""For the heads of early exits alone. Without augmentation the network in front of them runs once and not once an epoch.
EfficientNet-Lite0 on clothing, 160 px, 600 photos to fit and 250 to tune: 66.8 and 78.0 % behind blocks.6 and blocks.10; 62.8 and
76.0 % with a rate of 2e-3."""


@dataclass(frozen=True, slots=True)
class SoftLabels:
    """How a student learns from a teacher.

    Attributes:
        temperature: by which both divide their logits (Hinton et al., arXiv 1503.02531, section 2).
        share: 0..1 of the loss that is the teacher's; the rest is the labels'.
        features: weight of the feature alignment; 0 leaves it out.
    """

    temperature: float = 3.0
    share: float = 0.7
    features: float = 0.0


@dataclass(frozen=True, slots=True)
class Exits:
    """How early exits learn: from labels, and from the last answer of their own network.

    Zhang et al., Be Your Own Teacher (arXiv 1905.08094); of its three losses those of labels and of answers.

    Attributes:
        weights: of each exit's loss, in the order they run; the last answer's is 1. Empty for equal ones, see `weights_of`.
        soft: how much of an exit's loss is the last answer's; nothing flows back through that answer.
        joint: whether the network learns with its exits; else it stays what it is, and so does its last answer.
    """

    weights: tuple[float, ...] = ()
    soft: SoftLabels = SoftLabels(share=0.5)
    joint: bool = False

    def weights_of(self, count: int) -> tuple[float, ...]:
        """One for each of `count` exits: 1 where they alone learn, half as much as the last answer where it learns too."""
        return self.weights or (0.5 if self.joint else 1.0,) * count
