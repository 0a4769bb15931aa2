"""Target files: the example of the documentation, all that are shipped, and typical mistakes."""

import json
import re
from pathlib import Path

import pytest

from edgekit.spec.codec import to_json
from edgekit.spec.errors import InputError
from edgekit.spec.target import figures, load_target

ROOT = Path(__file__).parents[2]
EXAMPLE = re.search(r"```yaml\n(.*?)```", (ROOT / "docs/target-format.md").read_text(encoding="utf-8"), re.S).group(1)


def load(folder, text, name="snapdragon865"):
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return load_target(path)


def test_the_documented_example(tmp_path):
    profile = load(tmp_path, EXAMPLE)
    assert profile.cpu[0].isa.dotprod is True
    assert profile.android_api == (29, None)
    assert profile.default_precision == "int8"
    assert figures(profile)[:3] == ("cpu[0].count", "cpu[0].isa", "cpu[0].max_ghz")


def test_round_trip(tmp_path):
    profile = load(tmp_path, EXAMPLE)
    assert load(tmp_path, json.dumps(to_json(profile))) == profile


@pytest.mark.parametrize("path", sorted((ROOT / "targets").glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_targets(path):
    assert load_target(path).name == path.stem


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("kind: phone", "kind: fridge", "fridge"),
        ("kind: phone", "knid: phone", "knid|kind"),
        ("kind: phone", "kind: phone\nkind: board", "twice"),
        ("threads: 4", "threads: four", "threads"),
        ("threads: 4", "threads: 0", "threads"),
        ("threads: 4", "threads: true", "threads"),
        ("max_ghz: 2.84", "max_ghz: .nan", "max_ghz"),
        ("max_ghz: 2.84", "max_ghz: -1", "max_ghz"),
        ("memory_mb: null", "memory_mb: 8192", "no source for memory_mb"),
        ("[29, null]", "[29]", "android_api"),
        ("[29, null]", "[29, 28]", "API"),
        ("precision_order: [fp16, int8, fp32]", "precision_order: [fp8]", "fp8"),
        ("  cpu.isa:", "  cpu.ist:", "source for 'cpu.ist'|no source"),
        ("  cpu:", "  cpu[0]:", "no source for cpu"),
        ("name: snapdragon865 ", "name: snapdragon888 ", "file"),
        ("aliases: [sm8250, kona]", "aliases: [sm8250", "YAML"),
        ("soc: Snapdragon", "soc: !!python/object/apply:os.getcwd []\nx: ", "YAML"),
    ],
)
def test_mistakes(tmp_path, old, new, says):
    assert old in EXAMPLE
    with pytest.raises(InputError) as caught:
        load(tmp_path, EXAMPLE.replace(old, new, 1))
    assert re.search(says, str(caught.value))
    assert "snapdragon865.yaml" in caught.value.where
    assert caught.value.fix


@pytest.mark.parametrize("key", ["cpu[0].max_ghz", "cpu.max_ghz", "cpu[0]", "cpu"])
def test_keys_that_cover_a_figure(tmp_path, key):
    text = EXAMPLE.replace("  cpu: ", f'  cpu.count: "x"\n  cpu[1]: "x"\n  cpu[2]: "x"\n  "{key}": ', 1)
    assert load(tmp_path, text).sources[key]


@pytest.mark.parametrize("data", [b"", b"[]", b"- a", b"\xff\xfe", b"text"])
def test_no_target_at_all(tmp_path, data):
    (tmp_path / "x.yaml").write_bytes(data)
    with pytest.raises(InputError):
        load_target(tmp_path / "x.yaml")
    with pytest.raises(InputError, match="cannot read"):
        load_target(tmp_path / "none.yaml")
