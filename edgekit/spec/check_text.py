"""What the manifest of a network that reads text must fulfil: rules 12 to 17 of docs/bundle-format.md."""

import math
from collections.abc import Mapping

from edgekit.spec.manifest import Entry, GoldenInputs, GoldenOutputs, Manifest, Payload, Rung, Text
from edgekit.spec.rules import (
    DIMENSION_MAX,
    DTYPE_SIZE_BYTES,
    SLUG,
    check_features,
    check_margins,
    check_placement,
    check_tensor,
    require,
    require_listed,
    require_size,
    unique,
)

__all__ = ["check_text"]

IDS = ("int32", "int64")
GOLDEN_ID_BYTES = 4


def check_text(manifest: Manifest, text: Text, sizes: Mapping[str, int]) -> None:
    """Check all that differs between texts and images.

    Raises:
        BundleError: `bundle-manifest`, with the field's path.
    """
    _check_tokenizer(text, sizes)
    inputs = _check_golden_inputs(manifest, sizes)
    unique((p.id for p in manifest.payloads), what="payload id", where="manifest.payloads")
    require(manifest.payloads, "no payload", "manifest.payloads")
    for i, payload in enumerate(manifest.payloads):
        _check_payload(payload, manifest, sizes, inputs, where=f"manifest.payloads[{i}]")
    check_margins(manifest)


def _check_tokenizer(text: Text, sizes: Mapping[str, int]) -> None:
    for field, name in (("tokenizer", text.tokenizer), ("vocabulary", text.vocabulary), ("examples", text.examples)):
        require_listed(name, sizes, f"manifest.text.{field}")
    for field, number in (("cls", text.cls), ("sep", text.sep), ("pad", text.pad), ("unk", text.unk)):
        require(0 <= number <= DIMENSION_MAX, f"id {number}", f"manifest.text.{field}")
    require(2 <= text.max_tokens <= DIMENSION_MAX, f"{text.max_tokens} tokens", "manifest.text.max_tokens")


def _check_golden_inputs(manifest: Manifest, sizes: Mapping[str, int]) -> dict[int, GoldenInputs]:
    """Golden inputs by bucket."""
    found: dict[int, GoldenInputs] = {}
    for i, golden in enumerate(manifest.golden_inputs):
        where = f"manifest.golden_inputs[{i}]"
        require(golden.rung == manifest.rungs[0].name, f"no rung {golden.rung!r}", f"{where}.rung")
        fits = len(golden.shape) == 2 and all(1 <= side <= DIMENSION_MAX for side in golden.shape)
        require(fits, f"shape {list(golden.shape)} is not [n, tokens]", f"{where}.shape")
        require(golden.shape[1] not in found, f"golden inputs of {golden.shape[1]} tokens occur twice", where)
        require_size(golden.file, math.prod(golden.shape) * GOLDEN_ID_BYTES, sizes, f"{where}.file")
        found[golden.shape[1]] = golden
    return found


def _check_payload(
    payload: Payload, manifest: Manifest, sizes: Mapping[str, int], inputs: Mapping[int, GoldenInputs], *, where: str
) -> None:
    for field, name in (("id", payload.id), ("engine", payload.engine), ("precision", payload.precision)):
        require(SLUG.fullmatch(name), f"name {name!r}", f"{where}.{field}")
    require(payload.entries, "no entry", f"{where}.entries")
    rungs = {rung.name: rung for rung in manifest.rungs}
    for i, entry in enumerate(payload.entries):
        at = f"{where}.entries[{i}]"
        require(entry.rung in rungs, f"no rung {entry.rung!r}", f"{at}.rung")
        _check_entry(entry, rungs[entry.rung], manifest.model.classes, sizes, where=at)
    entries = {(entry.rung, entry.tokens): entry for entry in payload.entries}
    buckets = list(dict.fromkeys(tokens for _, tokens in entries))
    served = [rung.name for rung in manifest.rungs if any(name == rung.name for name, _ in entries)]
    every = [(name, tokens) for name in served for tokens in buckets]
    ascend = buckets == sorted(buckets) and [(e.rung, e.tokens) for e in payload.entries] == every
    require(ascend, f"entries {list(entries)} are not of each rung in turn the same buckets, ascending", f"{where}.entries")
    longest = manifest.text.max_tokens if manifest.text else 0
    require(buckets[-1] == longest, f"the largest bucket is {buckets[-1]}, max_tokens {longest}", f"{where}.entries")
    _check_chain(entries, manifest, served, buckets, where=f"{where}.entries")
    given = [(golden.rung, golden.tokens) for golden in payload.goldens]
    one = len(given) == len(entries) and set(given) == set(entries)
    require(one, f"goldens {given}, entries {list(entries)}", f"{where}.goldens")
    for i, golden in enumerate(payload.goldens):
        tokens = golden.tokens or 0
        require(tokens in inputs, f"no golden inputs of {tokens} tokens", f"{where}.goldens[{i}].tokens")
        _check_goldens(golden, entries[golden.rung, tokens], inputs[tokens], sizes, where=f"{where}.goldens[{i}]")
    check_placement(payload, where=where)


def _check_chain(
    entries: Mapping[tuple[str, int], Entry], manifest: Manifest, served: list[str], buckets: list[int], *, where: str
) -> None:
    for before, rung in zip(manifest.rungs, manifest.rungs[1:], strict=False):
        if not rung.continues or rung.name not in served:
            continue
        require(before.name in served, f"rung {rung.name!r} continues {before.name!r}, which has no entry", where)
        for tokens in buckets:
            check_features(entries[before.name, tokens], entries[rung.name, tokens].inputs[:-1], where=where)


def _check_entry(entry: Entry, rung: Rung, classes: int, sizes: Mapping[str, int], *, where: str) -> None:
    require_listed(entry.file, sizes, f"{where}.file")
    require(entry.pixel_table is None, "a rung that reads text takes no pixels", f"{where}.pixel_table")
    for field, tensors in (("inputs", entry.inputs), ("outputs", entry.outputs)):
        require(tensors, f"no {field}", f"{where}.{field}")
        for i, tensor in enumerate(tensors):
            check_tensor(tensor, where=f"{where}.{field}[{i}]")
    _check_inputs(entry, rung, where=f"{where}.inputs")
    logits = entry.outputs[0]
    fits = logits.layout == "NC" and logits.shape == (1, classes)
    require(fits, f"{logits.layout} {list(logits.shape)} is not [1, {classes}]", f"{where}.outputs[0].shape")


def _check_inputs(entry: Entry, rung: Rung, *, where: str) -> None:
    """Ids and keep; of a rung that continues features and keep, whose number of tokens is the bucket."""
    keep = entry.inputs[-1]
    count, last = len(entry.inputs), f"{where}[{len(entry.inputs) - 1}]"
    if rung.continues:
        require(count >= 2, f"{count} inputs, not features and keep", where)
        whole = keep.layout == "NT" and keep.dtype == "float32" and keep.shape[0] == 1
        require(whole, f"keep is {keep.dtype} {list(keep.shape)} {keep.layout}", last)
        return
    require(count == 2, f"{count} inputs, not ids and keep", where)
    ids = entry.inputs[0]
    require(ids.layout == "NT" and ids.dtype in IDS, f"ids are {ids.dtype} {ids.layout}", f"{where}[0]")
    require(ids.shape[0] == 1, f"a batch of {ids.shape[0]}", f"{where}[0].shape")
    same = (keep.layout, keep.dtype, keep.shape) == ("NT", "float32", ids.shape)
    require(same, f"keep is {keep.dtype} {list(keep.shape)} {keep.layout}", last)


def _check_goldens(golden: GoldenOutputs, entry: Entry, inputs: GoldenInputs, sizes: Mapping[str, int], *, where: str) -> None:
    output = entry.outputs[0]
    require(golden.dtype == output.dtype, f"dtype {golden.dtype!r}, but the entry gives {output.dtype!r}", f"{where}.dtype")
    shape = (inputs.shape[0], output.shape[1])
    require(golden.shape == shape, f"shape {list(golden.shape)} is not {list(shape)}", f"{where}.shape")
    require(golden.tolerance >= 0, f"tolerance {golden.tolerance} is below 0", f"{where}.tolerance")
    require_size(golden.file, math.prod(shape) * DTYPE_SIZE_BYTES[output.dtype], sizes, f"{where}.file")
