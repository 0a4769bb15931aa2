"""The exported form against the network it was made of."""

import pytest
import torch
from text_references import CLOSE, asked, ours, padded, reference

from edgekit.build.text.config import FAMILIES
from edgekit.build.text.plain import NORMS
from edgekit.build.text.rewrite import rewrite

pytestmark = pytest.mark.usefixtures("one_thread")

# What XNNPACK does not take, or what it takes only as a constant.
REFUSED = ("scaled_dot_product", "unsqueeze", "expand", "full", "zeros", "where", "aten.mm.", "div", "reciprocal", "matmul")


def example(ids):
    """One row of padded ids -> inputs of a form."""
    return ids.clamp_min(0)[None], (ids >= 0).float()[None]


def given(form, ids):
    with torch.inference_mode():
        return torch.cat([form(*example(row)) for row in ids])


@pytest.mark.parametrize("headless", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_form_gives_what_transformers_and_the_network_give(family, headless, tmp_path):
    theirs = reference(family, headless=headless)
    network, _ = ours(theirs, tmp_path, outputs=0 if headless else 5)
    plain, ids = rewrite(network), padded()
    with torch.inference_mode():
        wanted = network(ids)
    for norm in NORMS:
        got = given(plain.form(tokens=24, norm=norm), ids)
        assert (got - wanted).abs().max() < CLOSE
        if not headless:
            assert (got - asked(theirs, ids).logits).abs().max() < CLOSE


@pytest.mark.parametrize("family", FAMILIES)
def test_mean_over_tokens_with_a_head(family, tmp_path):
    network, _ = ours(reference(family, headless=True), tmp_path)
    with torch.inference_mode():
        wanted = network(padded())
    assert (given(rewrite(network).form(tokens=24), padded()) - wanted).abs().max() < CLOSE


@pytest.mark.parametrize("family", FAMILIES)
def test_forms_share_the_weights_of_linears(family, tmp_path):
    plain = rewrite(ours(reference(family), tmp_path)[0])
    short, long = plain.form(tokens=8), plain.form(tokens=24)
    pointers = [{p.data_ptr() for p in form.parameters()} for form in (short, long)]
    assert pointers[0] == pointers[1]
    ids, keep = example(padded()[0, :8])
    before = short(ids, keep)
    next(iter(plain.linears().values())).weight.mul_(0)
    assert not torch.allclose(short(ids, keep), before)


@pytest.mark.parametrize("family", FAMILIES)
def test_linears_are_all_in_order_of_execution(family, tmp_path):
    plain = rewrite(ours(reference(family), tmp_path)[0])
    ran = []
    for name, linear in plain.linears().items():
        linear.register_forward_hook(lambda *_, name=name: ran.append(name))
    given(plain.form(tokens=24), padded()[:1])
    assert ran == list(plain.linears())
    assert len(ran) == sum(isinstance(m, torch.nn.Linear) for m in plain.modules())


@pytest.mark.parametrize("family", FAMILIES)
def test_graph_has_no_operator_that_splits_it(family, tmp_path):
    plain = rewrite(ours(reference(family), tmp_path)[0])
    graph = torch.export.export(plain.form(tokens=24), example(padded()[0]), strict=False).graph
    names = [str(node.target) for node in graph.nodes if node.op == "call_function"]
    assert [n for n in names if any(word in n for word in REFUSED)] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_linears_of_one_tensor_follow_each_other(family, tmp_path):
    """A reader between them makes XNNPACK's partitioner split the graph in every layer (INT8)."""
    plain = rewrite(ours(reference(family), tmp_path)[0])
    graph = torch.export.export(plain.form(tokens=24), example(padded()[0]), strict=False).graph
    place = {node: i for i, node in enumerate(graph.nodes)}
    shared = 0
    for node in graph.nodes:
        linears = sorted(place[u] for u in node.users if "linear" in str(u.target) and tuple(u.meta["val"].shape)[-1] > 1)
        if len(linears) > 1 and node.op == "call_function":
            assert linears == list(range(linears[0], linears[0] + len(linears))), node
            shared += 1
    assert shared == len(plain.layers) * (2 if family == "mobilebert" else 1)


def test_any_length(tmp_path):
    network, _ = ours(reference("bert"), tmp_path)
    form = rewrite(network).form(tokens=None, norm="native")
    n = torch.export.Dim("n", min=2, max=40)
    program = torch.export.export(form, example(padded()[0]), dynamic_shapes=({1: n}, {1: n}), strict=False).module()
    for length in (5, 17):
        ids = padded()[:1, :length]
        assert (given(program, ids) - network(ids)).abs().max() < CLOSE


def test_int8_table_is_within_half_a_step(tmp_path):
    plain = rewrite(ours(reference("bert"), tmp_path)[0])
    form = plain.form(tokens=24, table="int8")
    step = plain.table.weight.abs().amax(1, keepdim=True) / 127
    assert form.values.dtype == torch.int8
    assert ((form.values * form.scale - plain.table.weight).abs() <= step / 2 * (1 + 1e-5)).all()
    exact, rounded = given(plain.form(tokens=24), padded()), given(form, padded())
    assert 0 < (exact - rounded).abs().max() < 0.1


@pytest.mark.parametrize("asked_for", [{"norm": "fast"}, {"table": "int4"}])
def test_unknown_forms_are_refused(asked_for, tmp_path):
    plain = rewrite(ours(reference("bert"), tmp_path)[0])
    with pytest.raises(ValueError, match="no form"):
        plain.form(tokens=24, **asked_for)
