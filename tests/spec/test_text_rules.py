"""Refusals of manifests of networks that read text lead to the field: rules 12 to 17 of docs/bundle-format.md.

That each of them is refused, and by which code, is said by the conformance vectors, from which the manifests come.
"""

import json
from pathlib import Path

import pytest

from edgekit.spec.bundle import parse_manifest
from edgekit.spec.errors import BundleError
from edgekit.spec.manifest import to_json

VECTORS = Path(__file__).parents[1] / "conformance" / "manifests"
ENTRY, GOLDEN = "manifest.payloads[0].entries[0]", "manifest.payloads[0].goldens[0]"

WHERE = {
    "tokenizer-file": "manifest.text.tokenizer",
    "vocabulary-file": "manifest.text.vocabulary",
    "examples-file": "manifest.text.examples",
    "id-negative": "manifest.text.pad",
    "max-tokens-one": "manifest.text.max_tokens",
    "and-images": "manifest",
    "rungs": "manifest.rungs[1]",
    "resolution": "manifest.rungs[0].resolution_px",
    "golden-input-rung": "manifest.golden_inputs[0].rung",
    "golden-input-shape": "manifest.golden_inputs[0].shape",
    "golden-input-twice": "manifest.golden_inputs[2]",
    "golden-input-size": "manifest.golden_inputs[0].file",
    "payload-twice": "manifest.payloads",
    "entry-rung": f"{ENTRY}.rung",
    "entry-file": f"{ENTRY}.file",
    "pixel-table": f"{ENTRY}.pixel_table",
    "one-input": f"{ENTRY}.inputs",
    "three-inputs": f"{ENTRY}.inputs",
    "ids-dtype": f"{ENTRY}.inputs[0]",
    "ids-layout": f"{ENTRY}.inputs[0]",
    "ids-batch": f"{ENTRY}.inputs[0].shape",
    "keep-dtype": f"{ENTRY}.inputs[1]",
    "keep-shape": f"{ENTRY}.inputs[1]",
    "keep-layout": f"{ENTRY}.inputs[1]",
    "logits": f"{ENTRY}.outputs[0].shape",
    "logits-layout": f"{ENTRY}.outputs[0].shape",
    "buckets-order": "manifest.payloads[0].entries",
    "bucket-twice": "manifest.payloads[0].entries",
    "max-tokens": "manifest.payloads[0].entries",
    "golden-missing": "manifest.payloads[0].goldens",
    "golden-tokens-missing": "manifest.payloads[0].goldens",
    "golden-tokens": "manifest.payloads[0].goldens",
    "golden-inputs": f"{GOLDEN}.tokens",
    "golden-rung": "manifest.payloads[0].goldens",
    "golden-dtype": f"{GOLDEN}.dtype",
    "golden-count": f"{GOLDEN}.shape",
    "golden-file": f"{GOLDEN}.file",
    "ladder-order": "manifest.payloads[0].entries",
    "ladder-bucket": "manifest.payloads[0].entries",
    "ladder-alone": "manifest.payloads[0].entries",
    "ladder-features": "manifest.payloads[0].entries",
    "ladder-width": "manifest.payloads[0].entries",
    "ladder-keep": "manifest.payloads[0].entries[2].inputs",
    "ladder-keep-dtype": "manifest.payloads[0].entries[2].inputs[1]",
    "ladder-keep-batch": "manifest.payloads[0].entries[2].inputs[1]",
    "ladder-golden-missing": "manifest.payloads[0].goldens",
    "ladder-golden-twice": "manifest.payloads[0].goldens",
    "ladder-golden-inputs-rung": "manifest.golden_inputs[0].rung",
    "ladder-last-margin": "manifest.rungs[1].min_margin",
}


@pytest.mark.parametrize("name", WHERE)
def test_a_refusal_leads_to_the_field(name):
    with pytest.raises(BundleError) as caught:
        parse_manifest((VECTORS / f"text-{name}.json").read_bytes())
    assert caught.value.code == "bundle-manifest"
    assert caught.value.where == WHERE[name]


def test_fields_of_images_are_not_written():
    data = (VECTORS / "text.json").read_bytes()
    values = json.loads(data)
    assert to_json(parse_manifest(data)) == values
    assert set(values["rungs"][0]) == {"name", "continues", "min_margin"}
    assert {golden["tokens"] for golden in values["payloads"][0]["goldens"]} == {4, 8}
    image = json.loads((VECTORS / "nano.json").read_bytes())
    assert "text" not in image
    assert "tokens" not in image["payloads"][0]["goldens"][0]
