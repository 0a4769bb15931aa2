"""The fixed-point resize: numpy, Pillow and the vectors give the same bytes."""

import numpy as np
import pytest

from edgekit.runtime import resize as module
from edgekit.runtime.resize import resize, resize_with_numpy
from edgekit.spec.errors import BundleError, InputError

FILTERS = ("bilinear", "bicubic")


def noise(random, height, width, *, extreme=False):
    values = random.integers(0, 256, (height, width, 3)).astype(np.uint8)
    return np.where(values > 127, 255, 0).astype(np.uint8) if extreme else values


def pillow_by_axis(image, size, filter_name):
    from PIL import Image

    method = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}[filter_name]
    return np.asarray(Image.fromarray(image).resize((size[0], image.shape[0]), method).resize(size, method))


@pytest.mark.parametrize("filter_name", FILTERS)
def test_equals_pillow_for_random_sizes(filter_name):
    random = np.random.default_rng(0)
    for turn in range(300):
        height, width, high, wide = random.integers(1, 80, 4).tolist()
        if turn % 5 == 0:
            height, high = height * 9, 1 if turn % 2 else high
        if turn % 7 == 0:
            width = 1
        image = noise(random, height, width, extreme=turn % 3 == 0)
        wanted = pillow_by_axis(image, (wide, high), filter_name)
        np.testing.assert_array_equal(resize_with_numpy(image, (wide, high), filter_name=filter_name), wanted)
        np.testing.assert_array_equal(resize(image, (wide, high), filter_name=filter_name), wanted)


@pytest.mark.parametrize("filter_name", FILTERS)
def test_equals_pillow_for_a_photo_sized_image(filter_name):
    image = noise(np.random.default_rng(5), 375, 500)
    wanted = pillow_by_axis(image, (341, 256), filter_name)
    np.testing.assert_array_equal(resize_with_numpy(image, (341, 256), filter_name=filter_name), wanted)


def test_window_is_a_part_of_the_whole():
    random = np.random.default_rng(1)
    for _ in range(50):
        height, width, high, wide = random.integers(2, 60, 4).tolist()
        image = noise(random, height, width)
        left, top = int(random.integers(0, wide)), int(random.integers(0, high))
        window = (left, top, int(random.integers(left + 1, wide + 1)), int(random.integers(top + 1, high + 1)))
        whole = resize(image, (wide, high), filter_name="bicubic")[top : window[3], left : window[2]]
        np.testing.assert_array_equal(resize(image, (wide, high), filter_name="bicubic", window=window), whole)
        np.testing.assert_array_equal(resize_with_numpy(image, (wide, high), filter_name="bicubic", window=window), whole)


def test_long_thin_image_computes_only_its_window(monkeypatch):
    monkeypatch.setattr(module, "_resize_with_pillow", lambda *_: pytest.fail("would allocate the whole result"))
    image = noise(np.random.default_rng(2), 6000, 2)
    part = resize(image, (256, 768_000), filter_name="bilinear", window=(16, 383_888, 240, 384_112))
    assert part.shape == (224, 224, 3)


def test_without_pillow(monkeypatch):
    image = noise(np.random.default_rng(3), 30, 40)
    wanted = resize(image, (20, 15), filter_name="bilinear")
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    np.testing.assert_array_equal(resize(image, (20, 15), filter_name="bilinear"), wanted)


def test_flat_image_stays_flat():
    for value in (0, 1, 128, 255):
        image = np.full((13, 29, 3), value, np.uint8)
        assert set(resize(image, (57, 7), filter_name="bicubic").flat) == {value}


def test_same_size_is_untouched():
    image = noise(np.random.default_rng(4), 9, 9)
    np.testing.assert_array_equal(resize(image, (9, 9), filter_name="bicubic"), image)


def test_unknown_filter():
    with pytest.raises(BundleError, match="unknown filter 'lanczos'"):
        resize(np.zeros((3, 3, 3), np.uint8), (2, 2), filter_name="lanczos")


@pytest.mark.parametrize(("shape", "size"), [((0, 3, 3), (2, 2)), ((3, 3, 3), (0, 2))])
def test_nothing_to_resize(shape, size):
    with pytest.raises(InputError, match="cannot be resized"):
        resize(np.zeros(shape, np.uint8), size, filter_name="bilinear")
