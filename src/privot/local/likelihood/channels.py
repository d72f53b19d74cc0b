r"""Channels: for each mechanism, −log f(report | output), and how its reports would look.

A generator's output for one column is a point, or a distribution over the codes of its alphabet; the
cost of a distribution p is $−\log \sum_v p(v) f(y|v)$. For mechanisms whose likelihood takes two values
(every frequency oracle, and the joint report over its cells),

$$ −\log \sum_v p(v) f(y|v) = −\log \big(1 + (r−1)\, p(S(y))\big) − \log c(y) , $$

with S(y) the codes that the report supports and r the ratio of the two; the last term is constant.

Simulated reports come from a seeded generator: they are the model's own, and protect nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.local.likelihood.images import CosineChannel
from privot.local.likelihood.points import (
    GaussianChannel,
    LaplaceChannel,
    NullableChannel,
    PlanarLaplaceChannel,
    PointChannel,
)
from privot.mechanisms import (
    FrequencyOracle,
    Gaussian,
    Laplace,
    Mechanism,
    NullableNoise,
    PlanarLaplace,
    RandomizedResponse,
    SquareWave,
    SubsetSelection,
    UnaryEncoding,
)
from privot.mechanisms.windows.square_wave import GRID
from privot.release import Release
from privot.schema import ArrayColumn, Bins, Domain, Schema

_MOST_PLACES = 4096


class Channel(Protocol):
    """One column's mechanism as the curator sees it."""

    def read(self, release: Release, name: str) -> tuple[Tensor, Tensor]:
        """All reports of the column as a tensor, rows in order, and who reported it (n,)."""

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        """Costs (n, m) of n outputs and m reports, up to a constant of each report."""

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """One report for each output, as `read` would give it."""


class SupportChannel:
    """A frequency oracle: reports are supports (n, w), padded with −1."""

    def __init__(self, mechanism: FrequencyOracle) -> None:
        self.mechanism = mechanism

    def read(self, release: Release, name: str) -> tuple[Tensor, Tensor]:
        """See `Channel`."""
        support, reported = release.reports(name)
        return torch.as_tensor(support, dtype=torch.int64), torch.as_tensor(reported)

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        """See `Channel`; `output` holds log-probabilities (n, K)."""
        member = output.new_zeros(len(reports), output.shape[1] + 1)
        member.scatter_(1, reports % (output.shape[1] + 1), 1.0)  # −1 lands in the spare column
        supported = output.exp() @ member[:, :-1].T
        return -torch.log1p((self.mechanism.likelihood_ratio - 1) * supported)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """See `Channel`."""
        truth = _draw(output, rng)
        own, other = self.mechanism.probabilities
        if isinstance(self.mechanism, UnaryEncoding):
            chance = torch.full(output.shape, other).scatter_(1, truth[:, None], own)
            bits = torch.rand(output.shape, generator=rng) < chance
            support = torch.as_tensor(self.mechanism.support(bits.numpy()), dtype=torch.int64)
        else:
            sets = isinstance(self.mechanism, SubsetSelection)
            size = self.mechanism.subset_size if sets else 1  # type: ignore[attr-defined]  # only sets have a size
            support = simulate_sets(truth, torch.full_like(truth, output.shape[1]), size, own, rng)
        return support.to(output.device)


class SquareWaveChannel:
    """The square wave over a column's bins: reports are their likelihoods (n, K), up to a factor.

    A bin's likelihood is the mean of f(y|x) over what the bin decodes to: its integers, or evenly
    spread numbers. With A the share of them in the window around the report, it is $1 + (r−1) A$ times
    the likelihood outside, r being the ratio of the two.
    """

    def __init__(self, mechanism: SquareWave, alphabet: Bins, domain: Domain) -> None:
        self.mechanism = mechanism
        inside, outside = mechanism.probabilities
        self.ratio = inside / outside
        self.places = [
            (_within(low, high, alphabet.integer) - domain.center[0]) / domain.scale[0]
            for low, high in pairwise(alphabet.edges)
        ]

    def read(self, release: Release, name: str) -> tuple[Tensor, Tensor]:
        """See `Channel`."""
        values, reported = release.reports(name)
        return self._likelihood(values), torch.as_tensor(reported)

    def shares(self, values: np.ndarray) -> np.ndarray:
        """The shares A (n, K) of reports (n, 1) in unit coordinates."""
        half = self.mechanism.half_width + GRID / 4
        out = np.empty((len(values), len(self.places)))
        for code, places in enumerate(self.places):
            rounded = np.rint((places + 1) / GRID) * GRID - 1
            first = np.searchsorted(rounded, values[:, 0] - half)
            last = np.searchsorted(rounded, values[:, 0] + half)
            out[:, code] = (last - first) / len(rounded)
        return out

    def _likelihood(self, values: np.ndarray) -> Tensor:
        likelihood = 1 + (self.ratio - 1) * self.shares(values)
        return torch.as_tensor(likelihood, dtype=torch.float32)

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        """See `Channel`; `output` holds log-probabilities (n, K)."""
        return -torch.log(output.exp() @ reports.T)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """See `Channel`."""
        truth = _draw(output, rng)
        place, coin, where = torch.rand(3, len(truth), generator=rng, dtype=torch.float64)
        x = torch.empty(len(truth), dtype=torch.float64)
        for code, places in enumerate(self.places):
            chosen = truth == code
            x[chosen] = torch.as_tensor(places)[(place[chosen] * len(places)).long()]
        half = self.mechanism.half_width
        width, inside = 2.0, self.mechanism.words[0] / 2**64
        near = x - half + 2 * half * where
        far = -1 - half + width * where
        far = torch.where(far >= x - half, far + 2 * half, far)
        report = torch.where(coin < inside, near, far)[:, None].numpy()
        return self._likelihood(report).to(output.device)


def _within(low: float, high: float, integer: bool) -> np.ndarray:
    """What a bin decodes to, in order: all its integers, or as many numbers as tell no difference."""
    if integer and high - low <= _MOST_PLACES:
        return np.arange(low, high)
    return low + (high - low) * (np.arange(_MOST_PLACES) + 0.5) / _MOST_PLACES


def simulate_sets(
    truth: Tensor, num_values: Tensor, size: int | Tensor, own: float | Tensor, rng: torch.Generator
) -> Tensor:
    """Uniform sets of `size` of `num_values` codes that hold the truth with probability `own`.

    Arguments:
        truth: True codes (n,).
        num_values: Size of each one's alphabet (n,).
        size: Size of the sets: one, or each one's (n,).
        own: Probability that the truth is in: one, or each one's (n,).
        rng: Seeded generator.

    Returns:
        Codes (n, largest size), padded with −1.
    """
    size = torch.as_tensor(size).expand(len(truth))
    scores = torch.rand(len(truth), int(num_values.max()), generator=rng)
    codes = torch.arange(scores.shape[1])
    scores[codes >= num_values[:, None]] = 3.0
    inside = torch.rand(len(truth), generator=rng) < own
    scores.scatter_(1, truth[:, None], torch.where(inside, -1.0, 2.0)[:, None])
    most = int(size.max())
    drawn = scores.topk(most, dim=1, largest=False).indices
    return torch.where(torch.arange(most) < size[:, None], drawn, -1)


def _draw(log_probabilities: Tensor, rng: torch.Generator) -> Tensor:
    return torch.multinomial(log_probabilities.exp().cpu(), 1, replacement=True, generator=rng)[
        :, 0
    ]


_POINTS: Mapping[type[Mechanism], Callable[[Any], PointChannel]] = {
    Laplace: LaplaceChannel,
    Gaussian: GaussianChannel,
    PlanarLaplace: PlanarLaplaceChannel,
}
_CHANNELS: Mapping[type[Mechanism], Callable[[Any], Channel]] = {
    **_POINTS,
    RandomizedResponse: SupportChannel,
    SubsetSelection: SupportChannel,
    UnaryEncoding: SupportChannel,
}


def channel_of(mechanism: Mechanism, schema: Schema, name: str) -> Channel:
    """The channel of a split column's mechanism.

    Raises:
        PrivotError: for a mechanism without a likelihood here.
    """
    if isinstance(mechanism, SquareWave):
        alphabet = schema.coded[name].alphabet
        assert isinstance(alphabet, Bins)
        return SquareWaveChannel(mechanism, alphabet, schema.point_column(name).domain)
    if isinstance(mechanism, NullableNoise):
        value = _POINTS[type(mechanism.value)](mechanism.value)
        return NullableChannel(value, mechanism, schema.point_column(name).domain)
    column = schema.columns[name]
    if isinstance(column, ArrayColumn) and column.domain.kept is not None:
        return CosineChannel(_POINTS[type(mechanism)](mechanism), column.domain)
    if type(mechanism) not in _CHANNELS:
        known = ", ".join([*(each.__name__ for each in _CHANNELS), SquareWave.__name__])
        raise PrivotError(
            f"mechanism {type(mechanism).__name__} has no likelihood here: use one of {known}"
        )
    return _CHANNELS[type(mechanism)](mechanism)
