"""What one layer costs when it alone is quantized: the row of a table, as stages and reports hold it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["FILE", "Sensitivity", "guilty", "read_sensitivities", "write_sensitivities"]

FILE = "sensitivity.json"


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """One convolution or linear layer, quantized in an otherwise float network.

    Attributes:
        layer: its node in the exported graph.
        module: its path in the user's network.
        kind: `conv`, `depthwise` or `linear`.
        n: photos.
        snr_db: of the logits: 10 log10 of their power over that of the error.
        disagreement_pp: photos with another first answer than the float network's, in percentage points.
        drop_pp: of top-1, in percentage points; None without labels.
        parameters: of the layer.
        macs: of the layer, for one photo.
    """

    layer: str
    module: str
    kind: str
    n: int
    snr_db: float
    disagreement_pp: float
    drop_pp: float | None
    parameters: int
    macs: int


def guilty(rows: Sequence[Sensitivity], *, n: int = 5) -> tuple[Sensitivity, ...]:
    """The layers that cost most: by drop of the metric, among equals by noise."""
    return tuple(sorted(rows, key=lambda row: (-(row.drop_pp or 0.0), row.snr_db))[:n])


def write_sensitivities(folder: Path, rows: Sequence[Sensitivity]) -> None:
    """Write `sensitivity.json`."""
    (folder / FILE).write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


def read_sensitivities(folder: Path) -> tuple[Sensitivity, ...]:
    """Read `sensitivity.json`."""
    return tuple(Sensitivity(**row) for row in json.loads((folder / FILE).read_text(encoding="utf-8")))
