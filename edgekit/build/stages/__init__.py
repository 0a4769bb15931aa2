"""Stages: each maps one content-addressed directory to another. A straight chain of them is a build."""

from edgekit.build.stages.answer import AnswerBundle, AnswerFloat
from edgekit.build.stages.distill import Distill
from edgekit.build.stages.exits import TrainExits
from edgekit.build.stages.export import Export
from edgekit.build.stages.fit import Fit
from edgekit.build.stages.grade import Grade
from edgekit.build.stages.judge import Judge
from edgekit.build.stages.load import Load
from edgekit.build.stages.lower import LowerFloat, LowerInteger
from edgekit.build.stages.noise import Noise
from edgekit.build.stages.pack import Pack
from edgekit.build.stages.prune import Prune
from edgekit.build.stages.qat import TrainQuantized
from edgekit.build.stages.quantize import Quantize
from edgekit.build.stages.recalibrate import Recalibrate
from edgekit.build.stages.sense import Sense
from edgekit.build.stages.separable import Separable

__all__ = [
    "AnswerBundle",
    "AnswerFloat",
    "Distill",
    "Export",
    "Fit",
    "Grade",
    "Judge",
    "Load",
    "LowerFloat",
    "LowerInteger",
    "Noise",
    "Pack",
    "Prune",
    "Quantize",
    "Recalibrate",
    "Sense",
    "Separable",
    "TrainExits",
    "TrainQuantized",
]
