import subprocess
import sys

import numpy as np
import pytest

from edgekit.build.data import open_parts, photos, sample_photos
from edgekit.spec.errors import SetupError

SIZE = {"resolution_px": 32, "resize_px": 36}

if any(photos.photo_path(package, file) is None for part in photos._PHOTOS.values() for package, file in part):
    pytest.skip("the packages that ship photos are not installed", allow_module_level=True)


def test_crops_repeat_and_depend_on_the_seed():
    first, again, other = (sample_photos("calibration", 20, seed=s) for s in (0, 0, 1))
    assert first == again
    assert np.array_equal(first.images(**SIZE), again.images(**SIZE))
    assert other.digest != first.digest


@pytest.mark.parametrize("n", [1, 4, 50])
def test_as_many_as_asked_for(n):
    data = sample_photos("judging", n)
    assert len(data) == n
    assert data.images(**SIZE).shape == (n, 32, 32, 3)
    assert data.labels is None


def test_no_photo_is_both_calibrated_and_judged_on():
    calibration, judging = open_parts(None, calibration=64, judging=64)
    assert {s.sha256 for s in calibration.samples}.isdisjoint(s.sha256 for s in judging.samples)


def test_both_flips_and_several_sizes_occur():
    samples = sample_photos("calibration", 64).samples
    assert {s.crop.flip for s in samples} == {True, False}
    assert len({s.crop.side for s in samples}) > 32


def test_pixels_of_one_sample_are_those_of_the_batch():
    data = sample_photos("judging", 6)
    batch = data.images(**SIZE)
    assert all(np.array_equal(data.pixels(s, **SIZE), batch[i]) for i, s in enumerate(data.samples))


def test_a_missing_package_is_named_with_the_command(monkeypatch):
    found = photos.importlib.util.find_spec
    monkeypatch.setattr(photos.importlib.util, "find_spec", lambda name: None if name in photos._PACKAGES else found(name))
    with pytest.raises(SetupError, match="0 of 9") as error:
        sample_photos("calibration", 4)
    assert "pip install scikit-image scikit-learn matplotlib" in error.value.fix


def test_the_packages_are_not_imported():
    program = """
import sys
from edgekit.build.data import sample_photos
sample_photos("calibration", 8).images(resolution_px=32, resize_px=32)
print(sorted({"skimage", "sklearn", "matplotlib", "scipy", "torch"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
