"""Observers of activations that clip what is rare: by share, or where that makes the mean square error least.

Both keep a histogram of all that they saw in bounded memory. Its bins nest: when a larger value comes, pairs of bins merge, so
that it depends neither on the order of the photos nor on how they were batched.
"""

import math
from abc import abstractmethod

import torch
from torchao.quantization.pt2e.observer import UniformQuantizationObserverBase

__all__ = ["MseObserver", "PercentileObserver"]

BINS = 8192
"""On each side of zero, of which the values fill at least half: 16 bins a step of int8, or more."""

LEAST_LIMIT = 2.0**-20
"""Of what is narrower the scale is at its floor anyway."""

SHARE = 0.9999

COARSE = 0.92
FINE = 0.99
LEAST_RATIO = 2.0**-7
"""Ends are tried in steps of 8 % down to here, then in steps of 1 % around the best."""

ROUNDS = 3
AT_A_TIME = 16
"""Candidates judged side by side; memory grows with it."""


class _Histogram(UniformQuantizationObserverBase):
    """Counts over [-limit, limit) in 2 * BINS bins, limit a power of two; exact extremes beside."""

    counts: torch.Tensor
    limit: torch.Tensor
    min_val: torch.Tensor
    max_val: torch.Tensor

    def __init__(
        self,
        dtype: torch.dtype = torch.int8,
        qscheme: torch.qscheme = torch.per_tensor_affine,
        *,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = torch.finfo(torch.float32).eps,
        is_dynamic: bool = False,
    ) -> None:
        """Nothing seen yet.

        Raises:
            ValueError: another scheme than one affine scale a tensor.
        """
        if qscheme != torch.per_tensor_affine or is_dynamic:
            raise ValueError(f"{type(self).__name__} sets one affine, static scale a tensor, not {qscheme}")
        super().__init__(dtype=dtype, qscheme=qscheme, quant_min=quant_min, quant_max=quant_max, eps=eps)
        self.register_buffer("counts", torch.zeros(2 * BINS, dtype=torch.int64))
        self.register_buffer("limit", torch.tensor(0.0))
        self.register_buffer("min_val", torch.tensor(float("inf")))
        self.register_buffer("max_val", torch.tensor(float("-inf")))

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        """Take in one batch; values that are not finite are passed over."""
        x = x_orig.detach().flatten().float()
        low, high = torch.aminmax(x) if x.numel() else (x.new_tensor(0.0), x.new_tensor(0.0))
        if not (low.isfinite() and high.isfinite()):
            x = x[x.isfinite()]
        if not x.numel():
            return x_orig
        low, high = torch.aminmax(x)
        self.min_val.copy_(torch.minimum(self.min_val, low))
        self.max_val.copy_(torch.maximum(self.max_val, high))
        self._widen(float(torch.maximum(-low, high)))
        # A division by a power of two is exact, so a value on the rim of a bin goes the same way at every width.
        bins = (x / (self.limit / BINS)).floor().long() + BINS
        self.counts += torch.bincount(bins, minlength=2 * BINS)
        return x_orig

    def _widen(self, largest: float) -> None:
        """`limit` -> a power of two above `largest`; pairs of bins become one each time it doubles."""
        wanted = max(2.0 ** math.frexp(largest)[1], LEAST_LIMIT)
        if self.limit == 0:
            self.limit.fill_(wanted)
        while self.limit < wanted:
            quarter = BINS // 2
            merged = self.counts.view(-1, 2).sum(1)
            self.counts.zero_()
            self.counts[quarter : quarter + BINS] = merged
            self.limit.mul_(2)

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Scale and zero point, one value each; 1 and 0 if nothing was seen."""
        low, high = self._ends() if self.limit > 0 else (float("inf"), float("-inf"))
        return self._calculate_qparams(torch.tensor(low), torch.tensor(high))

    @abstractmethod
    def _ends(self) -> tuple[float, float]:
        """Lowest and highest value that is not clipped."""

    def _filled(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(middles, counts) of the bins that hold a value, float64."""
        places = self.counts.nonzero().flatten()
        middles = (places.double() - BINS + 0.5) * (float(self.limit) / BINS)
        return middles.clamp(float(self.min_val), float(self.max_val)), self.counts[places].double()


class PercentileObserver(_Histogram):
    """The range without the rarest values at each end: at most a share of `1 - SHARE` of all is clipped at either.

    Ends are rims of bins: exact to 1 / 4096 of the largest absolute value.
    """

    def _ends(self) -> tuple[float, float]:
        rare = (1 - SHARE) * float(self.counts.sum())
        below = self.counts.cumsum(0)
        above = self.counts.flip(0).cumsum(0)
        width = float(self.limit) / BINS
        first = int((below <= rare).sum())
        last = 2 * BINS - int((above <= rare).sum())
        return max((first - BINS) * width, float(self.min_val)), min((last - BINS) * width, float(self.max_val))


class MseObserver(_Histogram):
    """The range whose rounding and clipping errors have the least mean square.

    A grid is searched for either end in turn, with the other held, until neither moves: first coarse, then fine. Errors are those
    of the quantizer that results, zero point included; values are taken for the middle of their bin, which shifts the error of
    every candidate alike as long as a bin is narrower than a step. `HistogramObserver` minimises an estimate of the same, but
    only walks inwards from both ends and stops at the first rise.

    Source: Nagel et al., A White Paper on Neural Network Quantization, arXiv 2106.08295, section 3.1.
    """

    def _ends(self) -> tuple[float, float]:
        values, counts = self._filled()
        low, high = min(float(self.min_val), 0.0), max(float(self.max_val), 0.0)
        widest = (low, high)
        coarse = torch.tensor([COARSE**i for i in range(200) if COARSE**i >= LEAST_RATIO], dtype=torch.float64)
        fine = torch.tensor([FINE**i for i in range(-8, 9)], dtype=torch.float64)
        for ratios in (coarse, fine):
            for _ in range(ROUNDS):
                before = (low, high)
                base = widest if ratios is coarse else before
                if high > 0:
                    highs = (base[1] * ratios).clamp(max=widest[1])
                    high = _best(values, counts, lows=torch.full_like(highs, low), highs=highs, steps=self._steps)[1]
                if low < 0:
                    lows = (base[0] * ratios).clamp(min=widest[0])
                    low = _best(values, counts, lows=lows, highs=torch.full_like(lows, high), steps=self._steps)[0]
                if (low, high) == before:
                    break
        return low, high

    @property
    def _steps(self) -> int:
        return int(self.quant_max - self.quant_min)


def _best(
    values: torch.Tensor, counts: torch.Tensor, *, lows: torch.Tensor, highs: torch.Tensor, steps: int
) -> tuple[float, float]:
    """(n,) values that occur `counts` times, (m,) candidates -> the ends with the least square error, float64."""
    errors = []
    for low, high in zip(lows.split(AT_A_TIME), highs.split(AT_A_TIME), strict=True):
        scale = ((high - low) / steps)[:, None].clamp_min(torch.finfo(torch.float64).tiny)
        zero = (low[:, None] / scale).round()
        rounded = (values / scale).round().clamp(zero, zero + steps) * scale
        errors.append(((rounded - values).square() * counts).sum(1))
    index = int(torch.cat(errors).argmin())
    return float(lows[index]), float(highs[index])
