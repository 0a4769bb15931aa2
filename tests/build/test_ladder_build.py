"""Whole builds of ladders on networks so small that they take a minute: random data prove the way, not accuracy."""

import dataclasses

import numpy as np
import pytest
import small_builds
from PIL import Image

import edgekit
from edgekit import catalog
from edgekit.build import api
from edgekit.build.compression import Teacher
from edgekit.build.ladder import choose
from edgekit.build.ladder.wish import Adaptive
from edgekit.spec.errors import EdgekitError
from edgekit.spec.report import read_report

SIDE, EACH = 64, 90
CLASSES = ("green", "plain", "red", "stripes")
COLOURS = {"green": (60, 190, 60), "red": (190, 60, 60)}


def photo(name, rng):
    """Red and green are seen at any size; stripes of one pixel become the plain grey when the photo is made smaller."""
    pixels = np.full((SIDE, SIDE, 3), 128.0)
    pixels[:] = COLOURS.get(name, (128, 128, 128))
    if name == "stripes":
        pixels[:, ::2] += 60
        pixels[:, 1::2] -= 60
    return np.clip(pixels + rng.normal(0, 12, pixels.shape), 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ladders")
    rng = np.random.default_rng(0)
    for name in CLASSES:
        (folder / "photos" / name).mkdir(parents=True)
        for i in range(EACH):
            Image.fromarray(photo(name, rng)).save(folder / "photos" / name / f"{i}.png")
    return folder


def request(place, out, **wish):
    model = small_builds.network(place / "net", width=64)
    made = small_builds.request(
        place, model, place / "photos", epochs=4, max_drop_pp=10.0, classes=len(CLASSES), resolution_px=SIDE, **wish
    )
    return dataclasses.replace(made, out=place / out)


RESOLUTION = Adaptive(("resolution",), resolutions_px=(16, SIDE))
ENGINES = ("executorch", "litert", "onnx")


@pytest.mark.slow
def test_resolutions_end_to_end(place):
    result = api.build(request(place, "resolution", engines=ENGINES, adaptive=RESOLUTION))
    choice = result.ladder.choice
    told = {option.candidate.name: option for option in choice.options}
    assert not told["px16"].kept  # it cannot see stripes
    assert choice.chosen.candidate.rungs == ("px16", "px64")
    assert choice.static.candidate.rungs == ("px64",)
    summary = result.ladder.report["balanced"]
    assert summary.n == 72
    assert 0.2 < summary.rungs[0].share < 0.8
    assert summary.top1_full > 0.95
    rng = np.random.default_rng(9)
    for engine in ENGINES:
        with edgekit.open(result.bundle, engine=engine) as model:
            assert all(golden.ok for golden in model.verify())
            early = {name: sum(model.run(photo(name, rng)).rung == "px16" for _ in range(12)) for name in CLASSES}
            assert early["stripes"] + early["plain"] < early["red"] + early["green"]
    report = read_report(place / "resolution.reports" / "ladder.report.json")
    assert report.bundle_sha256 == result.digest
    assert report.conditions["chosen"] == "px16 -> px64"
    found = {m.name: m.value for m in report.measurements}
    shares, costs = ([found[f"balanced/rung/{rung}/{what}"] for rung in ("px16", "px64")] for what in ("share", "cost"))
    assert sum(shares) == pytest.approx(1.0)
    assert found["balanced/cost"] == pytest.approx(costs[0] + shares[1] * costs[1])


@pytest.mark.slow
def test_exits_end_to_end(place, monkeypatch):
    """Taken though it saves nothing on a network of three layers."""
    monkeypatch.setattr(choose, "LEAST_GAIN", -100.0)
    result = api.build(request(place, "exits", engines=ENGINES, adaptive=Adaptive(("exits",))))
    assert result.ladder.choice.chosen.candidate.rungs == ("exit1", "exit2", "last")
    assert {payload.engine: payload.file for payload in result.payloads}["executorch"].endswith(".pte")
    assert result.ladder.same_stop > 0.9
    images = [photo(name, np.random.default_rng(i)) for i, name in enumerate(CLASSES * 3)]
    answers = []
    for engine in ENGINES:
        with edgekit.open(result.bundle, engine=engine) as model:
            assert all(golden.ok for golden in model.verify())
            assert [rung.continues for rung in model.manifest.rungs] == [False, True, True]
            answers.append([(found.rung, found.labels[0].index) for found in model.run_batch(images, floor="fast")])
            assert model.run(images[0], floor="fast").rung in ("exit1", "exit2", "last")
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.slow
def test_routing_end_to_end(place, monkeypatch):
    monkeypatch.setattr(choose, "LEAST_GAIN", -100.0)
    larger = catalog.find_model(small_builds.network(place / "larger", width=128))
    result = api.build(request(place, "routing", adaptive=Adaptive(route_to=Teacher(larger))))
    small, large = result.ladder.choice.chosen.candidate.rungs
    assert (small, large) == ("px64", result.ladder.choice.full.candidate.name)
    with edgekit.open(result.bundle) as model:
        assert [rung.continues for rung in model.manifest.rungs] == [False, False]
        assert all(golden.ok for golden in model.verify())
        assert len({entry.file for entry in model.payload.entries}) == 2


@pytest.mark.slow
def test_a_second_build_does_nothing_again(place):
    result = api.build(request(place, "resolution", engines=ENGINES, adaptive=RESOLUTION))
    assert [run.name for run in result.stages if not run.cached] == []


def chain(plan, name):
    return next([stage.name for stage in each.stages] for each in plan.chains if each.name == name)


def test_plan_says_what_a_build_would_do(place):
    plan = api.plan(
        request(place, "plan", engines=ENGINES, adaptive=Adaptive(("exits", "resolution"), resolutions_px=(16, SIDE)))
    )
    assert chain(plan, "student") == ["load", "fit", "exits"]
    assert chain(plan, "exits") == ["place-exits"]
    assert chain(plan, "16 px") == ["recalibrate", "export", "quantize"]
    assert chain(plan, "litert-int8") == ["lower-rungs"]
    assert any("px16 -> px64; exit1 -> exit2 -> last" in note for note in plan.notes)
    assert any("points harmful are promised if" in note for note in plan.notes)
    assert not (place / "store").exists() or not (place / "plan").exists()


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"max_drop_pp": 1.0}, "ladder-samples"),
        ({"precisions": ("fp16",)}, "ladder-precision"),
        ({"data_dir": None}, "data-missing"),
    ],
)
def test_refused_before_anything_slow(place, changed, code):
    asked = request(place, "refused", adaptive=RESOLUTION)
    if "max_drop_pp" in changed:
        changed = {"compression": dataclasses.replace(asked.compression, **changed)}
    with pytest.raises(EdgekitError) as caught:
        api.plan(dataclasses.replace(asked, **changed))
    assert caught.value.code == code
    assert caught.value.fix
