r"""Labeled vectors by two rounds of noisy sums: moments of labels, then of their components.

1. Count, mean and covariance of each label (`privot.sliced.mixtures.lifted`). Points are drawn of these
   Gaussians, and k-means on the *drawn* ones gives centers, at no cost.
2. The same of every component: a cell of its label's, whose own moments a Gaussian is given. What is
   left of a point is short, and its noise with it: lengths are cut at 1.25 times the widest
   label's mean one, of what is drawn.

The noise of every released number is known in public: means are drawn to the first ones, and covariances
to their average, as far as noise makes them differ (empirical Bayes,
`privot.sliced.mixtures.shrinkage`). A covariance of d coordinates is told by so many rows as make
$s = μ n/\text{labels}$, μ = Δ/σ of the whole run, a few times d: there is a component for every 32 d of
s, up to 20.

**Privacy review.** Adjacency `replace_one`; rounds compose exactly (`privot.sliced.sums.plan`).
Everything here is a function of what was released and of public numbers: of the schema, ε, δ, and the
number of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.privacy import calibrate_gaussian
from privot.privacy.rounding import at_most
from privot.sliced.mixtures.image_fit import k_means
from privot.sliced.mixtures.lifted import LiftedProducts, Moments
from privot.sliced.mixtures.settings import MixtureSettings
from privot.sliced.mixtures.shrinkage import shrink_covariances
from privot.sliced.mixtures.vector_law import VectorMixture
from privot.sliced.mixtures.vectors import LabeledVectors
from privot.sliced.sums.mechanism import NoisySums, sensitivity
from privot.sliced.sums.plan import SumPlan
from privot.sliced.sums.rounds import Rounds

Floats = NDArray[np.float64]
_PER_COMPONENT, _MOST_COMPONENTS = 32.0, 20
_SHARES = 0.25, 0.75  # of μ², by round
_MOST_NOISE = 0.35  # on a coordinate of a label's mean, of half of its range
_LONGEST = 1.25  # times what residuals of the widest label have on the average
_DRAWN = 200  # points a component that centers are found on
_LEAST = 1e-6


@dataclass(frozen=True, kw_only=True)
class VectorRecipe:
    """What the rounds of a fit of vectors ask.

    Arguments:
        components: For each label.
        norm: Length of a point, in half sides of the box, beyond which it is made shorter.
        seed: Of what is drawn in public.
    """

    components: int
    norm: float
    seed: int

    @classmethod
    def of(
        cls,
        settings: MixtureSettings,
        epsilon: float,
        delta: float,
        count: int,
        vectors: LabeledVectors,
    ) -> Self:
        """What is asked of so many rows."""
        signal = count / calibrate_gaussian(1.0, epsilon, delta) / vectors.num_labels
        heard = int(signal / _PER_COMPONENT / vectors.dimension)
        return cls(
            components=settings.components or min(max(heard, 1), _MOST_COMPONENTS),
            norm=settings.norm * math.sqrt(vectors.dimension),
            seed=settings.seed,
        )

    def plan(self, epsilon: float, delta: float, count: int, vectors: LabeledVectors) -> SumPlan:
        """Its rounds, under (ε, δ); nothing is spent on what noise would drown.

        Raises:
            PrivotError: if noise on the mean of a label of average size would be .35 of half a
                coordinate's range: a public computation.
        """
        plan = SumPlan.calibrate(epsilon, delta, _SHARES, count, vectors.schema.unit)
        question = LiftedProducts(np.zeros((vectors.num_labels, 1, vectors.dimension)), self.norm)
        stddev = sensitivity(question) / plan.ratios[0] / 29
        nothing = np.zeros((vectors.num_labels, question.width, question.width))
        of_sums = question.moments(NoisySums(nothing, stddev)).of_sums
        noise = of_sums / (count / vectors.num_labels)
        if noise > _MOST_NOISE:
            raise PrivotError(
                f"epsilon {at_most(epsilon)} for {count:,} rows: noise of {noise:.2g} of half its range "
                f"on every coordinate would drown a label's mean; give "
                f"{math.ceil(count * noise / _MOST_NOISE):,} rows, as much more epsilon, or fewer "
                "coordinates"
            )
        return plan


def fit_vectors(rounds: Rounds, vectors: LabeledVectors, recipe: VectorRecipe) -> VectorMixture:
    """The mixture that the rounds of `recipe` tell.

    Arguments:
        rounds: Of the recipe's plan.
        vectors: Of the schema.
        recipe: How many components, and which length.
    """
    rng = np.random.default_rng(recipe.seed)
    centers = np.zeros((vectors.num_labels, 1, vectors.dimension))
    _, means, roots = _asked(rounds, centers, recipe.norm)
    points = _points(means[:, 0], roots[:, 0], recipe.components, rng)
    centers = np.array([k_means(own, recipe.components, rng) for own in points])
    gaps = [_nearest(own, each).mean() for own, each in zip(points, centers, strict=True)]
    counts, means, roots = _asked(rounds, centers, _LONGEST * float(max(gaps)))
    found = {
        "shares": counts.sum(axis=1) / counts.sum(),
        "weights": counts / counts.sum(axis=1, keepdims=True),
        "means": np.clip(means, -1.0, 1.0),
        "roots": roots,
    }
    return VectorMixture(**{name: torch.from_numpy(part).float() for name, part in found.items()})


def _asked(rounds: Rounds, centers: Floats, norm: float) -> tuple[Floats, Floats, Floats]:
    """Counts (labels, K), means (labels, K, d) and roots of covariances of components."""
    question = LiftedProducts(centers, norm)
    told = question.moments(rounds.ask(question))
    offsets = _shrunk_offsets(told)
    size = told.counts[..., None]
    spreads = told.products / size[..., None] - offsets[..., None] * offsets[..., None, :]
    flat = spreads.reshape(-1, *spreads.shape[2:])
    errors = told.of_products / told.counts.ravel()
    covariances = shrink_covariances(flat, errors, np.zeros(centers.shape[2]))
    values, vectors = np.linalg.eigh(covariances)
    roots = vectors * np.sqrt(np.maximum(values, _LEAST))[:, None, :]
    return told.counts, centers + offsets, roots.reshape(spreads.shape)


def _shrunk_offsets(told: Moments) -> Floats:
    """Means of residuals (labels, K, d), drawn to 0 as far as noise makes them."""
    size = told.counts[..., None]
    offsets, noise = told.sums / size, told.of_sums / size
    precision = noise**-4.0
    signal = np.maximum((precision * (offsets**2 - noise**2)).sum() / precision.sum(), 0.0)
    signal /= offsets.shape[2]
    return np.asarray(signal / (signal + noise**2) * offsets)


def _points(means: Floats, roots: Floats, components: int, rng: np.random.Generator) -> Floats:
    """Points (labels, n, d) drawn of each label's Gaussian, in the cube."""
    noise = rng.standard_normal((len(means), _DRAWN * components, means.shape[1]))
    return np.clip(means[:, None] + noise @ roots.swapaxes(1, 2), -1.0, 1.0)


def _nearest(points: Floats, centers: Floats) -> Floats:
    """Distance of points (n, d) to the nearest center (K, d)."""
    squares = (points**2).sum(1)[:, None] + (centers**2).sum(1) - 2 * points @ centers.T
    return np.sqrt(np.maximum(squares.min(axis=1), 0.0))
