"""Training with the rounding of dynamic INT8: what is rounded, that gradients pass, that it wins answers back."""

import numpy as np
import pytest
import torch
from token_toys import FACTS, VOCABULARY, plan, reader, token_lesson
from torch import nn
from training_toys import equal

from edgekit.build.text.fake import rounded, train_rounded
from edgekit.build.text.integers import grid_of, rounded_rows, rounded_weight
from edgekit.build.training.evaluate import evaluate
from edgekit.build.training.trainer import train
from edgekit.spec.errors import UnknownName

pytestmark = pytest.mark.usefixtures("one_thread")


class Block(nn.Module):
    """An embedding, two norms, residual path and three linear layers, of which two read a norm."""

    def __init__(self, width=16):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(8, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)
        self.up, self.down, self.head = nn.Linear(width, 32, bias=False), nn.Linear(32, width), nn.Linear(width, 3)
        for norm in (self.first, self.second):
            nn.init.normal_(norm.weight, 1.0, 0.5)
            nn.init.normal_(norm.bias, 0.0, 0.5)

    def forward(self, ids):
        x = self.dropout(self.first(self.words(ids.clamp_min(0)) + self.places.weight[0]))
        x = self.second(x + self.down(torch.tanh(self.up(x))))
        return self.head(x[:, 0])


def test_weights_lie_on_the_grid_of_export():
    torch.manual_seed(0)
    weight = torch.randn(5, 7) * torch.tensor([1.0, 1e-3, 0.0, 40.0, 0.5])[:, None]
    assert np.abs(rounded_weight(weight).numpy() - grid_of(weight).real()).max() < 1e-6 * float(weight.abs().max())
    steps = rounded_weight(weight).numpy() / grid_of(weight).scales[:, None]
    assert np.array_equal(np.rint(steps), grid_of(weight).values)


def test_rows_have_grids_of_their_own_with_zero_among_them():
    x = torch.tensor([[0.0, 1.0, 2.55], [-100.0, 0.0, 155.0], [3.0, 4.0, 5.1], [0.0, 0.0, 0.0]])
    found = rounded_rows(x)
    assert torch.allclose(found[0], x[0], atol=1e-6)  # steps of 0.01
    assert torch.allclose(found[1], x[1], atol=1e-4)  # steps of 1
    assert torch.allclose(found[2], x[2], atol=0.01)  # from zero, not from 3: steps of 0.02
    assert torch.equal(found[3], x[3])
    y = torch.randn(64, 48)
    step = (y.amax(1).clamp_min(0) - y.amin(1).clamp_max(0)) / 255
    assert ((rounded_rows(y) - y).abs() <= step[:, None] * 1.01).all()
    assert len({round(float(v / step[0]), 3) for v in rounded_rows(y)[0] - rounded_rows(y)[0].min()}) > 20


def test_norms_are_folded_before_weights_are_rounded():
    torch.manual_seed(1)
    block = Block().eval()
    ids = torch.randint(0, VOCABULARY, (4, 8))
    twin = rounded(block, ids)
    assert [twin.up.norm[0], twin.down.norm[0], twin.head.norm[0]] == [twin.first, None, None]  # the head reads a slice
    h = torch.nn.functional.layer_norm(rounded_weight(block.words.weight)[ids] + block.places.weight[0], (16,))
    weight = torch.from_numpy(grid_of(block.up.weight * block.first.weight).real())
    expected = rounded_rows(h) @ weight.T + block.up.weight @ block.first.bias
    x = h * block.first.weight + block.first.bias
    assert torch.allclose(twin.up(x), expected, atol=0.03)  # one step of a value that fell to the other side
    assert (twin.up(x) - expected).abs().median() < 1e-5


def test_it_is_the_same_network_up_to_rounding_and_shares_nothing():
    torch.manual_seed(1)
    block = Block().eval()
    ids = torch.randint(0, VOCABULARY, (64, 8))
    twin = rounded(block, ids)
    assert list(twin.state_dict()) == list(block.state_dict())
    assert equal(twin, block)
    with torch.no_grad():
        apart = (twin(ids) - block(ids)).abs().max()
        assert 1e-4 < apart < 0.05 * block(ids).abs().max()
        twin.up.weight.zero_()
    assert not equal(twin, block)
    whole = rounded(block, ids, float_layers=("up", "down", "head"))
    assert isinstance(whole.up, nn.Linear)
    with pytest.raises(UnknownName, match="sideways"):
        rounded(block, ids, float_layers=("sideways",))


def test_gradients_pass_to_weights_and_norms():
    torch.manual_seed(1)
    block = Block().eval()
    ids = torch.randint(0, VOCABULARY, (64, 8))
    twin = rounded(block, ids).requires_grad_(True)
    block.requires_grad_(True)
    for module in (block, twin):
        module(ids).square().mean().backward()
    for (name, a), b in zip(block.named_parameters(), twin.parameters(), strict=True):
        if a.grad is not None:
            assert torch.nn.functional.cosine_similarity(a.grad.flatten(), b.grad.flatten(), dim=0) > 0.98, name


def test_training_with_rounding_wins_answers_back():
    """A wide spread of one row's weights leaves few steps for the rest; learning moves them."""
    lesson = token_lesson()
    module = reader(dropout=0.0)
    train(module, lesson, plan(epochs=30))
    with torch.no_grad():
        module.hidden.weight[:, 0] = 250 * module.hidden.weight.abs().max()
        module.table.weight[:, 0] = 0.0  # this column never sees anything: the float network is none the worse
    ids = torch.zeros(2, 8, dtype=torch.int64)
    exact = evaluate(module, lesson.tune, FACTS)

    def loss():
        logits = torch.from_numpy(evaluate(rounded(module, ids), lesson.tune, FACTS))
        return float(torch.nn.functional.cross_entropy(logits, torch.tensor(lesson.tune.labels)))

    before, whole = loss(), float(torch.nn.functional.cross_entropy(torch.from_numpy(exact), torch.tensor(lesson.tune.labels)))
    assert before > 1.3 * whole
    trained = train_rounded(module, lesson, plan(epochs=14, learning_rate=2e-2, label_smoothing=0.0))
    assert loss() - whole < 0.5 * (before - whole)
    assert trained.history[trained.best_epoch - 1].tune_loss == pytest.approx(loss(), rel=1e-4)
    assert isinstance(module.hidden, nn.Linear)
    assert not any(p.requires_grad for p in module.parameters())


@pytest.mark.parametrize(("family", "pooler"), [("bert", ""), ("bert", "tanh"), ("distilbert", "relu"), ("mobilebert", "")])
def test_what_is_rounded_in_training_is_what_export_rounds(family, pooler):
    from edgekit.build.text.config import TextConfig
    from edgekit.build.text.integers import TABLE, grids_of, matched
    from edgekit.build.text.network import TextNetwork
    from edgekit.build.text.rewrite import rewrite

    narrow = {"embedding": 8, "bottleneck": 8, "feed_forwards": 2, "no_norm": True} if family == "mobilebert" else {}
    config = TextConfig(family, VOCABULARY, 16, 2, 2, 32, 12, pooling="cls" if pooler else "mean", pooler=pooler, **narrow)
    torch.manual_seed(0)
    network = TextNetwork(config, 3).eval()
    for name, parameter in network.named_parameters():
        if "norm" in name:
            nn.init.normal_(parameter, 1.0, 0.2)
    ids = torch.randint(0, VOCABULARY, (4, 8))
    twin = rounded(network, ids)
    layers = {name: layer for name, layer in twin.named_modules() if hasattr(layer, "folded")}
    grids = grids_of(rewrite(network))
    assert len(layers) == len(grids) - 1
    ours = [grid_of(layer.folded()).values for layer in layers.values()]
    same = matched([*ours, grid_of(twin.embeddings.words.weight).values], grids)
    # Folds are computed in float64 there: a value in ten thousand may fall to the other side.
    rest = [grids[name].values for name in grids if name not in same]
    assert all(min(np.abs(g.astype(int) - o).sum() for o in ours if o.shape == g.shape) <= 2 for g in rest)
    assert TABLE in same
    assert len(rest) <= 2
    with torch.no_grad():
        assert (twin(ids) - network(ids)).abs().max() < 0.1 * network(ids).abs().max()
