"""The stage: a checkpoint in, a smaller one out; resumable, and the same every time."""

import json
from dataclasses import replace

import pytest
import torch
from small_stages import Load, photos, run, tiny

from edgekit.build.checkpoint import read_checkpoint, read_history
from edgekit.build.stages.prune import Prune
from edgekit.build.structure import Structure, read_structure
from edgekit.build.training.plan import Training
from edgekit.spec.errors import InputError

NO_TRAINING = Training(epochs=0)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Layers this small only wait for each other's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def tiny_network(tmp_path):
    """(network, its checkpoint, splits)."""
    network, facts = tiny(tmp_path)
    splits = photos(tmp_path / "photos")
    return network, run(tmp_path, Load(network, facts)), splits


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def pruned(stage, source, out, resume=None):
    out.mkdir()
    stage.run(source, out, lambda fraction, note: None, resume=resume)
    return out


@pytest.mark.parametrize("importance", ["l1", "taylor"])
@pytest.mark.parametrize("measure", ["parameters", "macs"])
def test_a_pruned_checkpoint_is_smaller_and_tells_why(tiny_network, tmp_path, importance, measure):
    network, source, splits = tiny_network
    stage = Prune(network, splits, 0.4, measure, rounds=2, importance=importance, training=NO_TRAINING)
    out = pruned(stage, source, tmp_path / "out")
    whole, module = read_checkpoint(source.path, network), read_checkpoint(out, network)
    assert read_structure(out) == Structure(pruned=True)
    told = read_history(out)["prune" if measure == "parameters" else "prune_macs"]
    assert told["parameters_before"] == sum(p.numel() for p in whole.parameters())
    assert told["parameters_after"] == sum(p.numel() for p in module.parameters())
    assert 1 - told[f"{measure}_after"] / told[f"{measure}_before"] >= 0.4
    assert [group["name"] for group in told["groups"]] == ["0", "3", "6"]
    assert [group["channels_after"] for group in told["groups"]] == [module[i].out_channels for i in (0, 3, 6)]
    assert all(len(group["rises"]) == 3 for group in told["groups"])
    assert not told["skipped"]


def test_the_same_stage_gives_the_same_bytes_through_the_store(tiny_network, tmp_path):
    network, source, splits = tiny_network
    stage = Prune(network, splits, 0.4, rounds=2, training=Training(epochs=1, batch_size=8, micro_batch=8))
    first = run(tmp_path / "a", stage, source=source)
    second = run(tmp_path / "b", stage, source=source)
    assert files(first.path) == files(second.path)
    assert {"weights.pt", "model.json", "structure.json", "history.json"} <= set(files(first.path))


class Interrupted(BaseException):
    pass


@pytest.mark.parametrize("moment", ["sensitivity of 6", "round 1 of 3", "round 2 of 3", "round 3 of 3"])
def test_what_was_interrupted_ends_as_if_it_was_not(tiny_network, tmp_path, moment):
    network, source, splits = tiny_network
    stage = Prune(network, splits, 0.5, rounds=3, training=Training(epochs=1, batch_size=8, micro_batch=8), sensitivity_photos=4)
    straight = pruned(stage, source, tmp_path / "straight")
    kept = tmp_path / "kept"
    kept.mkdir()

    def stop(fraction, note):
        if moment in note:
            raise Interrupted

    (tmp_path / "half").mkdir()
    with pytest.raises(Interrupted):
        stage.run(source, tmp_path / "half", stop, resume=kept)
    assert not any((tmp_path / "half").iterdir())
    notes = []
    (tmp_path / "out").mkdir()
    stage.run(source, tmp_path / "out", lambda fraction, note: notes.append(note), resume=kept)
    assert files(tmp_path / "out") == files(straight)
    if moment == "round 3 of 3":
        assert not any("round 1" in note or "sensitivity" in note for note in notes)


def test_photos_without_labels_judge_by_the_network_itself(tiny_network, tmp_path):
    network, source, _ = tiny_network
    splits = photos(tmp_path / "flat", labelled=False)
    stage = Prune(network, splits, 0.3, rounds=2, training=Training(epochs=1, batch_size=8, micro_batch=8))
    out = pruned(stage, source, tmp_path / "out")
    assert read_checkpoint(out, network)(torch.zeros(1, 3, 32, 32)).shape == (1, 2)


def test_a_pruned_network_can_be_pruned_again(tiny_network, tmp_path):
    network, source, splits = tiny_network
    first = Prune(network, splits, 0.3, rounds=1, training=NO_TRAINING)
    second = replace(first, measure="macs", ratio=0.2)
    out = run(tmp_path, first, second, source=source)
    history = read_history(out.path)
    assert history["prune"]["macs_after"] == history["prune_macs"]["macs_before"]
    assert history["prune_macs"]["macs_after"] <= 0.8 * history["prune_macs"]["macs_before"]


@pytest.mark.parametrize(
    ("change", "code"),
    [({"ratio": 0.99}, "prune-ratio"), ({"measure": "size"}, "prune"), ({"importance": "l3"}, "prune"), ({"rounds": 0}, "prune")],
)
def test_what_cannot_be_is_refused_before_anything_slow(tiny_network, tmp_path, change, code):
    network, source, splits = tiny_network
    stage = replace(Prune(network, splits, 0.4, training=NO_TRAINING), **change)
    notes = []
    with pytest.raises(InputError) as caught:
        stage.run(source, tmp_path, lambda fraction, note: notes.append(note))
    assert caught.value.code == code
    assert not any("sensitivity" in note for note in notes)


def test_history_of_earlier_stages_stays(tiny_network, tmp_path):
    network, source, splits = tiny_network
    copy = tmp_path / "fitted"
    copy.mkdir()
    for name, data in files(source.path).items():
        (copy / name).write_bytes(data)
    (copy / "history.json").write_text(json.dumps({"fit": {"epochs": 3}}))
    out = pruned(Prune(network, splits, 0.2, training=NO_TRAINING, rounds=1), replace(source, path=copy), tmp_path / "out")
    assert read_history(out)["fit"] == {"epochs": 3}
