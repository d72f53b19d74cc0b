r"""Marginals that a prior learned from the reports shrinks, and classes brought half way to them.

A column's K shares are known with a noise that is much the same for all; what is rare is mostly noise,
and neighboring bins of a number differ little. So its shares are $p = \mathrm{softmax}(η)$ with

$$ η ∼ N(0,\ σ^2 I + κ^2 R), \qquad R_{uv} = \exp\bigl(−(x_u−x_v)^2 / 2ℓ^2\bigr) $$

where u and v are bins at places x of a number's range (R is 0 elsewhere). The likelihood is to second
order that of all reports with the other columns independent (`curvature`), around the classes' own
marginals. For each (σ, κ) of a grid the most likely η is found, and the p are averaged by the evidence
in Laplace's approximation: how even a column is, and how smooth, its own reports tell. Posterior means
and medians by sampling were no better.

Such marginals take other columns for independent, the classes' own are not shrunk; both errors differ,
and the mean of the two is better than either. Independence errs by a bias that stays, so of the way
between own and shrunk marginals, of squared length $d = Δ^⊤ I Δ$ in units of the noise, a share

$$ \tfrac12 \Bigm/ \Bigl(1 + \frac{2d}{K−1}\Bigr) $$

is gone: half where noise explains the gap, none with more and more people. The classes are raked
(`marginals`), which leaves what they say of dependence.

References:
    Efron, Morris, *Stein's estimation rule and its competitors: an empirical Bayes approach* (1973);
    Aitchison, Shen, *Logistic-normal distributions: some properties and uses* (1980); MacKay, *Bayesian
    interpolation* (1992).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privot.local.classes.count_tables import CountTables
from privot.local.classes.curvature import curvature
from privot.local.classes.marginals import rake
from privot.local.classes.product_mixture import LatentClasses
from privot.local.classes.questions import Array, Ints, Question

_SPREADS = (0.3, 0.6, 1.0, 1.5, 2.2, 3.2)
_WAVES = (0.0, 0.7, 1.5, 3.0)
_LENGTH = 0.15  # of the range
_FEWEST = 4  # bins that have neighbors
_LONGEST = 300  # codes of an alphabet, whose information is a square table
_STEPS, _STILL, _STEEPEST = 60, 1e-7, 1e8
_TOLERANCE = 1e-6


def shrink(
    mixture: LatentClasses,
    tables: CountTables,
    questions: Sequence[Question],
    orders: Sequence[Ints],
) -> LatentClasses:
    """The classes with marginals brought towards shrunk ones; as they are if an alphabet is long.

    Args:
        mixture: of pieces that are atoms.
        tables: all reports.
        questions: what they are about.
        orders: of each column, its bins from left to right, none where it is no number.
    """
    if max(each.size for each in questions) > _LONGEST:
        return mixture
    own = [mixture.marginal([column]) for column in range(len(orders))]
    found = curvature(tables, np.concatenate([each.law @ own[each.column] for each in questions]))
    slopes = [np.zeros(len(shares)) for shares in own]
    informations = [np.zeros((len(shares), len(shares))) for shares in own]
    for number, (column, law) in enumerate(questions):
        codes = slice(*tables.asked.offsets[number : number + 2])
        slopes[column] += law.T @ found.slope[codes]
        informations[column] += law.T @ found.information[codes, : len(law)] @ law
    wanted = []
    for shares, slope, information, order in zip(own, slopes, informations, orders, strict=True):
        gap = shrunk(shares, slope, information, order) - shares
        length = float(gap @ information @ gap) / max(len(shares) - 1, 1)
        wanted.append(shares + gap / (2 * (1 + 2 * length)))
    return rake(mixture, wanted, tolerance=_TOLERANCE)


def shrunk(around: Array, slope: Array, information: Array, order: Ints) -> Array:
    """Shares p of the prior and of the likelihood $s^⊤Δ − ½ Δ^⊤ I Δ$, Δ = p − `around`."""
    waves = _WAVES if len(order) >= _FEWEST else (0.0,)
    near = np.zeros((len(around), len(around)))
    if len(waves) > 1:
        places = np.linspace(0, 1, len(order)) / _LENGTH
        near[np.ix_(order, order)] = np.exp(-(np.subtract.outer(places, places) ** 2) / 2)
    found, evidence = [], []
    for wave in waves:
        for spread in _SPREADS:
            covariance = spread**2 * np.eye(len(around)) + wave**2 * near
            root = np.asarray(np.linalg.cholesky(covariance), np.float64)
            law = _Law(around, slope, information, root)
            shares, value = law.most_likely()
            found.append(shares)
            evidence.append(value)
    weights = np.exp(np.array(evidence) - max(evidence))
    return np.asarray(weights @ np.array(found) / weights.sum())


class _Law:
    """The posterior of u, η = A u with u standard normal."""

    def __init__(self, around: Array, slope: Array, information: Array, root: Array) -> None:
        self.around, self.slope, self.information, self.root = around, slope, information, root

    def value(self, u: Array) -> tuple[float, Array]:
        """Log density and shares."""
        logs = self.root @ u
        shares = np.exp(logs - logs.max())
        shares = shares / shares.sum()
        gap = shares - self.around
        return float(self.slope @ gap - gap @ self.information @ gap / 2 - u @ u / 2), shares

    def bend(self, u: Array, shares: Array) -> tuple[Array, Array]:
        """Gradient, and the negative Hessian without the shares' own curvature."""
        turn = shares[:, None] * (self.root - shares @ self.root)
        pull = self.slope - self.information @ (shares - self.around)
        return turn.T @ pull - u, turn.T @ self.information @ turn + np.eye(len(u))

    def most_likely(self) -> tuple[Array, float]:
        """Shares at the maximum (Levenberg, Marquardt), and the logarithm of the evidence."""
        logs = np.log(np.maximum(self.around, 0.03 / len(self.around)))
        u = np.linalg.solve(self.root, logs - logs.mean())
        (value, shares), damping = self.value(u), 1e-3
        for _ in range(_STEPS):
            gradient, bend = self.bend(u, shares)
            step = np.linalg.solve(bend + damping * np.diag(np.diag(bend)), gradient)
            ahead, there = self.value(u + step)
            if ahead <= value:
                damping *= 10
                if damping > _STEEPEST:
                    break
                continue
            gained, damping = ahead - value, max(damping / 5, 1e-6)
            u, value, shares = u + step, ahead, there
            if gained < _STILL:
                break
        return shares, value - np.linalg.slogdet(self.bend(u, shares)[1])[1] / 2
