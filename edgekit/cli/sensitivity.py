"""`edgekit inspect --sensitivity`: what each layer costs when it alone is quantized, from the report beside the bundle."""

from dataclasses import dataclass
from pathlib import Path

from edgekit.cli.screen import Screen
from edgekit.spec.errors import InputError

__all__ = ["show"]


@dataclass(frozen=True, slots=True)
class _Row:
    layer: str
    module: str
    kind: str
    n: int
    snr_db: float
    disagreement_pp: float
    drop_pp: float | None


def show(screen: Screen, bundle: Path) -> None:
    """Print the layers of a bundle, the costliest first.

    Raises:
        InputError: nothing was measured for this very bundle.
    """
    rows = sorted(_rows(bundle), key=lambda row: (-(row.drop_pp or 0.0), row.snr_db))
    if screen.as_json:
        from edgekit.spec.codec import to_json

        screen.document({"bundle": str(bundle), "layers": [to_json(row) for row in rows]})
        return
    from edgekit.cli.figures import points

    screen.table(
        ("layer", "kind", "SNR, dB", "disagrees, pp", "drop, pp", "examples", "node"),
        [
            (
                row.module,
                row.kind,
                f"{row.snr_db:.1f}",
                f"{row.disagreement_pp:.2f}",
                points(row.drop_pp),
                str(row.n),
                row.layer,
            )
            for row in rows
        ],
        right=("SNR, dB", "disagrees, pp", "drop, pp", "examples"),
    )
    screen.line("each layer quantized alone, the others in float, simulated; measured when the bundle was built")


def _rows(bundle: Path) -> list[_Row]:
    from edgekit.build.findings import SENSITIVITY, findings_folder
    from edgekit.spec.bundle import open_bundle
    from edgekit.spec.report import read_report

    with open_bundle(bundle) as reader:
        digest = reader.digest
    path = findings_folder(bundle) / f"{SENSITIVITY}.report.json"
    report = read_report(path) if path.is_file() else None
    if report is None or report.bundle_sha256 != digest:
        raise InputError(
            "no sensitivities were measured for this bundle" if report is None else "the report is of another bundle",
            where=str(path),
            fix="build it with --sensitivity and --data DIR",
            code="sensitivity-missing",
        )
    found: dict[str, dict[str, float]] = {}
    n: dict[str, int] = {}
    for measurement in report.measurements:
        name, _, figure = measurement.name.rpartition("/")
        found.setdefault(name, {})[figure] = measurement.value
        n[name] = measurement.n
    return [
        _Row(*name.split("/", 2), n[name], figures["snr"], figures["disagreement"], figures.get("drop"))
        for name, figures in found.items()
    ]
