"""What a training refuses, before it begins or at the step where it goes wrong."""

import errno

import pytest
import small_builds as small

from edgekit.build.compression import Teacher
from edgekit.build.fitting import fit
from edgekit.spec.errors import GoalError, InputError, SetupError


def refused(request, kind=InputError):
    with pytest.raises(kind) as caught:
        fit(request)
    assert caught.value.what
    assert caught.value.where
    assert caught.value.fix
    return caught.value


@pytest.fixture
def model(tmp_path):
    return small.network(tmp_path / "model")


def test_photos_without_labels(tmp_path, model):
    data = small.photos(tmp_path / "data", each=20, classes=())
    error = refused(small.request(tmp_path, model, data, epochs=1, prune=0.3))
    assert error.code == "labels-missing"


def test_photos_of_one_class(tmp_path, model):
    data = small.photos(tmp_path / "data", each=20, classes=("red",))
    assert refused(small.request(tmp_path, model, data, prune=0.3)).code == "one-class"


def test_a_loss_that_is_no_number_names_the_step(tmp_path, model):
    data = small.photos(tmp_path / "data", each=20)
    error = refused(small.request(tmp_path, model, data, epochs=2, learning_rate=1e30), GoalError)
    assert error.code == "diverged"
    assert "step" in error.what
    assert "--learning-rate" in error.fix


def test_a_teacher_of_other_classes(tmp_path, model):
    from edgekit import catalog

    data = small.photos(tmp_path / "data", each=20)
    other = tmp_path / "other"
    other.mkdir()
    path = other / "fixed.py"
    code = small.NETWORK.format(width=16, forward=small.PLAIN_FORWARD)
    path.write_text(code.replace("def make(classes=3):", "def make():").replace("return Tiny(classes)", "return Tiny(7)"))
    teacher = Teacher(catalog.find_model(f"{path}:make"))
    error = refused(small.request(tmp_path, model, data, epochs=1, teacher=teacher))
    assert error.code in ("classes", "teacher-classes")


def test_a_ratio_that_empties_a_layer(tmp_path, model):
    data = small.photos(tmp_path / "data", each=20)
    error = refused(small.request(tmp_path, model, data, epochs=0, prune=0.99))
    assert error.code == "prune-ratio"
    assert "body" in f"{error.what} {error.where}"


def test_a_structure_that_cannot_be_traced(tmp_path):
    lines = ("y = self.body(x)", "if float(y.mean()) > 1e9:", "    y = y * 2", "return self.fc(self.pool(y).flatten(1))")
    forward = "\n        ".join(lines)
    model = small.network(tmp_path / "model", forward=forward)
    data = small.photos(tmp_path / "data", each=20)
    error = refused(small.request(tmp_path, model, data, epochs=0, prune=0.3))
    assert error.code == "prune-trace"
    assert "tiny.py" in f"{error.what} {error.where}"


def test_nothing_to_train(tmp_path, model):
    data = small.photos(tmp_path / "data", each=20)
    assert refused(small.request(tmp_path, model, data)).code == "nothing-to-fit"


def test_a_full_disk_during_a_checkpoint_keeps_the_one_before(tmp_path, model, monkeypatch):
    from edgekit.build.training import checkpoints

    data = small.photos(tmp_path / "data", each=20)
    request = small.request(tmp_path, model, data, epochs=3)
    write, count = checkpoints.write, 0

    def full_at_the_second(path, packed):
        nonlocal count
        count += 1
        if count == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, packed)

    monkeypatch.setattr(checkpoints, "write", full_at_the_second)
    error = refused(request, SetupError)
    assert error.code == "store-full"
    assert len(list((request.store / "resume").rglob("training.pt"))) == 1
    monkeypatch.undo()
    assert fit(request).networks[0].n > 0
    assert not list((request.store / "resume").rglob("training.pt"))


@pytest.fixture
def checkpoint(tmp_path, model):
    data = small.photos(tmp_path / "data", each=20)
    return data, fit(small.request(tmp_path, model, data, epochs=1)).checkpoint


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("weights.pt", b"no weights", "damaged"),
        ("weights.pt", None, "damaged"),
        ("model.json", b'{"name": "tiny"', "model.json"),
        ("model.json", b'{"name": "other"}', "model.json"),
    ],
)
def test_a_damaged_checkpoint(tmp_path, model, checkpoint, file, content, told):
    """`None` cuts the file in half, as an interrupted copy does."""
    data, folder = checkpoint
    whole = (folder / file).read_bytes()
    (folder / file).write_bytes(whole[: len(whole) // 2] if content is None else content)
    error = refused(small.request(tmp_path / "again", model, data, weights=folder, prune=0.3))
    assert error.code == "weights"
    assert told in f"{error.what} {error.where}"
    assert not (tmp_path / "again" / "out").exists()
