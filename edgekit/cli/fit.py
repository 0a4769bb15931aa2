"""`edgekit fit`: train only, on a machine with a GPU perhaps, and keep a checkpoint to build from."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgekit.build.text.kinds import refuse_checkpoint_of_another_kind, refuse_text_options
from edgekit.cli import checks
from edgekit.cli.options import MODEL, SEED, Lengths
from edgekit.cli.options import command as declare
from edgekit.cli.screen import Screen
from edgekit.cli.training import compression, print_networks, training_options

if TYPE_CHECKING:
    from edgekit.build.request import BuildRequest, FitResult

__all__ = ["command"]


@declare
@click.option("--model", default="efficientnet_lite0", show_default=True, help=MODEL)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    help="Class folders, or train and validation of them; or a CSV of texts.",
)
@click.option("--weights", type=click.Path(path_type=Path), help="Weights to start from.")
@click.option("--resolution", type=click.IntRange(16, 4096), metavar="PX", help="Side of the image that the network sees.")
@click.option("--tokens", type=Lengths(), help="Lengths of text that it is fitted for: the largest counts. [16,32,64,128]")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="The checkpoint to write. [checkpoints/MODEL]")
@click.option("--classes", type=click.IntRange(1, 1_000_000), help="Size of the last layer, if it is not the model's own.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of new layers, order and augmentation.")
@click.option("--store", type=click.Path(path_type=Path), help="Folder of finished stages. [$EDGEKIT_STORE or ~/.cache/edgekit]")
@training_options
def command(
    screen: Screen,
    *,
    model: str,
    data: Path,
    weights: Path | None,
    resolution: int | None,
    tokens: tuple[int, ...] | None,
    out: Path | None,
    classes: int | None,
    seed: int,
    store: Path | None,
    **training: Any,
) -> None:
    """Fit a network to labelled photos or texts; distil and prune as asked. The result is for: edgekit build --weights OUT."""
    from edgekit import catalog
    from edgekit.build.request import BuildRequest

    source = catalog.find_model(model)
    checks.data(data, text=source.reads_text)
    refuse_text_options(source, task=None, tokens=tokens or (), precisions=())
    checks.weights(weights, text=source.reads_text)
    refuse_checkpoint_of_another_kind(source, weights)
    place = out if out is not None else Path("checkpoints") / source.name
    checks.checkpoint_can_be_written(place)
    checks.store_can_be_written(store)
    request = BuildRequest(
        model=source,
        target=catalog.find_target("host"),
        out=place,
        data_dir=data,
        weights=weights,
        resolution_px=resolution,
        tokens=tokens or (),
        classes=classes,
        seed=seed,
        store=store,
        compression=compression(training, student=source),
    )
    checks.installed_for_training()
    _print(screen, _fit(screen, request))


def _fit(screen: Screen, request: "BuildRequest") -> "FitResult":
    from edgekit.cli.progress import progress

    with progress(screen) as observe, screen.working():
        from edgekit.build.fitting import fit

        result: FitResult = fit(request, observe=observe)
        return result


def _print(screen: Screen, result: "FitResult") -> None:
    if screen.as_json:
        screen.document(_document(result))
        return
    print_networks(screen, result.networks)
    for note in result.notes:
        screen.line(f"note: {note}")
    screen.line(f"{result.model}: {result.checkpoint}, {result.seconds:.1f} s")
    screen.line(f"next: edgekit build --model {result.model} --weights {result.checkpoint} --data DIR --target NAME")


def _document(result: "FitResult") -> dict[str, Any]:
    from edgekit.spec.codec import to_json

    document: dict[str, Any] = to_json(result)
    return document | {"seconds": round(result.seconds, 3), "checkpoint": str(result.checkpoint)}
