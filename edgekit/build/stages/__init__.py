"""Stages: each maps one content-addressed directory to another. A straight chain of them is a build."""

from edgekit.build.stages.export import Export
from edgekit.build.stages.judge import Judge
from edgekit.build.stages.load import Load
from edgekit.build.stages.lower import LowerFloat, LowerInteger
from edgekit.build.stages.pack import Pack
from edgekit.build.stages.quantize import Quantize

__all__ = ["Export", "Judge", "Load", "LowerFloat", "LowerInteger", "Pack", "Quantize"]
