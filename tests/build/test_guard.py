"""The guard on a network that plain quantization breaks: repaired without being told how, or refused with the layers at fault."""

import json

import pytest
import small_builds as small
import torch

from edgekit.build import api
from edgekit.build.findings import findings_folder
from edgekit.build.fitting import fit
from edgekit.build.repairs import ORDER
from edgekit.spec.bundle import open_bundle
from edgekit.spec.errors import GoalError, InputError
from edgekit.spec.report import read_report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """(model, data, checkpoint) of a network that tells three colours apart."""
    folder = tmp_path_factory.mktemp("fitted")
    model = small.network(folder / "model")
    data = folder / "data"
    small.photos(data / "train", each=60)
    small.photos(data / "validation", each=20, seed=1)
    result = fit(small.request(folder, model, data, epochs=8))
    assert result.networks[0].top1 > 0.9
    return model, data, result.checkpoint


def stretched(checkpoint, folder):
    """The same function with one layer's channels spread over five orders of magnitude, which int8 cannot hold."""
    state = torch.load(checkpoint / "weights.pt", weights_only=True)
    factor = torch.logspace(-2.5, 2.5, 32)
    state["body.1.1.weight"] *= factor
    state["body.1.1.bias"] *= factor
    state["body.2.0.weight"] /= factor.view(1, -1, 1, 1)
    path = folder / "stretched.pt"
    torch.save(state, path)
    return path


def test_a_sound_network_is_promised_as_it_is(tmp_path, fitted):
    model, data, checkpoint = fitted
    request = small.request(tmp_path, model, data, weights=checkpoint, max_drop_pp=15.0)
    result = api.build(request)
    assert [a.name for a in result.guarded.attempts] == ["as built"]
    assert result.guarded.chosen.kept
    report = read_report(findings_folder(request.out) / "onnx-int8.report.json")
    assert report.bundle_sha256 == result.digest
    assert {"drop", "guard/as built/bound"} <= {m.name for m in report.measurements}


def test_a_stretched_network_is_repaired(tmp_path, fitted):
    model, data, checkpoint = fitted
    weights = stretched(checkpoint, tmp_path)
    told = []
    request = small.request(tmp_path, model, data, weights=weights, max_drop_pp=15.0, epochs=0)
    result = api.build(request, observe=lambda event: told.append(event.note) if event.kind == "told" else None)
    first = result.guarded.attempts[0]
    assert not first.kept
    assert first.worst.drop_pp > 3
    assert result.guarded.chosen.kept
    assert result.guarded.chosen.worst.drop_pp < first.worst.drop_pp
    assert len(told) == len(result.guarded.attempts)
    with open_bundle(request.out) as reader:
        assert "repair" in reader.manifest.provenance


def test_what_cannot_be_kept_is_delivered_and_refused(tmp_path, fitted, monkeypatch):
    model, data, checkpoint = fitted
    monkeypatch.setattr("edgekit.bench.promise.Promise.keeps", lambda self, most: False)
    request = small.request(tmp_path, model, data, weights=checkpoint, max_drop_pp=15.0)
    tried = []
    with pytest.raises(GoalError) as caught:
        api.build(request, observe=lambda event: tried.append(event.note) if event.kind == "told" else None)
    assert caught.value.code == "max-drop"
    assert str(request.out) in caught.value.what
    assert sum(name in caught.value.what for name in ("body.0.0", "body.1.0", "body.2.0", "fc")) >= 3
    assert {note.partition(":")[0] for note in tried} >= set(ORDER) - {"observer"}
    with open_bundle(request.out) as reader:
        assert reader.manifest.payloads
    rows = read_report(findings_folder(request.out) / "sensitivity.report.json")
    assert any(m.name.endswith("/snr") for m in rows.measurements)


def test_a_spent_budget_ends_with_the_best_so_far(tmp_path, fitted, monkeypatch):
    model, data, checkpoint = fitted
    monkeypatch.setattr("edgekit.bench.promise.Promise.keeps", lambda self, most: False)
    request = small.request(tmp_path, model, data, weights=checkpoint, max_drop_pp=15.0, time_budget_min=1e-6)
    with pytest.raises(GoalError, match="time budget") as caught:
        api.build(request)
    assert caught.value.code == "max-drop"
    assert request.out.exists()


def test_too_few_photos_are_refused_at_once(tmp_path, fitted):
    model, data, checkpoint = fitted
    with pytest.raises(InputError) as caught:
        api.build(small.request(tmp_path, model, data, weights=checkpoint, max_drop_pp=0.5))
    assert caught.value.code == "data-few"
    assert not (tmp_path / "store" / "entries").exists()


def test_plan_and_build_run_the_same_stages(tmp_path, fitted):
    model, data, checkpoint = fitted
    request = small.request(tmp_path, model, data, weights=checkpoint, prune=0.3, round_to=8, recovery_epochs=1)
    planned = [stage.name for chain in api.plan(request).chains for stage in chain.stages]
    result = api.build(request)
    ran = {run.name.split()[0] for run in result.stages}
    assert {"load", "prune", "distill", "export", "quantize", "lower", "pack", "judge"} <= set(planned)
    assert {"load", "prune", "recover", "export", "quantize", "lower", "pack", "judge"} <= ran
    names = {network.name: network for network in result.networks}
    assert names["network"].parameters < 0.75 * names["whole"].parameters
    assert json.loads((findings_folder(request.out) / "networks.report.json").read_text())["measurements"]
