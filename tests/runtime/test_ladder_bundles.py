"""Bundles with several rungs, run by real engines."""

import threading

import numpy as np
import pytest
import tiny_ladders
import tiny_payloads
import tiny_text

import edgekit
from edgekit.runtime.paces import Paces
from edgekit.runtime.results import RungRun
from edgekit.spec.errors import InputError
from edgekit.spec.manifest import Margins

ENGINES = ("litert", "onnx", "executorch")
TEXTS = ("my card arrived!", "late", "", "my card has not arrived, not late e é !")


def photos(n=12):
    return [np.random.default_rng(i).integers(0, 256, (40, 48, 3), np.uint8) for i in range(n)]


@pytest.fixture(params=ENGINES)
def ladder(request, tmp_path, payload_files):
    files = {request.param: payload_files[request.param]}
    return lambda **how: edgekit.open(tiny_ladders.of_photos(tmp_path / "ladder", files, **how), engine=request.param)


def test_each_floor_stops_where_its_margin_says(ladder):
    with ladder(margin=10, margins=Margins(25, 0)) as model:
        lows = [model.run(photo, floor="fast") for photo in photos()]
        highs = [model.logits(photo, rung="high")[0] for photo in photos()]
        assert {result.rung for result in lows} == {"low"}
        for floor, margin in (("balanced", 10), ("accurate", 25)):
            found = [model.run(photo, floor=floor) for photo in photos()]
            assert [r.rung for r in found] == ["low" if low.margin >= margin else "high" for low in lows]
            assert {r.rung for r in found} == {"low", "high"}
            for result, low, high in zip(found, lows, highs, strict=True):
                stopped = result.rung == "low"
                assert result.stopped_by == ("margin" if stopped else "last")
                assert [run.name for run in result.rungs] == (["low"] if stopped else ["low", "high"])
                assert result.rungs[0].margin == low.margin
                assert result.margin == result.rungs[-1].margin
                if not stopped:
                    assert result.labels[0].index == int(np.argmax(high))


def test_latency_is_that_of_all_rungs(ladder):
    with ladder(margin=1000) as model:
        result = model.run(photos(1)[0])
        taken = sum(run.latency_ms for run in result.rungs)
        assert all(run.latency_ms > 0 for run in result.rungs)
        # Decoding belongs to no rung; pixels of a rung to it.
        assert result.latency_ms.inference < taken < result.latency_ms.pre + result.latency_ms.inference


def test_batch_answers_as_each_alone(ladder):
    with ladder(margin=20, margins=Margins(60, 0)) as model:
        found = model.run_batch(photos(), top=3)
        alone = [model.run(photo, top=3) for photo in photos()]
        assert [(r.labels, r.rung, r.margin) for r in found] == [(r.labels, r.rung, r.margin) for r in alone]
        assert model.run_batch(()) == ()


def test_ceiling_ends_after_the_first_rung(ladder):
    with ladder(margin=1000) as model:
        result = model.run(photos(1)[0], ceiling_ms=1e-6)
        assert (result.rung, result.stopped_by, len(result.rungs)) == ("low", "ceiling", 1)
        assert model.run(photos(1)[0], ceiling_ms=1e6).stopped_by == "last"


def test_ceiling_counts_what_the_next_rung_will_take(ladder):
    with ladder(margin=1000) as model:
        model._paces.learn([RungRun("high", 0, 5000.0)])
        assert model.run(photos(1)[0], ceiling_ms=4000).stopped_by == "ceiling"
        assert model.run(photos(1)[0]).stopped_by == "last"  # and learns that it takes less
        assert model.run(photos(1)[0], ceiling_ms=4000).stopped_by == "last"


def test_warm_up_tells_the_ceiling_of_every_rung(ladder):
    with ladder(margin=1000) as model:
        model.warm_up()
        assert set(model._paces.expected_ms) == {"low", "high"}


@pytest.mark.parametrize("ceiling_ms", [0, -1, float("nan"), "5", True])
def test_ceilings_that_cannot_be(ladder, ceiling_ms):
    with ladder() as model, pytest.raises(InputError, match="ceiling_ms") as caught:
        model.run(photos(1)[0], ceiling_ms=ceiling_ms)
    assert caught.value.code == "argument"


def test_floor_that_is_not_there(ladder):
    with ladder() as model, pytest.raises(InputError, match=r"acurate.*accurate"):
        model.run(photos(1)[0], floor="acurate")


def test_goldens_of_every_rung(ladder):
    with ladder() as model:
        assert [result.ok for result in model.verify()] == [True, True]


def test_threads_share_rungs_of_one_file(ladder):
    """The engine writes into memory that both rungs share: without one lock for the file answers would mix."""
    with ladder(margin=1000) as model:
        wanted = [model.run(photo).labels for photo in photos(4)]
        wrong = []

        def run(i):
            wrong.extend(i for _ in range(60) if model.run(photos(4)[i]).labels != wanted[i])

        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert wrong == []


def test_bad_photo_in_a_batch_leaves_the_model_usable(ladder, tmp_path):
    with ladder() as model:
        with pytest.raises(InputError):
            model.run_batch((photos(1)[0], tmp_path / "none.jpg"))
        assert model.run(photos(1)[0]).labels


def test_files_of_rungs_are_loaded_once(tmp_path, payload_files, monkeypatch):
    from edgekit.runtime.engines import litert

    loads = []
    real = litert.load
    monkeypatch.setattr(litert, "load", lambda *a, **k: (loads.append(a), real(*a, **k))[1])
    bundle = tiny_ladders.of_photos(tmp_path / "ladder", {"litert": payload_files["litert"]})
    with edgekit.open(bundle, engine="litert") as model:
        assert model.run(photos(1)[0]).labels
    assert len(loads) == 1


@pytest.fixture
def texts(tmp_path):
    return lambda **how: edgekit.open(tiny_ladders.of_texts(tmp_path / "ladder", **how))


def test_text_goes_on_with_features(texts):
    with texts(margin=1000) as model:
        for text in TEXTS:
            ids = tiny_text.encode(text)[: tiny_text.BUCKETS[-1]]
            result = model.run(text, top=1)
            assert (result.rung, result.stopped_by) == ("last", "last")
            wanted = tiny_text.reference(ids) @ tiny_ladders.MIX
            assert result.labels[0].index == int(np.argmax(wanted))
            assert model.logits(text)[0] == pytest.approx(wanted, abs=1e-5)
        assert {model.run(text).bucket_tokens for text in TEXTS} == set(tiny_text.BUCKETS)


def test_text_stops_at_its_floor(texts):
    with texts(margin=0.05, margins=Margins(1000, 0)) as model:
        assert {model.run(text, floor="accurate").rung for text in TEXTS} == {"last"}
        fast = [model.run(text, floor="fast") for text in TEXTS]
        assert {result.rung for result in fast} == {"exit"}
        found = model.run_batch(TEXTS)
        assert [r.rung for r in found] == ["exit" if low.margin >= 0.05 else "last" for low in fast]
        assert len({r.rung for r in found}) == 2
        assert [(r.labels, r.tokens) for r in found] == [(r.labels, r.tokens) for r in map(model.run, TEXTS)]


def test_text_ceiling_knows_each_bucket(texts):
    with texts(margin=1000) as model:
        model.warm_up()
        result = model.run(TEXTS[0], ceiling_ms=1e-6)
        assert (result.rung, result.stopped_by) == ("exit", "ceiling")
        assert tiny_ladders.as_json(result)["stopped_by"] == "ceiling"


def test_text_goldens_of_every_rung_and_bucket(texts):
    with texts() as model:
        assert [result.ok for result in model.verify()] == [True] * 5


def test_paces_forget_the_first_run_and_smooth_the_rest():
    paces = Paces()
    paces.learn([RungRun("a", 0, 100.0)])
    assert paces.expected_ms == {"a": 100.0}
    paces.learn([RungRun("a", 0, 10.0), RungRun("b", 0, 3.0)])
    assert paces.expected_ms == {"a": 10.0, "b": 3.0}
    paces.learn([RungRun("a", 0, 14.0)])
    assert paces.expected_ms["a"] == pytest.approx(11.0)


def test_rungs_are_the_tiny_network_itself(ladder):
    with ladder() as model:
        batch = tiny_payloads.golden_images()
        assert model.logits(batch, rung="low").tolist() == model.logits(batch, rung="high").tolist()
