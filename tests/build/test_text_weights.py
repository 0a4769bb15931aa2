"""Weights of Hugging Face folders: which are new, and which are refused."""

import pytest
import torch
from text_references import CLASSES, ours, padded, reference

from edgekit.build.text.config import read_config
from edgekit.build.text.network import TextNetwork
from edgekit.build.text.weights import load_weights
from edgekit.spec.errors import InputError

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def folder(tmp_path):
    reference("bert").save_pretrained(tmp_path)
    return tmp_path


def network(folder, *, outputs=CLASSES):
    return TextNetwork(read_config(folder), outputs).eval()


def state(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def rewrite(folder, tensors):
    from safetensors.torch import save_file

    save_file(tensors, folder / "model.safetensors")


def test_head_of_an_encoder_is_new(tmp_path):
    _, new = ours(reference("bert", headless=True), tmp_path)
    assert new == ("head.weight", "head.bias")


def test_head_of_other_classes_is_new_and_the_rest_is_loaded(folder):
    read = network(folder, outputs=CLASSES + 1)
    assert load_weights(read, folder) == ("head.weight", "head.bias")
    assert torch.equal(read.pooler.weight, state(folder)["bert.pooler.dense.weight"])


def test_pytorch_file_gives_the_same(folder):
    first, second = network(folder), network(folder)
    load_weights(first, folder)
    torch.save(state(folder), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert load_weights(second, folder) == ()
    assert torch.equal(first(padded()), second(padded()))


def test_names_of_tensorflow_and_half_precision(folder):
    wanted = state(folder)
    old = {
        k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v for k, v in wanted.items()
    }
    rewrite(folder, {k: v.half() for k, v in old.items()})
    read = network(folder)
    assert load_weights(read, folder) == ()
    norm = read.embeddings.norm.weight
    assert norm.dtype == torch.float32
    assert torch.equal(norm, wanted["bert.embeddings.LayerNorm.weight"].half().float())


def _lacks(tensors):
    del tensors["bert.encoder.layer.1.output.dense.weight"]


def _narrow(tensors):
    tensors["bert.encoder.layer.1.output.dense.weight"] = torch.zeros(48, 95)


def _no_numbers(tensors):
    tensors["bert.encoder.layer.1.output.dense.weight"][3, 4] = float("nan")


@pytest.mark.parametrize(("harm", "what"), [(_lacks, "there is no tensor"), (_narrow, "asks for"), (_no_numbers, "no numbers")])
def test_harmed_weights_are_refused_and_change_nothing(harm, what, folder):
    tensors = state(folder)
    harm(tensors)
    rewrite(folder, tensors)
    read = network(folder)
    before = {k: v.clone() for k, v in read.state_dict().items()}
    with pytest.raises(InputError, match=what) as caught:
        load_weights(read, folder)
    assert caught.value.code == "hf-weights"
    assert "encoder.layer.1.output.dense.weight" in str(caught.value)
    assert all(torch.equal(v, before[k]) for k, v in read.state_dict().items())


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_damaged_files_are_refused(name, folder):
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(b"no weights")
    with pytest.raises(InputError, match="cannot be read") as caught:
        load_weights(network(folder), folder)
    assert caught.value.code == "hf-weights"


def test_no_weights(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="there are no weights"):
        load_weights(network(folder), folder)
