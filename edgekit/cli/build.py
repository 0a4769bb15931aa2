"""`edgekit build`: from a network and a device's name to a verified bundle."""

from pathlib import Path
from typing import Any

import click

from edgekit.build.request import ENGINES, BuildRequest, BuildResult, ModelSource, Plan
from edgekit.build.text.kinds import refuse_checkpoint_of_another_kind, refuse_text_options
from edgekit.cli import checks
from edgekit.cli.ladder import adaptive, full_resolution, ladder_options, print_ladder
from edgekit.cli.options import MODEL, PHOTOS, SEED, Lengths, Milliseconds, NameList, flat, lowering_names, precision_names
from edgekit.cli.options import command as declare
from edgekit.cli.screen import Screen
from edgekit.cli.training import compression, guard_options, print_guard, print_networks, training_options
from edgekit.spec.model import TEXT_TASKS
from edgekit.spec.target import TargetProfile

__all__ = ["command"]


@declare
@click.option("--model", default="efficientnet_lite0", show_default=True, help=MODEL)
@click.option("--task", type=click.Choice(TEXT_TASKS), help="Of a network that reads text. [by the data]")
@click.option("--target", required=True, help="A device: a name, an alias or a .yaml file. See: edgekit targets")
@click.option(
    "--data", type=click.Path(path_type=Path), help="Images: class folders, train and validation, loose, .npz; or a CSV of texts."
)
@click.option(
    "--weights", type=click.Path(path_type=Path), help=".pth, .pt, .safetensors, a checkpoint of fit, a Hugging Face folder."
)
@click.option(
    "--precision",
    multiple=True,
    type=NameList("precision", precision_names),
    help="int8, fp16, fp32, for text int8-weights and int8-static too; a list or repeated. [int8]",
)
@click.option("--engines", multiple=True, type=NameList("engine", lowering_names), help=f"Payload formats. [{','.join(ENGINES)}]")
@click.option("--resolution", type=click.IntRange(16, 4096), metavar="PX", help="Side of the image that the network sees.")
@click.option("--tokens", type=Lengths(), help="Lengths of text that it is built for. [16,32,64,128]")
@click.option("--max-latency-ms", type=Milliseconds(), help="The bundle must be this fast on the target.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="The bundle to write. [bundles/MODEL-TARGET]")
@click.option("--zip", "as_zip", is_flag=True, help="Write one .ekb file instead of a folder.")
@click.option("--classes", type=click.IntRange(1, 1_000_000), help="Size of the last layer, if it is not the model's own.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of random weights and choices by lot.")
@click.option("--store", type=click.Path(path_type=Path), help="Folder of finished stages. [$EDGEKIT_STORE or ~/.cache/edgekit]")
@click.option("--limit", type=PHOTOS, default=128, show_default=True, help="Photos that set the quantization ranges.")
@click.option("--dry-run", is_flag=True, help="Show the plan and do nothing.")
@ladder_options
@guard_options
@training_options
def command(screen: Screen, *, dry_run: bool, **told: Any) -> None:
    """Quantize a network once and build a verified bundle for a device."""
    request = _request(told)
    checks.installed_for_build(request.engines)
    if dry_run:
        _print_plan(screen, _plan(screen, request))
    else:
        checks.store_can_be_written(request.store)
        _print_result(screen, _build(screen, request))


def _request(told: dict[str, Any]) -> BuildRequest:
    """Parsed options -> a request whose names are known and whose files were checked."""
    source, profile = _found(told["model"], told["target"])
    precisions, tokens = flat(told["precision"]), told["tokens"] or ()
    _check(source, told["data"], told["weights"], task=told["task"], tokens=tokens, precisions=precisions)
    wish = adaptive(told, student=source)
    place, packed = checks.out_path(told["out"], name=f"{source.name}-{profile.name}", as_zip=told["as_zip"])
    checks.out_can_be_written(place)
    return BuildRequest(
        model=source,
        target=profile,
        out=place,
        data_dir=told["data"],
        weights=told["weights"],
        precisions=precisions or (profile.default_precision,),
        engines=flat(told["engines"]) or ENGINES,
        resolution_px=full_resolution(told["resolution"], wish),
        task=told["task"],
        tokens=tokens,
        max_latency_ms=told["max_latency_ms"],
        zip=packed,
        classes=told["classes"],
        seed=told["seed"],
        calibration_limit=told["limit"],
        store=told["store"],
        compression=compression(told, student=source),
        adaptive=wish,
    )


def _found(model: str, target: str) -> tuple[ModelSource, TargetProfile]:
    from edgekit import catalog

    return catalog.find_model(model), catalog.find_target(target)


def _check(
    source: ModelSource,
    data: Path | None,
    weights: Path | None,
    *,
    task: str | None,
    tokens: tuple[int, ...],
    precisions: tuple[str, ...],
) -> None:
    checks.data(data, text=source.reads_text)
    refuse_text_options(source, task=task, tokens=tokens, precisions=precisions)
    checks.weights(weights, text=source.reads_text)
    refuse_checkpoint_of_another_kind(source, weights)


def _plan(screen: Screen, request: BuildRequest) -> Plan:
    with screen.working():
        from edgekit.build import api

        plan: Plan = api.plan(request)
        return plan


def _build(screen: Screen, request: BuildRequest) -> BuildResult:
    from edgekit.cli.progress import progress

    with progress(screen) as observe, screen.working():
        from edgekit.build import api

        result: BuildResult = api.build(request, observe=observe)
        return result


def _print_plan(screen: Screen, plan: Plan) -> None:
    if screen.as_json:
        screen.document(_plan_document(plan))
        return
    screen.line(f"{plan.model} for {plan.target}, into {plan.out}")
    for chain in plan.chains:
        screen.line(f"\n{chain.name}")
        for stage in chain.stages:
            fields = ", ".join(f"{name}={value}" for name, value in stage.fields.items())
            screen.line(f"  {stage.name:<10} {stage.accepts} -> {stage.returns}{'  ' + fields if fields else ''}")
    for note in plan.notes:
        screen.line(f"note: {note}")


def _plan_document(plan: Plan) -> dict[str, Any]:
    from edgekit.spec.codec import to_json

    return {"dry_run": True, "bundle": str(plan.out), **{k: v for k, v in to_json(plan).items() if k != "out"}}


def _print_result(screen: Screen, result: BuildResult) -> None:
    if screen.as_json:
        screen.document(_result_document(result))
        return
    from edgekit.cli.figures import milliseconds, percent, points, size

    print_networks(screen, result.networks)
    print_guard(screen, result.guarded)
    print_ladder(screen, result.ladder)
    screen.table(
        ("engine", "precision", "size", "as float", "drop, pp", "latency", "what ran where"),
        [
            (
                row.engine,
                row.precision,
                size(row.size_bytes),
                percent(row.agreement_top1),
                points(row.drop_pp),
                milliseconds(row.latency_ms_here),
                f"{row.delegate}: {row.placement}",
            )
            for row in result.payloads
        ],
        right=("size", "as float", "drop, pp", "latency"),
    )
    for note in result.notes:
        screen.line(f"note: {note}")
    cached = sum(run.cached for run in result.stages)
    screen.line(f"{result.model} for {result.target}: {result.bundle}")
    screen.line(f"digest {result.digest}")
    screen.line(f"{result.seconds:.1f} s, {cached} of {len(result.stages)} stages already there")


def _result_document(result: BuildResult) -> dict[str, Any]:
    from edgekit.spec.codec import to_json

    return {
        "bundle": str(result.bundle),
        "digest": result.digest,
        "model": result.model,
        "target": result.target,
        "seconds": round(result.seconds, 3),
        "stages": [{"name": r.name, "cached": r.cached, "seconds": r.seconds, "key": r.key} for r in result.stages],
        "payloads": [
            {
                "engine": row.engine,
                "precision": row.precision,
                "file": row.file,
                "size_bytes": row.size_bytes,
                "agreement_top1": row.agreement_top1,
                "drop_pp": row.drop_pp,
                "latency_ms_here": row.latency_ms_here,
                "delegate": row.delegate,
                "placement": row.placement,
                "top1": row.top1,
                "interval_pp": row.interval_pp,
                "n": row.n,
            }
            for row in result.payloads
        ],
        "networks": to_json(result.networks),
        "guard": None if result.guarded is None else to_json(result.guarded),
        "sensitivities": to_json(result.sensitivities),
        "ladder": None if result.ladder is None else to_json(result.ladder),
        "notes": list(result.notes),
    }
