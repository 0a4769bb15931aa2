"""Writes the vectors of this folder again: `python tests/conformance/pixels/make.py`.

Inputs are synthetic: noise, and images of 0 and 255 only, whose sums land next to the limits of the clip.
"""

import json
from pathlib import Path

import numpy as np

from edgekit.runtime.pixels import apply_table, crop_pixels, make_table
from edgekit.runtime.resize import resize_with_numpy
from edgekit.spec.manifest import Preprocess, Rung, TensorSpec

HERE = Path(__file__).parent
SIZES = (
    # height, width -> height, width
    ((7, 5), (3, 2)),
    ((5, 7), (11, 20)),
    ((1, 9), (4, 3)),
    ((9, 1), (3, 4)),
    ((1, 1), (5, 6)),
    ((8, 8), (1, 1)),
    ((48, 6), (5, 12)),
    ((6, 48), (12, 5)),
    ((33, 40), (33, 16)),
    ((40, 33), (16, 33)),
    ((12, 12), (12, 12)),
    # Pillow from release 13 takes the columns first here.
    ((49, 41), (25, 76)),
)
CROPS = (((20, 31), 12, 16), ((31, 20), 12, 13), ((9, 9), 8, 8), ((5, 40), 16, 18))
# Name, dtype, mean, std, scale, zero point. With scale 0.125 and std 16 every fourth pixel is half a step.
TABLES = (
    ("ties-int8", "int8", (128.0, 127.0, 126.5), (16.0, 16.0, 16.0), 0.125, -1),
    ("ties-uint8", "uint8", (128.0, 127.0, 126.5), (16.0, 16.0, 16.0), 0.125, 127),
    ("identity-int8", "int8", (127.0, 127.0, 127.0), (128.0, 128.0, 128.0), 0.0078125, -1),
    ("imagenet-int8", "int8", (123.675, 116.28, 103.53), (58.395, 57.12, 57.375), 0.018658, -14),
    ("clipped-uint8", "uint8", (123.675, 116.28, 103.53), (58.395, 57.12, 57.375), 0.005, 128),
    ("imagenet-float32", "float32", (123.675, 116.28, 103.53), (58.395, 57.12, 57.375), None, None),
    ("imagenet-float16", "float16", (123.675, 116.28, 103.53), (58.395, 57.12, 57.375), None, None),
)


def image(height, width, *, extreme):
    values = np.random.default_rng(1000 * height + width).integers(0, 256, (height, width, 3)).astype(np.uint8)
    return np.where(values > 127, 255, 0).astype(np.uint8) if extreme else values


def store(name, values):
    (HERE / name).write_bytes(np.ascontiguousarray(values).tobytes())
    return {"file": name, "shape": list(values.shape)}


def resize_cases():
    for index, (size, wanted) in enumerate(SIZES):
        extreme = bool(index % 2)
        source = image(*size, extreme=extreme)
        given = store(f"resize-{index:02}.in.bin", source)
        for name in ("bilinear", "bicubic"):
            result = resize_with_numpy(source, wanted[::-1], filter_name=name)
            yield {"filter": name, "input": given, "output": store(f"resize-{index:02}.{name}.bin", result)}


def crop_cases():
    for index, (size, resolution_px, resize_px) in enumerate(CROPS):
        source = image(*size, extreme=False)
        rung = Rung("full", resolution_px, resize_px)
        yield {
            "filter": "bicubic",
            "resolution_px": resolution_px,
            "resize_px": resize_px,
            "input": store(f"crop-{index}.in.bin", source),
            "output": store(f"crop-{index}.out.bin", crop_pixels(source, rung, filter_name="bicubic")),
        }


def table_cases():
    pixels = image(4, 64, extreme=False)
    given = store("tables.in.bin", pixels)
    for name, dtype, mean, std, scale, zero_point in TABLES:
        table = make_table(
            Preprocess("RGB", "bilinear", mean, std), TensorSpec("x", dtype, (1, 3, 4, 64), "NCHW", scale, zero_point)
        )
        yield {
            "name": name,
            "dtype": dtype,
            "mean": mean,
            "std": std,
            "scale": scale,
            "zero_point": zero_point,
            "table": store(f"table-{name}.bin", table),
            "input": given,
            "NCHW": store(f"table-{name}.nchw.bin", apply_table(pixels, table, layout="NCHW")),
            "NHWC": store(f"table-{name}.nhwc.bin", apply_table(pixels, table, layout="NHWC")),
        }


def main():
    text = "Raw files: row by row, little-endian. resize: all of the image. crop: shorter side, then centre. table: (3, 256)."
    cases = {"about": text, "resize": list(resize_cases()), "crop": list(crop_cases()), "table": list(table_cases())}
    (HERE / "vectors.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
