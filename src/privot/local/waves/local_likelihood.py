r"""At every time a density on a grid that waves near it are of, and how far in time is near.

For a reach h the density $e^g$ at time t maximizes the **local likelihood** of the counts n of reports y
in waves s,

$$ \sum_s e^{−|t − s| / h} \sum_y n_{sy} \ln (A_s e^g)_y − \frac{λ}{2} \int |∇(g − g')|^2 , $$

the nearest wave's weight being 1. The penalty is around $e^{g'}$, the density at t of a **longer
reach**, with ten times the λ of one release, and around a flat one, as of a release, where h is
infinite. What waves from afar say is
believed until those nearby say otherwise, at each place for itself: a corner where nobody ever was stays
empty by the reports of all waves, while a town that moves is told by those of a few. Each reach halves
the one before, or nearly; one that weighs waves much as the one before is left out, since its reports
would count twice.

**The last h is learned**: half of some waves' reports are held out; of all h under whose densities of
the other reports, earlier waves' included, they are most likely, or less so by no more than a standard
error, the longest is taken (`reach`). Later waves are left out, as they are where a wave is the newest.

On a line, where the penalty is learned by evidence, it is around a flat density at every h.

Privacy: functions of reports' counts, hence post-processing.

References:
    Tibshirani, Hastie, *Local likelihood estimation* (1987); Loader, *Local regression and likelihood*
    (1999). Hjort, Glad, *Nonparametric density estimation with a parametric start* (1995).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.local.grid.channels import GridChannel, StackedChannel
from privot.local.grid.deconvolution import STRENGTH, deconvolve
from privot.local.grid.density import GridDensity
from privot.local.grid.evidence import average_by_evidence
from privot.local.waves.reach import REACHES, farthest, weigh
from privot.schema import Array

_HELD_OUT, _MOST_WAVES = 0.5, 5
_STIFFER = 10.0  # λ around a longer reach, over that of one release
_FEWER = 0.8  # of the weights' sum for the longer reach: that of a shorter one is no more
_TOLERANCE, _ROUGH_TOLERANCE = 0.01, 0.1  # nats that a step gains; while reaches are compared


@dataclass(frozen=True, eq=False)
class LocalLikelihood:
    """Reports of waves, on one grid.

    Arguments:
        times: Of the waves (T,).
        counts: Of each wave, how often each report came.
        asked: Of each wave, the number of its channel.
        channels: Of the waves' randomizers; their own counts are not looked at.
        nodes: Which nodes may hold any (K+1, …, K+1).
    """

    times: Array
    counts: Sequence[Array]
    asked: Sequence[int]
    channels: Sequence[GridChannel]
    nodes: NDArray[np.bool_]

    def density(self, time: float, reach: float) -> GridDensity:
        """Of a time, from waves before and after it; `reach` in units of time."""
        # On a line no density is around another: the last reach is all that is fitted.
        reaches = self._reaches(reach) if self.nodes.ndim > 1 else [reach]
        ages = np.abs(self.times - time)
        *_, flat = self._densities(ages, self.counts, reaches, self._together)
        inner = flat[: self.nodes.size].reshape(self.nodes.shape)
        return GridDensity(inner, float(flat[self.nodes.size :].sum()))

    def learned(self, seed: int) -> float:
        """The longest of all reaches under which held-out reports are likely enough.

        That is as likely as under the best, within a standard error of the difference.
        """
        rng, last = np.random.default_rng([seed, 7]), len(self.times) - 1
        tried = np.unique(np.linspace(min(last, max(1, last // 3)), last, _MOST_WAVES).round())
        held = {
            int(t): rng.binomial(self.counts[int(t)].astype(np.int64), _HELD_OUT).astype(np.float64)
            for t in tried
        }
        people = np.concatenate(list(held.values()))
        told = zip(*(self._told(wave, out) for wave, out in held.items()), strict=True)
        return self._reaches(0.0)[farthest([np.concatenate(found) for found in told], people)]

    def _told(self, wave: int, held: Array) -> Iterator[Array]:
        """Log-likelihoods of a wave's reports, by each reach of what is not held out and of earlier."""
        counts, channel = list(self.counts), self.channels[self.asked[wave]]
        counts[wave] = counts[wave] - held
        for density in self._densities(self.times[wave] - self.times, counts, self._reaches(0.0)):
            yield np.asarray(np.log(channel.forward(density)))

    def _densities(
        self,
        ages: Array,
        counts: Sequence[Array],
        reaches: Sequence[float],
        together: Array | None = None,
    ) -> Iterator[Array]:
        """Of each reach, around the one before; that of all waves may be known."""
        tolerance = _ROUGH_TOLERANCE if together is None else _TOLERANCE
        heavy, found = (np.inf, None) if together is None else (len(ages), together)
        for reach in reaches:
            weights = weigh(ages, reach)
            if found is None or weights.sum() <= _FEWER * heavy:
                heavy, found = weights.sum(), self._fit(weights, counts, found, tolerance)
            yield found

    def _reaches(self, last: float) -> list[float]:
        """In units of time, from the longest to the last."""
        unit = float(np.ptp(self.times)) / max(len(self.times) - 1, 1) or 1.0
        return [*(each * unit for each in REACHES if each * unit > last), last]

    @cached_property
    def _together(self) -> Array:
        return self._fit(np.ones(len(self.times)), self.counts, None, _TOLERANCE)

    def _fit(
        self, weights: Array, counts: Sequence[Array], reference: Array | None, tolerance: float
    ) -> Array:
        """Flat weights of nodes, by weighed counts."""
        channels = []
        for number, own in enumerate(self.channels):
            asked = np.array(self.asked) == number
            used = np.flatnonzero(asked & (weights > 0))
            if used.size:
                channel: Any = own  # of either kind, which are data classes
                total = np.sum([weights[int(i)] * counts[int(i)] for i in used], axis=0)
                channels.append(replace(channel, counts=total))
        channel = channels[0] if len(channels) == 1 else StackedChannel(channels)
        if self.nodes.ndim == 1:
            return average_by_evidence(channel).weights
        strength = STRENGTH * (1.0 if reference is None else _STIFFER)
        return deconvolve(
            channel, self.nodes, strength=strength, reference=reference, tolerance=tolerance
        ).weights
