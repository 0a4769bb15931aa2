"""Ladders: manifests with several rungs, and climbs."""

from typing import Any

from manifest_case import Case, good, rule, shape

MARGIN, LAST, CEILING = "margin", "last", "ceiling"
FLOORS = {"accurate": 9, "fast": 4}


def ladder_manifests(tiny: Any, text: Any) -> list[Case]:
    """Margins of floors, features that go from rung to rung, ladders of texts; bases are JSON values."""
    return [*_margins(tiny), *_features(), *_texts(text)]


def _margins(tiny: Any) -> list[Case]:
    # One payload alone: those of the base have logits of two scales, which allow no margin.
    int8 = ("payloads", tiny["payloads"][:1])

    def of(make: Any, name: str, why: str, *edits: tuple[str, Any]) -> Case:
        case: Case = make(name, why, int8, ("rungs.0.min_margin", 6), *edits, base="tiny")
        return case

    return [
        of(good, "margins", "margins of the other floors", ("rungs.0.margins", FLOORS)),
        of(good, "margins-equal", "all floors alike", ("rungs.0.margins", {"accurate": 6, "fast": 6})),
        of(good, "margins-fast-zero", "fast takes every answer", ("rungs.0.margins", {"accurate": 6.5, "fast": 0})),
        of(good, "margins-null", "said to have none", ("rungs.0.margins", None)),
        of(shape, "margins-negative", "a margin below 0", ("rungs.0.margins", {"accurate": 9, "fast": -1})),
        of(shape, "margins-half", "one floor alone", ("rungs.0.margins", {"accurate": 9})),
        of(shape, "margins-array", "margins without names", ("rungs.0.margins", [9, 4])),
        of(rule, "margins-accurate-low", "accurate takes more than balanced", ("rungs.0.margins", {"accurate": 5, "fast": 4})),
        of(rule, "margins-fast-high", "fast takes less than balanced", ("rungs.0.margins", {"accurate": 9, "fast": 7})),
        of(rule, "margins-last", "the last rung takes every answer", ("rungs.1.margins", {"accurate": 0, "fast": 0})),
        rule(
            "margins-two-scales",
            "margins for logits of two scales",
            ("rungs.0.margins", {"accurate": 9, "fast": 0}),
            base="tiny",
        ),
    ]


def _features() -> list[Case]:
    taken = "payloads.0.entries.1.inputs.0"
    feature = {"dtype": "int8", "shape": [1, 4, 1, 1], "layout": "NCHW", "scale": 0.02, "zero_point": -128}
    return [
        good("features-renamed", "features may be called otherwise where they arrive", (f"{taken}.name", "x"), base="tiny"),
        rule("features-shape", "features of another shape", (f"{taken}.shape", [1, 4, 2, 1]), base="tiny"),
        rule("features-scale", "features of another scale", (f"{taken}.scale", 0.04), base="tiny"),
        rule("features-zero-point", "features of another zero point", (f"{taken}.zero_point", 0), base="tiny"),
        rule(
            "features-two",
            "more features than are given",
            ("payloads.0.entries.1.inputs", [{"name": name, **feature} for name in ("a", "b")]),
            base="tiny",
        ),
    ]


def _texts(text: Any) -> list[Case]:
    """A text network with an exit; the payload's four entries are (exit, 4), (exit, 8), (last, 4), (last, 8)."""
    payload = text["payloads"][0]
    entries, goldens = [], []
    for rung, continues in (("main", False), ("last", True)):
        for entry, golden in zip(payload["entries"], payload["goldens"], strict=True):
            tokens = entry["inputs"][0]["shape"][1]
            hidden = {
                "name": "hidden",
                "dtype": "float32",
                "shape": [tokens, 6],
                "layout": "TC",
                "scale": None,
                "zero_point": None,
            }
            inputs = [hidden, entry["inputs"][1]] if continues else entry["inputs"]
            outputs = entry["outputs"] if continues else [*entry["outputs"], hidden]
            entries.append({**entry, "rung": rung, "method": f"{rung}_{tokens}", "inputs": inputs, "outputs": outputs})
            goldens.append({**golden, "rung": rung})
    base = text["rungs"][0]
    rungs = [{**base, "min_margin": 1.5}, {**base, "name": "last", "continues": True}]
    whole = (("rungs", rungs), ("payloads.0.entries", entries), ("payloads.0.goldens", goldens))

    def of(make: Any, name: str, why: str, *edits: tuple[str, Any]) -> Case:
        case: Case = make(f"text-ladder{name}", why, *whole, *edits, base="text")
        return case

    first, last = "payloads.0.entries.0", "payloads.0.entries.2"
    return [
        of(good, "", "a text network with an exit"),
        of(good, "-margins", "floors of texts", ("rungs.0.margins", {"accurate": 2.5, "fast": 0.5})),
        of(rule, "-order", "entries by bucket", ("payloads.0.entries", [entries[i] for i in (0, 2, 1, 3)])),
        of(rule, "-bucket", "a rung without a bucket", ("payloads.0.entries", entries[:3]), ("payloads.0.goldens", goldens[:3])),
        of(rule, "-alone", "a rung without the one it continues", *_only(entries, goldens, 2)),
        of(rule, "-features", "a rung that gives no features", (f"{first}.outputs", entries[0]["outputs"][:1])),
        of(rule, "-width", "features of another width", (f"{last}.inputs.0.shape", [4, 7])),
        of(rule, "-keep", "features without keep", (f"{last}.inputs", entries[2]["inputs"][:1])),
        of(rule, "-keep-dtype", "keep that is an integer", (f"{last}.inputs.1.dtype", "int32")),
        of(rule, "-keep-batch", "two texts at once", (f"{last}.inputs.1.shape", [2, 4])),
        of(rule, "-golden-missing", "a rung without golden", ("payloads.0.goldens", goldens[:3])),
        of(rule, "-golden-twice", "a golden twice", ("payloads.0.goldens", [*goldens[:3], goldens[2]])),
        of(rule, "-golden-inputs-rung", "golden inputs of the second rung", ("golden_inputs.0.rung", "last")),
        of(rule, "-last-margin", "the last rung takes every answer", ("rungs.1.min_margin", 1)),
    ]


def _only(entries: list, goldens: list, first: int) -> tuple[tuple[str, Any], ...]:
    return (("payloads.0.entries", entries[first:]), ("payloads.0.goldens", goldens[first:]))


def climbs() -> list[dict]:
    """What rungs would answer and take -> where the climb ends and why."""
    low, high = [3, 9, 1], [0, 0, 9]
    rows = [
        ("one-rung", "int8", [0], [low], {}),
        ("stops-at-once", "int8", [5, 0], [low, high], {}),
        ("margin-equal", "int8", [6, 0], [low, high], {}),
        ("margin-one-short", "int8", [7, 0], [low, high], {}),
        ("fraction-above", "int8", [6.5, 0], [low, high], {}),
        ("fraction-below", "int8", [5.5, 0], [low, high], {}),
        ("tie-climbs", "int8", [1, 0], [[9, 9, 1], high], {}),
        ("tie-stops-at-zero", "int8", [0, 0], [[9, 9, 1], high], {}),
        ("tie-on-last", "int8", [1, 0], [[9, 9, 1], [4, 7, 7]], {}),
        ("tie-of-three", "int8", [1, 0], [[9, 9, 9], [7, 7, 7]], {}),
        ("wider-than-int8", "int8", [255, 0], [[127, -128, -128], high], {}),
        ("wider-than-int8-short", "int8", [256, 0], [[127, -128, -128], high], {}),
        ("saturated-tie", "int8", [1, 0], [[127, 127, -128], [-128, -128, -127]], {}),
        ("uint8", "uint8", [200, 0], [[255, 3, 55], high], {}),
        ("uint8-whole-range", "uint8", [255, 0], [[255, 0, 0], high], {}),
        ("negative", "int8", [2, 0], [[-5, -3, -9], high], {}),
        ("negative-short", "int8", [3, 0], [[-5, -3, -9], [-1, -2, -3]], {}),
        ("two-classes", "int8", [4, 0], [[-2, 2], [5, 1]], {}),
        ("two-classes-short", "int8", [5, 0], [[-2, 2], [5, 1]], {}),
        ("three-rungs", "int8", [50, 10, 0], [[0, 20, 40], [0, 30, 40], [90, 0, 0]], {}),
        ("three-rungs-to-the-end", "int8", [50, 11, 0], [[0, 20, 40], [0, 30, 40], [90, 0, 0]], {}),
        ("one-class", "int8", [1, 0], [[5], [6]], {}),
        ("one-class-zero", "int8", [0, 0], [[5], [6]], {}),
        ("float-stops", "float32", [0.75, 0], [[1.0, 0.25, 0.0], [0.5, 0.25, 0.0]], {}),
        ("float-climbs", "float32", [0.75, 0], [[1.0, 0.5, 0.0], [0.5, 0.25, 0.0]], {}),
        ("float-negative", "float32", [0.5, 0], [[-1.0, -1.5, -9.0], [0.5, 0.25, 0.0]], {}),
        ("never", "int8", [256, 0], [[127, -128, -128], high], {"margins": [[256, 256], None]}),
        *_floors(low, high),
        *_chains(low, high),
        *_ceilings(low, high),
    ]
    return [_case(*row) for row in rows]


def _floors(low: list, high: list) -> list[tuple]:
    floors = {"margins": [[7, 5], None]}
    return [
        ("floor-balanced", "int8", [6, 0], [low, high], {**floors, "floor": "balanced"}),
        ("floor-accurate", "int8", [6, 0], [low, high], {**floors, "floor": "accurate"}),
        ("floor-accurate-equal", "int8", [6, 0], [[2, 9, 1], high], {**floors, "floor": "accurate"}),
        ("floor-fast", "int8", [6, 0], [[4, 9, 1], high], {**floors, "floor": "fast"}),
        ("floor-fast-short", "int8", [6, 0], [[5, 9, 1], high], {**floors, "floor": "fast"}),
        ("floor-without-margins", "int8", [7, 0], [low, high], {"floor": "fast"}),
    ]


def _chains(low: list, high: list) -> list[tuple]:
    three = [[1, 2, 3], [2, 3, 3], low]
    return [
        ("restarts", "int8", [7, 0], [low, high], {"continues": [False, False]}),
        ("continues", "int8", [7, 0], [low, high], {"continues": [False, True]}),
        ("continues-twice", "int8", [7, 7, 0], three, {"continues": [False, True, True]}),
        ("restarts-then-continues", "int8", [7, 7, 0], three, {"continues": [False, False, True]}),
        ("continues-then-restarts", "int8", [7, 7, 0], three, {"continues": [False, True, False]}),
    ]


def _ceilings(low: list, high: list) -> list[tuple]:
    def timed(ceiling_ms: float, took_ms: list, expected_ms: list, used_ms: float = 0) -> dict:
        return {"ceiling_ms": ceiling_ms, "took_ms": took_ms, "expected_ms": expected_ms, "used_ms": used_ms}

    three = [[1, 2, 3], [2, 3, 3], low]
    return [
        ("ceiling-far", "int8", [7, 0], [low, high], timed(100, [4, 16], [4, 16])),
        ("ceiling-equal", "int8", [7, 0], [low, high], timed(20, [4, 16], [4, 16])),
        ("ceiling-stops", "int8", [7, 0], [low, high], timed(19, [4, 16], [4, 16])),
        ("ceiling-counts-what-was-used", "int8", [7, 0], [low, high], timed(20, [4, 16], [4, 16], 1)),
        ("ceiling-first-runs", "int8", [7, 0], [low, high], timed(1, [4, 16], [4, 16])),
        ("ceiling-sure-anyway", "int8", [6, 0], [low, high], timed(1, [4, 16], [4, 16])),
        ("ceiling-slow-first", "int8", [7, 0], [low, high], timed(20, [8, 16], [4, 16])),
        ("ceiling-unknown-rung", "int8", [7, 0], [low, high], timed(5, [4, 16], [4, None])),
        ("ceiling-second", "int8", [7, 7, 0], three, timed(16, [4, 8, 16], [4, 8, 16])),
        ("ceiling-one-rung", "int8", [0], [low], timed(1, [4], [4])),
    ]


def _case(name: str, dtype: str, margins: list, logits: list, more: dict) -> dict:
    count = len(margins)
    asked = {
        "margins": more.get("margins", [None] * count),
        "floor": more.get("floor", "balanced"),
        "continues": more.get("continues", [False] * count),
        "ceiling_ms": more.get("ceiling_ms"),
        "used_ms": more.get("used_ms", 0),
        "took_ms": more.get("took_ms", [1] * count),
        "expected_ms": more.get("expected_ms", [None] * count),
    }
    rung, stopped_by = _climb(margins, logits, asked)
    values = logits[rung]
    return {
        "name": name,
        "dtype": dtype,
        "min_margins": margins,
        **asked,
        "logits": logits,
        "rung": rung,
        "margin": _margin(values),
        "best": values.index(max(values)),
        "stopped_by": stopped_by,
        "takes": [i - 1 if asked["continues"][i] else None for i in range(rung + 1)],
    }


def _margin(values: list) -> float:
    ordered = sorted(values, reverse=True)
    return ordered[0] - ordered[1] if len(ordered) > 1 else 0


def _climb(margins: list, logits: list, asked: dict) -> tuple[int, str]:
    used_ms = asked["used_ms"]
    for rung, values in enumerate(logits):
        used_ms += asked["took_ms"][rung]
        if rung == len(logits) - 1:
            return rung, LAST
        other = asked["margins"][rung]
        floors = {"balanced": margins[rung]} | dict(zip(("accurate", "fast"), other or (margins[rung],) * 2, strict=True))
        if _margin(values) >= floors[asked["floor"]]:
            return rung, MARGIN
        if asked["ceiling_ms"] is not None and used_ms + (asked["expected_ms"][rung + 1] or 0) > asked["ceiling_ms"]:
            return rung, CEILING
    raise ValueError("no rung")
