"""Ladders on the command line: what is asked for, what is refused, what is printed, run and drawn."""

import re
from pathlib import Path

import numpy as np
import pytest
import tiny_ladder
from PIL import Image
from test_json_keys import keys, section

from edgekit.build import operators
from edgekit.build.request import BuildResult
from edgekit.spec.bundle import open_bundle
from edgekit.spec.codec import to_json


@pytest.fixture
def asked(fake_api):
    requests = []

    def build(request, *, observe):
        requests.append(request)
        return BuildResult(request.out, "d" * 64, "m", "t", 1.0, (), (), ladder=tiny_ladder.found())

    fake_api.build = build
    return requests


@pytest.fixture
def data():
    Path("photos").mkdir()
    Path("photos/a.jpg").write_bytes(b"x")
    return ("--data", "photos", "--target", "snapdragon865")


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.png"
    Image.fromarray(np.random.default_rng(3).integers(0, 256, (20, 24, 3), np.uint8)).save(path)
    return path


def test_the_commands_of_the_documentation(edgekit_, asked, data):
    first = edgekit_("build", "--model", "efficientnet_lite0", "--adaptive", "exits,resolution", "--max-drop", "1.0", *data)
    second = edgekit_("build", "--route-to", "efficientnet_lite2", "--max-drop", "0.5", *data)
    assert (first.code, second.code) == (0, 0)
    assert asked[0].adaptive.kinds == ("exits", "resolution")
    assert asked[0].adaptive.route_to is None
    assert asked[1].adaptive.kinds == ()
    assert asked[1].adaptive.route_to.model.name == "efficientnet_lite2"
    assert [request.compression.max_drop_pp for request in asked] == [1.0, 0.5]


def test_every_option_arrives(edgekit_, asked, data):
    options = "--adaptive exits --adaptive resolution --exits-after blocks.6,blocks.10 --joint --resolutions 128,192"
    assert edgekit_("build", *options.split(), *data).code == 0
    wish = asked[0].adaptive
    assert (wish.kinds, wish.exits_after, wish.joint) == (("exits", "resolution"), ("blocks.6", "blocks.10"), True)
    assert (wish.resolutions_px, asked[0].resolution_px) == ((128, 192), 192)
    assert edgekit_("build", *data).code == 0
    assert asked[1].adaptive is None


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ("--exits-after blocks.6", "--exits-after"),
        ("--adaptive resolution --exits-after blocks.6", "--exits-after"),
        ("--adaptive resolution --joint", "--joint"),
        ("--adaptive exits --resolutions 128,224", "--resolutions"),
        ("--route-weights x.pth", "--route-weights"),
        ("--adaptive exits --route-to efficientnet_lite2", "--route-to"),
        ("--adaptive resolution --resolutions 128,192 --resolution 224", "--resolution"),
    ],
)
def test_options_that_need_others(edgekit_, asked, data, options, option):
    done = edgekit_("build", *options.split(), *data, "--json")
    assert (done.code, done.document["error"]["code"]) == (2, "ladder-option")
    assert done.document["error"]["where"] == option
    assert asked == []


@pytest.mark.parametrize("sides", ["224", "224,128", "128,128", "8,224", "a,b", "32,64,96,128,160"])
def test_sides_that_cannot_be(edgekit_, asked, data, sides):
    assert edgekit_("build", "--adaptive", "resolution", "--resolutions", sides, *data).code == 2
    assert asked == []


def test_names_that_are_not_there(edgekit_, asked, data):
    kind = edgekit_("build", "--adaptive", "exit", *data, "--json")
    larger = edgekit_("build", "--route-to", "efficientnet_lite9", *data, "--json")
    assert (kind.code, larger.code) == (2, 2)
    assert "exits" in kind.document["error"]["fix"]
    assert "efficientnet_lite" in larger.document["error"]["fix"]


def test_what_was_weighed_is_printed(edgekit_, asked, data):
    done = edgekit_("build", "--adaptive", "resolution", *data)
    choice = tiny_ladder.found().choice
    assert choice.chosen.candidate.rungs == ("low", "high")
    assert re.search(r"low -> high \*\s+resolution\s+\d+\.\d\d", done.out)
    assert f"{choice.chosen.harmful} of 2000" in done.out
    assert re.search(r"balanced: .* of high, .* points lost .*% at low", done.out)
    # What costs less and what may harm less than all others is on the front.
    assert all(re.search(rf"{name} .*yes", done.out) for name in (r"low \*?", "high", "low -> high"))


def test_document_of_a_ladder_is_documented(edgekit_, asked, data):
    document = edgekit_("build", "--adaptive", "resolution", *data, "--json").document["ladder"]
    assert document == to_json(tiny_ladder.found())
    document["costs_ms"] = document["choice"]["chosen"] = document["choice"]["static"] = document["choice"]["full"] = None
    document["report"] = list(document["report"].values())
    for option in document["choice"]["options"]:
        option["floors"] = list(option["floors"].values())
    assert {key for key in keys(document) if f"`{key}`" not in section("build")} == set()


def test_run_names_the_rungs(edgekit_, photo, tmp_path):
    bundle = tiny_ladder.write(tmp_path / "ladder")
    fast = edgekit_("run", bundle, photo, "--floor", "fast", "--json").document
    sure = edgekit_("run", bundle, photo, "--floor", "accurate", "--json").document
    assert [run["name"] for run in fast["rungs"]] in (["low"], ["low", "high"])
    assert {key for key in fast if f"`{key}`" not in section("run")} == set()
    assert set(fast["rungs"][0]) == {"name", "margin", "latency_ms"}
    assert len(fast["rungs"]) <= len(sure["rungs"])
    stopped = edgekit_("run", bundle, photo, "--floor", "accurate", "--ceiling-ms", "0.000001", "--json").document
    assert len(stopped["rungs"]) == 1
    assert stopped["stopped_by"] in ("ceiling", "margin")
    assert re.search(r"rung low: margin [\d.]+, [\d.]+ ms\n", edgekit_("run", bundle, photo).out)


@pytest.mark.parametrize("options", [("--floor", "slow"), ("--ceiling-ms", "0"), ("--ceiling-ms", "nan")])
def test_run_refuses(edgekit_, photo, tmp_path, options):
    assert edgekit_("run", tiny_ladder.write(tmp_path / "ladder"), photo, *options).code == 2


def test_inspect_draws(edgekit_, tmp_path):
    bundle = tiny_ladder.write(tmp_path / "ladder")
    done = edgekit_("inspect", bundle)
    summary = tiny_ladder.found().report["balanced"]
    assert re.search(
        rf"^low +#+\.+ +{100 * summary.rungs[0].share:.1f} %  starts from the input; enough from \d+ \(accurate", done.out, re.M
    )
    assert re.search(r"^high +#+\.+ .*answers in any case$", done.out, re.M)
    assert (
        f"expected {summary.cost:.2f} ms, p50 {summary.cost_p50:.2f} ms, p99 14.00 ms; always the last rung 10.00 ms" in done.out
    )
    document = edgekit_("inspect", bundle, "--json").document["ladder"]
    assert document["balanced"]["rungs"][0]["share"] == summary.rungs[0].share
    assert set(document) == {"accurate", "balanced", "fast"}
    assert {key for key in keys(list(document.values())) if f"`{key}`" not in section("inspect")} == set()


def test_inspect_counts_the_operators_of_all_rungs(edgekit_, tmp_path):
    bundle = tiny_ladder.write(tmp_path / "ladder")
    (payload,) = edgekit_("inspect", bundle, "--json").document["payloads"]
    with open_bundle(bundle) as reader:
        entries = reader.manifest.payloads[0].entries
        assert [entry.rung for entry in entries] == list(tiny_ladder.RUNGS)
        alone = [operators.read(payload["engine"], reader.file(entry.file)) for entry in entries]
    assert sum(each["count"] for each in payload["operators"]) == sum(o.count for one in alone for o in one.operators)


def test_inspect_without_the_report_or_with_another_bundles(edgekit_, tmp_path):
    bundle = tiny_ladder.write(tmp_path / "ladder", with_report=False)
    done = edgekit_("inspect", bundle)
    assert "#" not in done.out
    assert "in the report beside the bundle, which is not here" in done.out
    tiny_ladder.write(tmp_path / "other")
    report = tmp_path / "other.reports" / "ladder.report.json"
    (tmp_path / "ladder.reports").mkdir()
    other = re.sub(r'"bundle_sha256": "[0-9a-f]{64}"', f'"bundle_sha256": "{"0" * 64}"', report.read_text())
    (tmp_path / "ladder.reports" / report.name).write_text(other)
    assert "which is not here" in edgekit_("inspect", bundle).out
    assert edgekit_("inspect", bundle, "--json").document["ladder"] is None
