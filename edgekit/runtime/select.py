"""Which payload of a bundle runs here: the one that is asked for, else the fastest that proves itself."""

import dataclasses
import statistics
import time
from collections.abc import Sequence

from edgekit.runtime import engines
from edgekit.runtime.loaded import Loaded, load_payload
from edgekit.runtime.loaded_text import LoadedText, load_text
from edgekit.runtime.results import Refusal
from edgekit.runtime.verdicts import Verdict, read_verdict, verdict_key, write_verdict
from edgekit.spec.bundle import BundleReader
from edgekit.spec.errors import BundleError, EdgekitError, InputError, SetupError, UnknownName
from edgekit.spec.manifest import Manifest, Payload

__all__ = ["Choice", "choose", "matching", "race"]

WARM_RUNS = 3
RACE_ROUNDS = 11


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """The payload that was taken, loaded, and why the others were not."""

    loaded: Loaded | LoadedText
    refused: tuple[Refusal, ...]


def matching(manifest: Manifest, *, engine: str, precision: str | None) -> tuple[Payload, ...]:
    """Payloads that fit a request, in the target's order of preference.

    Raises:
        InputError: there is none; names those that are there.
    """
    order = manifest.target.engines
    fits = [p for p in manifest.payloads if engine in ("auto", p.engine) and precision in (None, p.precision)]
    if not fits:
        wanted = " ".join(part for part in ("" if engine == "auto" else engine, precision or "") if part)
        have = ", ".join(payload.id for payload in manifest.payloads)
        raise InputError(
            f"the bundle has no {wanted} payload", where="bundle", fix=f"choose one of: {have}", code="payload-missing"
        )
    return tuple(sorted(fits, key=lambda p: order.index(p.engine) if p.engine in order else len(order)))


def choose(reader: BundleReader, *, engine: str, precision: str | None, threads: int) -> Choice:
    """Load the payload to run.

    Args:
        reader: the open bundle.
        engine: name of an engine, or `auto`.
        precision: take only payloads of this precision.
        threads: threads that an engine may use.

    Raises:
        InputError: nothing in the bundle fits the request.
        SetupError: no engine for it is installed.
        BundleError: no payload loads and passes its goldens.
    """
    payloads = matching(reader.manifest, engine=engine, precision=precision)
    if engine != "auto":
        # An explicit engine is the user's word: the payload the target prefers, no race.
        return Choice(_load(reader, payloads[0], threads=threads), ())
    return _choose_fastest(reader, payloads, threads=threads)


def _choose_fastest(reader: BundleReader, payloads: Sequence[Payload], *, threads: int) -> Choice:
    versions = {name: _version(name) for name in {payload.engine for payload in payloads}}
    absent = tuple(_not_installed(payload) for payload in payloads if versions[payload.engine] is None)
    present = [payload for payload in payloads if versions[payload.engine] is not None]
    if not present:
        raise SetupError(
            f"no engine of this bundle is installed: {', '.join(sorted(versions))}",
            where=str(reader.path),
            fix=absent[0].why.partition(": ")[2],
            code="engine-missing",
        )
    key = verdict_key(reader.digest, payloads=tuple(p.id for p in present), versions=versions, threads=threads)
    remembered = _load_remembered(reader, present, read_verdict(key), threads=threads)
    if remembered is not None:
        return Choice(remembered.loaded, (*absent, *remembered.refused))
    choice, lasting = _run_race(reader, present, threads=threads)
    if lasting:
        write_verdict(key, Verdict(choice.loaded.payload.id, choice.refused))
    return Choice(choice.loaded, (*absent, *choice.refused))


def _version(name: str) -> str | None:
    try:
        return engines.find(name).version()
    except UnknownName:
        return None


def _not_installed(payload: Payload) -> Refusal:
    try:
        why = f"not installed: {engines.find(payload.engine).INSTALL}"
    except UnknownName:
        why = "not known here: update edgekit"
    return Refusal(payload.engine, why, payload.precision)


def _load_remembered(reader: BundleReader, present: Sequence[Payload], verdict: Verdict | None, *, threads: int) -> Choice | None:
    winner = next((payload for payload in present if verdict is not None and payload.id == verdict.payload), None)
    if winner is None or verdict is None:
        return None
    try:
        return Choice(_load(reader, winner, threads=threads), verdict.refused)
    except (SetupError, BundleError):
        # What won once no longer loads; the race will say why.
        return None


def _run_race(reader: BundleReader, present: Sequence[Payload], *, threads: int) -> tuple[Choice, bool]:
    """-> the winner, and whether the verdict will hold the next time too."""
    contenders: list[Loaded | LoadedText] = []
    refused: list[Refusal] = []
    lasting = True
    try:
        for payload in present:
            try:
                contenders.append(_proved(reader, payload, threads=threads))
            except EdgekitError as error:
                refused.append(Refusal(payload.engine, error.what, payload.precision))
                lasting = lasting and not isinstance(error, SetupError)
        if not contenders:
            raise BundleError(
                "no payload of this bundle runs here: " + "; ".join(f"{r.engine} {r.precision}: {r.why}" for r in refused),
                where=str(reader.path),
                fix="copy the bundle again or rebuild it",
                code="payload-none",
            )
        times_ms = race(reader, contenders) if len(contenders) > 1 else (0.0,)
        best = times_ms.index(min(times_ms))
    except BaseException:
        for loaded in contenders:
            loaded.close()
        raise
    for index, loaded in enumerate(contenders):
        if index != best:
            why = f"slower: {times_ms[index]:.3g} ms against {times_ms[best]:.3g} ms here"
            refused.append(Refusal(loaded.payload.engine, why, loaded.payload.precision))
            loaded.close()
    return Choice(contenders[best], tuple(refused)), lasting


def _load(reader: BundleReader, payload: Payload, *, threads: int) -> Loaded | LoadedText:
    return (
        load_payload(reader, payload, threads=threads)
        if reader.manifest.text is None
        else load_text(reader, payload, threads=threads)
    )


def _proved(reader: BundleReader, payload: Payload, *, threads: int) -> Loaded | LoadedText:
    loaded = _load(reader, payload, threads=threads)
    try:
        for result in loaded.check_goldens(reader):
            if not result.ok:
                raise BundleError(
                    f"fails its goldens: off by {result.max_difference:g}, accepted is {result.tolerance:g}",
                    where=payload.id,
                    fix="rebuild the bundle",
                    code="payload-goldens",
                )
    except BaseException:
        loaded.close()
        raise
    return loaded


def race(reader: BundleReader, contenders: Sequence[Loaded | LoadedText]) -> tuple[float, ...]:
    """Median milliseconds of each contender for the first golden input, interleaved so that a busy moment hits all alike."""
    runs = [loaded.sample_run(reader) for loaded in contenders]
    times: list[list[float]] = [[] for _ in contenders]
    for turn in range(WARM_RUNS + RACE_ROUNDS):
        for index, run in enumerate(runs):
            start = time.perf_counter()
            run()
            if turn >= WARM_RUNS:
                times[index].append((time.perf_counter() - start) * 1e3)
    return tuple(statistics.median(values) for values in times)
