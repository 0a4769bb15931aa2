"""Whatever a user gives becomes upright RGB pixels, or one clear error."""

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from edgekit.runtime.images import decode
from edgekit.spec.errors import InputError

RED = np.zeros((4, 6, 3), np.uint8)
RED[:, :, 0] = 204


def saved(tmp_path, name, image=None, **options):
    path = tmp_path / name
    (image or Image.fromarray(RED)).save(path, **options)
    return path


def test_file_as_path_and_as_text(tmp_path):
    path = saved(tmp_path, "a.png")
    np.testing.assert_array_equal(decode(path), RED)
    np.testing.assert_array_equal(decode(str(path)), RED)


def test_exif_orientation_is_applied(tmp_path):
    values = np.arange(24, dtype=np.uint8).reshape(4, 6)
    exif = Image.Exif()
    exif[0x0112] = 6
    path = saved(tmp_path, "a.png", Image.fromarray(np.repeat(values[:, :, None], 3, 2)), exif=exif)
    np.testing.assert_array_equal(decode(path)[:, :, 0], np.rot90(values, -1))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "YCbCr", "HSV", "LAB"])
def test_modes_become_rgb(mode):
    source = Image.fromarray(np.full((4, 6, 3), 255, np.uint8))
    image = (
        source.convert("L").convert(mode)
        if mode in ("1", "LA")
        else source.convert(mode)
        if mode != "LAB"
        else Image.new(mode, (6, 4))
    )
    pixels = decode(image)
    assert (pixels.shape, pixels.dtype) == ((4, 6, 3), np.uint8)


def test_transparent_palette(tmp_path):
    path = saved(tmp_path, "a.png", Image.fromarray(RED).convert("P"), transparency=b"\x00" * 256)
    np.testing.assert_array_equal(decode(path), RED)


def test_16_bit_grey_is_scaled_not_clipped(tmp_path):
    path = saved(tmp_path, "a.png", Image.fromarray(np.full((4, 6), 0x8001, np.uint16)))
    assert set(decode(path).flat) == {0x80}


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 1), (4, 6, 3), (4, 6, 4)])
def test_arrays(shape):
    values = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    pixels = decode(values)
    assert pixels.shape == (4, 6, 3)
    np.testing.assert_array_equal(pixels[:, :, 0], values.reshape(4, 6, -1)[:, :, 0])


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (np.zeros((4, 6, 3), np.float32), "image-dtype"),
        (np.zeros((4, 6, 2), np.uint8), "image-shape"),
        (np.zeros((1, 3, 4, 6), np.uint8), "image-shape"),
        (np.zeros((0, 6, 3), np.uint8), "image-shape"),
        (b"bytes", "image-type"),
        (None, "image-type"),
        (Image.new("F", (3, 3)), "image-mode"),
    ],
)
def test_wrong_kind(value, code):
    with pytest.raises(InputError) as caught:
        decode(value)
    assert caught.value.code == code
    assert caught.value.fix


def test_missing_and_unknown_file(tmp_path):
    with pytest.raises(InputError, match=r"no such image 'none\.jpg'"):
        decode(tmp_path / "none.jpg")
    text = tmp_path / "text.jpg"
    text.write_text("not an image")
    with pytest.raises(InputError, match=r"'text\.jpg' is not an image"):
        decode(text)
    with pytest.raises(InputError, match="cannot be read"):
        decode(tmp_path)


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp"])
def test_corrupt_file_is_named(tmp_path, name):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    path = saved(tmp_path, name, Image.fromarray(noise))
    path.write_bytes(path.read_bytes()[:400])
    with pytest.raises(InputError, match=name) as caught:
        decode(path)
    assert str(path) in caught.value.where


@pytest.mark.parametrize("name", ["a.gif", "a.png", "a.webp"])
def test_animated(tmp_path, name):
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "blue")]
    path = saved(tmp_path, name, frames[0], save_all=True, append_images=frames[1:])
    with pytest.raises(InputError, match="animated") as caught:
        decode(path)
    assert caught.value.where == str(path)


def test_bomb_is_refused(tmp_path, monkeypatch):
    path = saved(tmp_path, "a.png", Image.new("RGB", (100, 100)))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 6000)
    with pytest.raises(InputError, match=r"a\.png"):
        decode(path)


def test_array_needs_no_pillow():
    program = """
import sys
sys.modules["PIL"] = None
import numpy as np
from edgekit.runtime.images import decode
assert decode(np.zeros((4, 6, 3), np.uint8)).shape == (4, 6, 3)
from edgekit.spec.errors import SetupError
try:
    decode("a.jpg")
except SetupError as error:
    print(error.fix)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "pip install pillow", done.stderr
