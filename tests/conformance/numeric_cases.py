"""Vectors of the arithmetic outside the engine: quantize, pixel tables, ladder, top classes. Plain Python, no NumPy."""

import math
import struct
from fractions import Fraction

from tiny import pixel_table, quantize

RANGES = {"int8": (-128, 127), "uint8": (0, 255)}


def quantize_cases() -> list[dict]:
    """Real value -> integer; most of them on or beside a tie."""
    rows = [
        # x, scale, zero point, dtype
        (0.15, 0.1, 0, "int8"),  # 1.4999999999999998 in float64, 1.5 in float32
        (0.25, 0.1, 0, "int8"),
        (-0.25, 0.1, 0, "int8"),
        (0.35, 0.1, 0, "int8"),  # 3.4999999999999996
        (0.45, 0.1, 0, "int8"),
        (0.05, 0.1, 0, "int8"),
        (-0.05, 0.1, 0, "int8"),
        (0.5, 1.0, 0, "int8"),
        (-0.5, 1.0, 0, "int8"),
        (1.5, 1.0, 0, "int8"),
        (2.5, 1.0, 0, "int8"),
        (-1.5, 1.0, 0, "int8"),
        (-2.5, 1.0, 0, "int8"),
        (0.49999999999999994, 1.0, 0, "int8"),  # adding 0.5 first would give 1
        (-0.49999999999999994, 1.0, 0, "int8"),
        (0.5, 1.0, 3, "int8"),
        (-0.5, 1.0, 3, "int8"),  # away from the real zero, not from the zero point
        (0.5, 1.0, 128, "uint8"),
        (-0.5, 1.0, 128, "uint8"),
        (0.0, 0.1, -128, "int8"),
        (-0.0, 0.1, 7, "int8"),
        (126.5, 1.0, 0, "int8"),
        (127.5, 1.0, 0, "int8"),
        (-128.5, 1.0, 0, "int8"),
        (1e30, 0.1, 0, "int8"),
        (-1e30, 0.1, 0, "int8"),
        (1e30, 1e-5, 255, "uint8"),
        (-1e30, 1e-5, 255, "uint8"),
        (255.5, 1.0, 0, "uint8"),
        (2.640000104904175, 0.02078740119934082, -14, "int8"),
        (1e-310, 1e-310, 0, "int8"),
    ]
    return [
        {"x": x, "scale": scale, "zero_point": zero, "dtype": dtype, "q": _checked(x, scale, zero, dtype)}
        for x, scale, zero, dtype in rows
    ]


def _checked(x: float, scale: float, zero_point: int, dtype: str) -> int:
    """The value, found twice: in float64, and exactly with the float64 quotient as a fraction."""
    low, high = RANGES[dtype]
    quotient = Fraction(x / scale)
    steps = math.floor(abs(quotient) + Fraction(1, 2)) * (1 if quotient > 0 else -1)
    exact = min(max(steps + zero_point, low), high)
    if exact != quantize(x, scale, zero_point, low, high):
        raise ValueError(f"{x} / {scale}: {exact}")
    return exact


def table_cases() -> list[dict]:
    """Mean, std, scale, zero point -> (3, 256) table."""
    rows = [
        ((127.0, 127.0, 127.0), (128.0, 128.0, 128.0), 0.0078125, -1, "int8"),
        ((0.0, 0.5, 1.0), (1.0, 1.0, 1.0), 2.0, 0, "uint8"),  # every second pixel is a tie
        ((128.0, 127.5, 127.0), (1.0, 1.0, 1.0), 2.0, 0, "int8"),  # ties on both sides of zero
        ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375), 0.018658, -14, "int8"),
        ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375), 0.018658, 114, "uint8"),
        ((0.0, 0.0, 0.0), (255.0, 255.0, 255.0), 0.1, 0, "uint8"),
    ]
    found = []
    for mean, std, scale, zero_point, dtype in rows:
        values = pixel_table(mean, std, scale, zero_point, *RANGES[dtype])
        found.append({"mean": mean, "std": std, "scale": scale, "zero_point": zero_point, "dtype": dtype, "values": values})
    for dtype, code in (("float32", "f"), ("float16", "e")):
        mean, std = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
        rounded = [
            [struct.unpack(f"<{code}", struct.pack(f"<{code}", (p - mean[c]) / std[c]))[0] for p in range(256)] for c in range(3)
        ]
        found.append({"mean": mean, "std": std, "scale": None, "zero_point": None, "dtype": dtype, "values": rounded})
    return found


def decode_cases() -> list[dict]:
    """Logits -> the best classes and their scores; of equal logits the lower index comes first."""
    rows = [
        ("plain", "int8", 0.1, 3, [5, -12, 20], 2),
        ("tie", "int8", 0.1, 3, [7, 20, 20, 1], 3),
        ("all-equal", "int8", 0.1, 0, [4, 4, 4, 4], 4),
        ("top-above-classes", "int8", 0.1, 0, [1, 2], 5),
        ("extremes", "int8", 0.25, 0, [-128, 127, 127, -128], 4),
        ("uint8", "uint8", 0.1, 128, [0, 255, 128, 255], 3),
        ("one-class", "int8", 0.1, 0, [3], 1),
        ("float", "float32", None, None, [0.5, -1.25, 2.0, 2.0], 4),
        ("float-large", "float32", None, None, [1000.0, 999.0, -1000.0], 3),
        ("scores-round-to-equal", "float32", None, None, [-200.0, 600.0, -100.0], 3),
        ("scale-of-one-step", "uint8", 1.0, 0, [1, 0, 2], 3),
    ]
    found = []
    for name, dtype, scale, zero_point, logits, top in rows:
        order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
        best = max(logits)
        powers = [math.exp((v - best) * (scale or 1.0)) for v in logits]
        scores = [p / sum(powers) for p in powers]
        found.append(
            {
                "name": name,
                "dtype": dtype,
                "scale": scale,
                "zero_point": zero_point,
                "logits": logits,
                "top": top,
                "classes": order[:top],
                "scores": [round(scores[i], 12) for i in order[:top]],
                "tolerance": 1e-9,
            }
        )
    return found
