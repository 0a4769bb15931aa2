"""docs/cli-json.md and the commands agree: every key that is printed is documented, and the promised ones are there."""

import re
from pathlib import Path

import pytest
from tiny_bundle import write

DOC = (Path(__file__).parents[2] / "docs" / "cli-json.md").read_text()


def section(command):
    return re.search(rf"^## [^\n]*`{command}\b.*?(?=^## |\Z)", DOC, re.M | re.S).group()


def keys(value):
    if isinstance(value, dict):
        return set(value) | {key for item in value.values() for key in keys(item)}
    return {key for item in value for key in keys(item)} if isinstance(value, list) else set()


@pytest.mark.parametrize("command", ["verify", "inspect", "bench", "models", "doctor"])
def test_every_key_is_documented(edgekit_, tmp_path, command):
    pytest.importorskip("onnxruntime")
    bundle = write(tmp_path / "tiny")
    arguments = {"bench": (bundle, "--runs", 2), "models": (), "doctor": ()}.get(command, (bundle,))
    document = edgekit_(command, *arguments, "--json").document
    if command == "verify":
        document["engines"] = list(document["engines"].values())
    for name in ("provenance", "conditions"):
        document.pop(name, None)
    if command == "inspect":
        for name in ("model", "target", "preprocess", "rungs", "files"):
            document[name] = None
    wanted = keys(document)
    assert wanted
    assert {key for key in wanted if f"`{key}`" not in section(command)} == set()


def test_errors_are_documented(edgekit_):
    assert all(f'"{key}"' in DOC for key in keys(edgekit_("targets", "none", "--json").document))


def test_a_figure_that_is_no_number_is_null(capsys):
    import json

    from edgekit.cli.screen import Screen

    Screen(as_json=True, debug=False).document({"a": float("nan"), "b": [float("inf"), (1.5,)]})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, [1.5]]}
