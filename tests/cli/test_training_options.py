"""The options that train and guard: what they ask the builder for, and what they refuse before it is called."""

import json
from pathlib import Path

import pytest

from edgekit.bench.promise import Promise
from edgekit.build.outcome import Attempt, GradedNetwork, Guarded
from edgekit.build.request import BuildResult, PayloadRow
from edgekit.spec.errors import GoalError

PROMISE = Promise(614, 0.89, 0.895, 0.5, (-0.4, 1.5), 1.2, 0.868)
KEPT = Promise(614, 0.895, 0.895, 0.0, (-0.7, 0.7), 0.6, 0.873)
ATTEMPTS = (
    Attempt("as built", "as ever", {"onnx-int8": PROMISE}, False, None, 61.0),
    Attempt("observer", "", {}, False, None, 3.0, "the converter fails"),
    Attempt("equalisation", "scaled", {"onnx-int8": KEPT}, True, 0.5, 62.0),
)


@pytest.fixture
def asked(fake_api):
    requests = []

    def build(request, *, observe):
        requests.append(request)
        row = PayloadRow("onnx", "int8", "payloads/x.onnx", 5100, 0.99, 0.3, 2.0, "CPU", "61 int8", 0.9, (-1.0, 1.6), 341)
        networks = (GradedNetwork("network", 341, 0.903, (0.867, 0.93), 3_380_000, 384_000_000),)
        guarded = Guarded(1.0, "top-1", ATTEMPTS, ATTEMPTS[2], 126.0, False)
        return BuildResult(request.out, "d" * 64, "m", "t", 1.0, (), (row,), networks=networks, guarded=guarded)

    fake_api.build = build
    return requests


def photos(folder="photos"):
    Path(folder).mkdir()
    Path(folder, "a.jpg").write_bytes(b"x")
    return folder


def test_the_two_commands_of_the_documentation(edgekit_, asked):
    data = photos()
    guard = "build --model efficientnet_lite0 --max-drop 1.0 --target snapdragon865 --data"
    prune = "build --teacher efficientnet_lite2 --prune 0.4 --target raspberrypi4 --data"
    assert edgekit_(*guard.split(), data).code == 0
    assert edgekit_(*prune.split(), data).code == 0
    first, second = (request.compression for request in asked)
    assert (first.max_drop_pp, first.time_budget_min, first.teacher, first.prune) == (1.0, 15.0, None, None)
    assert second.teacher.model.name == "efficientnet_lite2"
    assert (second.prune, second.prune_macs, second.max_drop_pp, second.epochs) == (0.4, None, None, None)


def test_every_option_arrives(edgekit_, asked):
    data, more = photos(), photos("more")
    options = (
        "--epochs 3 --batch-size 8 --learning-rate 0.01 --device cpu --separable --prune-macs 0.3 --round-to 16",
        "--recovery-epochs 2 --time-budget 2.5 --max-drop 2 --sensitivity --no-baseline --teacher mobilenet_v2",
    )
    edgekit_("build", "--target", "host", "--data", data, "--unlabelled", more, *" ".join(options).split())
    wish = asked[0].compression
    assert (wish.epochs, wish.batch_size, wish.learning_rate, wish.device) == (3, 8, 0.01, "cpu")
    assert (wish.separable, wish.prune_macs, wish.round_to, wish.recovery_epochs) == (True, 0.3, 16, 2)
    assert (wish.time_budget_min, wish.max_drop_pp, wish.sensitivity, wish.baseline) == (2.5, 2.0, True, False)
    assert wish.unlabelled == Path("more")


def test_the_tables(edgekit_, asked):
    out = edgekit_("build", "--target", "host", "--data", photos(), "--max-drop", "1").out
    assert "90.3 %" in out
    assert "equalisation *" in out
    assert "the converter fails" in out
    assert "promised: top-1 of at least 87.3 %, at most 0.60 points below float" in out


def test_the_document(edgekit_, asked):
    guard = edgekit_("build", "--target", "host", "--data", photos(), "--max-drop", "1", "--json").document["guard"]
    assert guard["chosen"]["name"] == "equalisation"
    assert guard["attempts"][0]["promises"]["onnx-int8"]["bound_pp"] == 1.2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--prune", "0.4", "--prune-macs", "0.4"), "prune-both"),
        (("--unlabelled", "photos"), "teacher-missing"),
        (("--teacher-weights", "photos"), "teacher-missing"),
        (("--teacher", "no_such_network"), "unknown-model"),
        (("--teacher", "mobilenet_v2", "--unlabelled", "nowhere"), "data-missing"),
    ],
)
def test_refused_before_anything_slow(edgekit_, asked, arguments, code):
    done = edgekit_("build", "--target", "host", "--data", photos(), *arguments, "--json")
    assert (done.code, done.document["error"]["code"]) == (2, code)
    assert not asked


@pytest.mark.parametrize("option", ["--prune=0", "--prune=1", "--max-drop=0", "--device=tpu", "--round-to=7", "--epochs=-1"])
def test_values_out_of_range(edgekit_, asked, option):
    assert edgekit_("build", "--target", "host", option).code == 2
    assert not asked


def test_a_promise_that_cannot_be_kept_is_exit_code_3(edgekit_, fake_api):
    def build(request, *, observe):
        raise GoalError("not proved", where="--max-drop", fix="raise it", code="max-drop")

    fake_api.build = build
    done = edgekit_("build", "--target", "host", "--data", photos(), "--max-drop", "1", "--json")
    assert (done.code, json.loads(done.out)["error"]["code"]) == (3, "max-drop")


def test_fit_needs_data(edgekit_):
    assert edgekit_("fit", "--model", "efficientnet_lite0").code == 2


def test_fit_does_not_write_over_something_else(edgekit_):
    Path("taken").mkdir()
    Path("taken/thesis.txt").write_text("years")
    done = edgekit_("fit", "--data", photos(), "-o", "taken", "--json")
    assert (done.code, done.document["error"]["code"]) == (2, "output-exists")
    assert Path("taken/thesis.txt").read_text() == "years"
