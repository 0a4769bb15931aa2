"""Networks of the transformers library with small random weights, as references: they prove plumbing, not answers."""

import pytest
import torch

from edgekit.build.text.config import read_config
from edgekit.build.text.network import TextNetwork
from edgekit.build.text.weights import load_weights

CLASSES = 5
CLOSE = 2e-5
COMMON = {"vocab_size": 97, "max_position_embeddings": 40, "num_labels": CLASSES}


def reference(family, *, headless=False, **settings):
    """A network of the family whose norms have gains and shifts of their own."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    ends = "Model" if headless else "ForSequenceClassification"
    names = {"bert": "Bert", "distilbert": "DistilBert", "mobilebert": "MobileBert"}
    sizes = {
        "bert": {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96},
        "distilbert": {"dim": 48, "n_layers": 2, "n_heads": 4, "hidden_dim": 96},
        "mobilebert": {
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 64,
            "embedding_size": 32,
            "intra_bottleneck_size": 32,
            "num_feedforward_networks": 3,
        },
    }
    config = getattr(transformers, f"{names[family]}Config")(**COMMON, **sizes[family], **settings)
    network = getattr(transformers, f"{names[family]}{ends}")(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        # transformers leaves the padding's embedding at zero, and MobileBERT reads its neighbours.
        network.get_input_embeddings().weight[0] = 0
    return network.eval()


def ours(network, folder, *, outputs=CLASSES):
    """What this project reads of a reference that is saved in the folder -> (network, names that were new)."""
    network.save_pretrained(folder)
    read = TextNetwork(read_config(folder), outputs)
    return read.eval(), load_weights(read, folder)


def padded():
    """(4, 24) int64 ids, three of them padded with -1 to different lengths."""
    ids = torch.randint(1, 97, (4, 24), generator=torch.Generator().manual_seed(2))
    for row, length in ((1, 23), (2, 10), (3, 1)):
        ids[row, length:] = -1
    return ids


def asked(network, ids):
    """What a reference gives for padded ids."""
    with torch.inference_mode():
        return network(input_ids=ids.clamp_min(0), attention_mask=(ids >= 0).long())
