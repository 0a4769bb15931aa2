"""Observers that clip what is rare."""

import copy
from dataclasses import replace

import pytest
import torch
from small_graphs import EXAMPLE, Net
from torch import nn
from torchao.quantization.pt2e.observer import HistogramObserver

from edgekit.build.observers import BINS, MseObserver, PercentileObserver
from edgekit.build.quantize import quantize, signal_to_noise_db
from edgekit.build.recipe import PLAIN

STEPS = 255
BOTH = [PercentileObserver, MseObserver]


def make(observer):
    return observer.with_args(eps=2.0**-16)(
        dtype=torch.int8, qscheme=torch.per_tensor_affine, quant_min=-128, quant_max=127, is_dynamic=False
    )


def values(n, *, seed=0, fill="normal_"):
    return getattr(torch.empty(n), fill)(generator=torch.Generator().manual_seed(seed))


def ends(seen):
    """Lowest and highest value that the resulting scale holds."""
    scale, zero = (float(v) for v in seen.calculate_qparams())
    return (-128 - zero) * scale, (127 - zero) * scale


def shown(observer, *batches):
    seen = make(observer)
    for batch in batches:
        assert seen(batch) is batch
    return seen


def square_error(seen, x):
    scale, zero = (float(v) for v in seen.calculate_qparams())
    return float((torch.fake_quantize_per_tensor_affine(x, scale, int(zero), -128, 127) - x).square().mean())


@pytest.mark.parametrize("observer", BOTH)
def test_an_even_spread_keeps_its_range(observer):
    low, high = ends(shown(observer, 4 * values(20000, fill="uniform_") - 1))
    assert low == pytest.approx(-1, abs=0.03)
    assert high == pytest.approx(3, abs=0.03)


@pytest.mark.parametrize("observer", BOTH)
def test_ranges_hold_zero(observer):
    low, high = ends(shown(observer, 1 + values(5000, fill="uniform_")))
    assert low == 0
    assert high == pytest.approx(2, abs=0.03)


def test_a_percentile_is_that_of_all_values():
    x = values(400_000).abs()
    _, high = ends(shown(PercentileObserver, *x.split(1000)))
    expected = float(x.double().kthvalue(int(0.9999 * len(x)))[0])
    assert high == pytest.approx(expected, abs=2 * float(x.max()) / BINS + high / STEPS)


def test_a_rare_outlier_does_not_set_the_range():
    x = torch.cat([values(100_000), torch.tensor([50.0])])
    low, high = ends(shown(PercentileObserver, x))
    assert 3 < high < 5
    assert -5 < low < -3


def test_an_outlier_counts_by_its_square():
    """To clip one value of a hundred thousand at 5 would cost more than the coarser steps of all others."""
    x = torch.cat([values(100_000), torch.tensor([50.0])])
    _, high = ends(shown(MseObserver, x))
    assert 40 < high < 50


def test_least_square_error_is_found_on_two_sides():
    """No other clipping at any pair of ends does better, by brute force."""
    x = torch.cat([values(20_000), -values(200, seed=1).abs() * 6, values(20, seed=2).abs() * 30])
    found = square_error(shown(MseObserver, x), x)
    low, high = x.min(), x.max()
    least = float("inf")
    for share_low in torch.linspace(0.05, 1, 40):
        for share_high in torch.linspace(0.02, 1, 50):
            scale = (high * share_high - low * share_low) / STEPS
            zero = int((-128 - low * share_low / scale).round().clamp(-128, 127))
            least = min(
                least, float((torch.fake_quantize_per_tensor_affine(x, float(scale), zero, -128, 127) - x).square().mean())
            )
    assert found < 1.02 * least


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("shape", ["normal", "relu", "heavy"])
def test_least_square_error_is_no_worse_than_the_histogram(shape, scale):
    x = scale * {"normal": values(50_000), "relu": values(50_000).relu(), "heavy": values(50_000) ** 5}[shape]
    ours, theirs = (square_error(shown(each, *x.split(5000)), x) for each in (MseObserver, HistogramObserver))
    assert ours <= 1.01 * theirs


@pytest.mark.parametrize("observer", BOTH)
def test_order_and_batches_do_not_matter(observer):
    x = torch.cat([values(999), 100 * values(50, seed=1), torch.tensor([8.0, -8.0, 0.0])])
    one = shown(observer, x)
    many = shown(observer, *x.flip(0).split(7))
    assert torch.equal(one.counts, many.counts)
    assert one.calculate_qparams() == many.calculate_qparams()
    assert int(one.counts.sum()) == len(x)


@pytest.mark.parametrize("observer", BOTH)
def test_a_copy_goes_its_own_way(observer):
    seen = shown(observer, values(1000))
    before = seen.calculate_qparams()
    twin = copy.deepcopy(seen)
    twin(100 * values(1000))
    assert seen.calculate_qparams() == before
    assert twin.calculate_qparams() != before


@pytest.mark.parametrize("observer", BOTH)
@pytest.mark.parametrize("seen", [[0.0], [-2.0], [1e-30], [torch.inf, 1.0, torch.nan]])
def test_odd_tensors_get_a_finite_scale(observer, seen):
    scale, zero = shown(observer, torch.tensor(seen)).calculate_qparams()
    assert scale.isfinite()
    assert scale >= 2.0**-16
    assert -128 <= int(zero) <= 127


@pytest.mark.parametrize("observer", BOTH)
def test_nothing_seen(observer):
    scale, zero = shown(observer, torch.empty(0)).calculate_qparams()
    assert (float(scale), int(zero)) == (1.0, 0)


def test_channels_are_refused():
    with pytest.raises(ValueError, match="one affine"):
        MseObserver(qscheme=torch.per_channel_affine)


def program():
    def join(net, x):
        return net.head(net.second(net.first(x).relu()).mean((2, 3)))

    torch.manual_seed(0)
    net = Net(join, first=nn.Conv2d(3, 8, 1), second=nn.Conv2d(8, 8, 1), head=nn.Linear(8, 5)).eval()
    return torch.export.export(net, (torch.zeros(EXAMPLE),), strict=False)


def photos(n, *, seed=1):
    return torch.rand(n, *EXAMPLE[1:], generator=torch.Generator().manual_seed(seed))


def scales(net, calibration, name):
    """Of the activations, in order: the input first."""
    quantized = quantize(net, calibration.split(1), recipe=replace(PLAIN, observer=name))
    return [t.scale[0] for t in quantized.tensors if t.axis is None]


def test_a_network_forgets_a_rare_pixel_within_but_not_at_its_edge():
    calibration = photos(170)  # so that a pixel is one of more than ten thousand
    calibration[0, :, 0, 0] = 60.0
    entry, inner, *_ = scales(program(), calibration, "percentile")
    assert entry == pytest.approx(60 / STEPS)
    assert inner < entry / 10


@pytest.mark.parametrize("name", ["percentile", "mse"])
def test_a_network_is_converted(name):
    net = program()
    quantized = quantize(net, photos(20).split(1), recipe=replace(PLAIN, observer=name))
    assert signal_to_noise_db(net, quantized, photos=photos(8, seed=2)) > 35
