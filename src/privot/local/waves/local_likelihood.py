r"""At every time a density on a grid that waves near it are of, and how far in time is near.

The density $e^{g_t}$ at time t is that of a polynomial in time, $g_s = \sum_j φ_j(s)\, a_j$, of degree 0
or 1, which maximizes the **local likelihood** of the counts n of reports y in waves s,

$$ \sum_s e^{−|t − s| / h} \sum_y n_{sy} \ln (A_s e^{g_s})_y − \tfrac12 \sum_j λ_j \int |∇a_j|^2 , $$

the nearest wave's weight being 1, with the penalty of one release
(`privot.local.grid.deconvolution`), and ten times its strength for what moves. Of degree 0 the density
is the wave's own where h is 0, and where h is infinite that of all waves together. Of degree 1 a town
may grow or shrink exponentially, or move as a bell of constant width, whose logarithm changes by a line.
On a line, where the penalty is learned by evidence, degrees are 0.

**h and the degree are learned**: half of some waves' reports are held out; of all under whose densities
of the other reports, earlier waves' included, they are most likely, or less so by no more than a
standard error, those of the most equivalent waves are taken (`reach`). Later waves are left out, as
they are where a wave is the newest one.

Privacy: functions of reports' counts, hence post-processing.

References:
    Tibshirani, Hastie, *Local likelihood estimation* (1987); Loader, *Local regression and likelihood*
    (1999).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.local.grid.channels import GridChannel, StackedChannel
from privot.local.grid.deconvolution import STRENGTH, deconvolve_jointly
from privot.local.grid.density import GridDensity
from privot.local.grid.evidence import average_by_evidence
from privot.local.grid.logarithms import Hats
from privot.local.waves.reach import MOVING, STANDING, Reach, farthest
from privot.schema import Array

_HELD_OUT, _MOST_WAVES = 0.5, 5
_BEYOND = 2  # reaches tried after the best
_STIFFER = 10.0  # λ of what moves, over that of what stands
_MOST_PARTS = 8  # of waves that are taken for one in time, where densities move
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
    _courses: dict[bytes, Array] = field(default_factory=dict, init=False)

    def density(self, time: float, reach: Reach) -> GridDensity:
        """Of a time, from waves before and after it."""
        weights = reach.weights(np.abs(self.times - time))
        flat = self._weights(self._learned(weights, reach), weights, reach, time)
        inner = flat[: self.nodes.size].reshape(self.nodes.shape)
        return GridDensity(inner, float(flat[self.nodes.size :].sum()))

    def learned(self, seed: int) -> Reach:
        """Of the most equivalent waves, of all under which held-out reports are likely enough.

        That is as likely as under the best, within a standard error of the difference. Of each degree no
        more are tried after two beyond the best.
        """
        rng, last = np.random.default_rng([seed, 7]), len(self.times) - 1
        tried = np.unique(np.linspace(min(last, max(1, last // 3)), last, _MOST_WAVES).round())
        unit = (self.times[-1] - self.times[0]) / max(last, 1)
        held = {
            int(t): rng.binomial(self.counts[int(t)].astype(np.int64), _HELD_OUT).astype(np.float64)
            for t in tried
        }
        people = np.concatenate(list(held.values()))
        logs: dict[Reach, Array] = {}
        for reaches in (STANDING, MOVING) if self.nodes.ndim > 1 else (STANDING,):
            scores: list[float] = []
            for each in reaches:
                reach = Reach(each.waves * unit, each.degree)
                told = [self._score(wave, out, reach) for wave, out in held.items()]
                logs[reach] = np.concatenate(told)
                scores.append(float(people @ logs[reach]))
                if len(scores) - 1 - int(np.argmax(scores)) >= _BEYOND:
                    break
        found = sorted(logs, key=lambda reach: reach.equivalent(self.times))
        return found[farthest([logs[reach] for reach in found], people)]

    def _score(self, wave: int, held: Array, reach: Reach) -> Array:
        """Log-likelihood of each report of a wave, by what is not held out of it and by earlier ones."""
        weights = reach.weights(self.times[wave] - self.times)
        course = self._course(weights, reach, (wave, held))
        density = self._weights(course, weights, reach, float(self.times[wave]))
        return np.asarray(np.log(self.channels[self.asked[wave]].forward(density)))

    def _learned(self, weights: Array, reach: Reach) -> Array:
        """The course of these weights; one that moves is looked for from that of all waves alike."""
        # Where all waves weigh the same, one course is that of all times.
        key = np.append(weights, reach.degree).tobytes()
        if key not in self._courses:
            start, alike = None, np.ones_like(weights)
            if reach.degree and (weights != alike).any():
                whole = Reach(np.inf, reach.degree)
                lines = whole.basis(self.times, alike)
                start = lines.turned(self._learned(alike, whole), reach.basis(self.times, weights))
            self._courses[key] = self._course(weights, reach, start=start)
        return self._courses[key]

    def _weights(self, course: Array, weights: Array, reach: Reach, time: float) -> Array:
        basis = reach.basis(self.times, weights)
        return self._hats.weights(basis(np.array([time]))[0] @ course)

    def _course(
        self,
        weights: Array,
        reach: Reach,
        held: tuple[int, Array] | None = None,
        start: Array | None = None,
    ) -> Array:
        """Logarithms (degree + 1, k) of weighed counts, less what is held out."""
        channels, times = self._parts(weights, _MOST_PARTS if reach.degree else 1, held)
        if self.nodes.ndim == 1:
            channel = channels[0] if len(channels) == 1 else StackedChannel(channels)
            found = average_by_evidence(channel).weights
            return np.log(np.maximum(found / self._hats.volumes, 1e-300))[None]
        logs, _ = deconvolve_jointly(
            channels,
            reach.basis(self.times, weights)(times),
            self.nodes,
            [STRENGTH, *[STRENGTH * _STIFFER] * reach.degree],
            start=start,
            tolerance=_TOLERANCE if held is None else _ROUGH_TOLERANCE,
        )
        return logs

    def _parts(
        self, weights: Array, most: int, held: tuple[int, Array] | None
    ) -> tuple[list[GridChannel], Array]:
        """Waves summed up to so many parts of neighbors, of like weight, and their times."""
        used = [int(wave) for wave in np.flatnonzero(weights)]
        middles = np.cumsum(weights[used]) - weights[used] / 2
        parts: dict[tuple[int, int], list[int]] = {}
        for wave, middle in zip(used, middles, strict=True):
            part = int(middle / weights.sum() * most)
            parts.setdefault((part, self.asked[wave]), []).append(wave)
        channels, times = [], []
        for (_, number), waves in parts.items():
            total = np.sum([weights[wave] * self.counts[wave] for wave in waves], axis=0)
            if held is not None and held[0] in waves:
                total -= weights[held[0]] * held[1]
            if total.any():
                channel: Any = self.channels[number]  # of either kind, which are data classes
                channels.append(replace(channel, counts=total))
                times.append(np.average(self.times[waves], weights=weights[waves]))
        return channels, np.array(times)

    @cached_property
    def _hats(self) -> Hats:
        first = self.channels[0]
        return Hats.of(self.nodes, len(first.back(first.counts)))
