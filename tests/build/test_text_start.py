"""A student of random weights begins with its teacher's words."""

import dataclasses

import pytest
import torch

from edgekit.build.text.config import TextConfig
from edgekit.build.text.network import TextNetwork
from edgekit.build.text.start import DEVIATION, inherit_words

WIDE = TextConfig("bert", 60, hidden=16, layers=1, heads=2, intermediate=32, positions=12)
NARROW = TextConfig(
    "mobilebert", 60, 32, 1, 2, 32, 12, activation="relu", embedding=8, bottleneck=16, feed_forwards=2, no_norm=True
)


def network(config, seed):
    torch.manual_seed(seed)
    return TextNetwork(config, 3)


def test_words_keep_their_likeness():
    teacher, student = network(WIDE, 0), network(NARROW, 1)
    # Words that differ in eight directions only: as many components hold all of it.
    with torch.no_grad():
        teacher.embeddings.words.weight.copy_(torch.randn(60, 8) @ torch.randn(8, 16))
    assert inherit_words(student, teacher)
    theirs, own = teacher.embeddings.words.weight.detach(), student.embeddings.words.weight.detach()
    assert float(own.std()) == pytest.approx(DEVIATION, rel=1e-3)
    apart, wanted = (torch.cdist(each, each, compute_mode="donot_use_mm_for_euclid_dist") for each in (own, theirs))
    torch.testing.assert_close(apart / apart.max(), wanted / wanted.max(), atol=1e-4, rtol=1e-3)


def test_the_largest_components_come_first():
    student = network(NARROW, 1)
    inherit_words(student, network(WIDE, 0))
    spread = student.embeddings.words.weight.detach().std(0)
    assert torch.equal(spread, spread.sort(descending=True).values)


def test_a_wider_table_or_another_vocabulary_stays_as_it_is():
    teacher = network(WIDE, 0)
    for config in (dataclasses.replace(WIDE, hidden=32), dataclasses.replace(WIDE, vocabulary=50)):
        student = network(config, 1)
        before = student.embeddings.words.weight.detach().clone()
        assert not inherit_words(student, teacher)
        assert torch.equal(student.embeddings.words.weight, before)
