"""A network with attention under the guard: it is built as it is, or with layers in float; scales that it has not are let be."""

import pytest
import small_builds as small

from edgekit.build import api
from edgekit.catalog import find_model
from edgekit.spec.bundle import open_bundle
from edgekit.spec.errors import GoalError

pytestmark = pytest.mark.slow

MAKE = """

def make(classes=3):
    return VisionTransformer(classes, width=128, layers=2, patches=4)
"""


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    data = tmp_path_factory.mktemp("photos")
    small.photos(data / "train", each=60)
    small.photos(data / "validation", each=20, seed=1)
    return data


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model" / "tiny.py"
    path.parent.mkdir()
    path.write_text(find_model("vit_tiny").spec.family.read_text() + MAKE)
    return f"{path}:make"


def test_a_promise_is_proved_and_layers_are_measured(tmp_path, model, photos):
    request = small.request(tmp_path, model, photos, epochs=4, max_drop_pp=15.0, resolution_px=32, sensitivity=True)
    result = api.build(request)
    assert [a.name for a in result.guarded.attempts] == ["as built"]
    assert result.guarded.chosen.kept
    assert {len(result.sensitivities), sum(row.kind == "linear" for row in result.sensitivities)} == {13}
    with open_bundle(request.out) as reader:
        manifest = reader.manifest
    assert "dynamic" in manifest.provenance["quantization"]
    (payload,) = (p for p in manifest.payloads if p.precision == "int8")
    assert payload.entries[0].outputs[0].dtype == "float32"
    assert not [note for note in result.notes if "no integer kernel" in note]


def test_only_layers_in_float_are_tried(tmp_path, model, photos, monkeypatch):
    monkeypatch.setattr("edgekit.bench.promise.Promise.keeps", lambda self, most: False)
    request = small.request(tmp_path, model, photos, epochs=1, max_drop_pp=15.0, resolution_px=32)
    tried = []
    with pytest.raises(GoalError) as caught:
        api.build(request, observe=lambda event: tried.append(event.note) if event.kind == "told" else None)
    assert caught.value.code == "max-drop"
    assert request.out.is_dir()
    assert [note.partition(":")[0] for note in tried] == ["as built", "mixed precision"]
    assert not any("no bundle" in note for note in tried), tried
