"""Measure bundles: time and memory here, and proof of their quality."""

from edgekit.bench.judged import EngineResult, PairResult, TokenizerResult, VerifyResult
from edgekit.bench.local import BenchResult, PayloadTimes, Ratio, bench
from edgekit.bench.verify import verify_bundle

__all__ = [
    "BenchResult",
    "EngineResult",
    "PairResult",
    "PayloadTimes",
    "Ratio",
    "TokenizerResult",
    "VerifyResult",
    "bench",
    "verify_bundle",
]
