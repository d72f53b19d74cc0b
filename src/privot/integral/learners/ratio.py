"""Learning log p/q₀: which estimator, for which reference.

One continuous coordinate is best served by a penalized spline, anything else by a network that tells
records from draws of the reference; trees are for tables of mixed columns.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from privot.errors import PrivotError
from privot.integral.densities.density import Tilt
from privot.integral.densities.references import Reference
from privot.integral.densities.secure import Floats
from privot.integral.densities.tilts import FeatureTilt
from privot.integral.learners.networks import Negatives, Network, NetworkSettings, train_network
from privot.integral.learners.spline import fit_spline
from privot.integral.learners.trees import Trees, grow_trees

Estimator = Literal["auto", "spline", "mlp", "trees"]
_FEWEST_DRAWS = 1000  # that trees are grown against


def fit_log_ratio(
    records: Floats, reference: Reference, estimator: Estimator, network: NetworkSettings, seed: int
) -> Tilt:
    """The ratio log p/q₀ up to a constant, learned from records (n, dim) (**not private**).

    Raises:
        PrivotError: for a spline of several coordinates, or of a discrete one.
    """
    marginals = reference.marginals
    smooth = marginals is not None and len(marginals) == 1 and marginals[0].num_values is None
    if estimator == "spline" and not smooth:
        raise PrivotError(
            "estimator is 'spline', which needs one continuous coordinate with a marginal: "
            "choose 'mlp' or 'trees'"
        )
    if marginals is not None and smooth and estimator in ("auto", "spline"):
        return fit_spline(records, marginals[0], seed)

    def negatives(num: int, rng: np.random.Generator) -> Floats:
        return reference.features(reference.sample(num, rng))

    trees = estimator == "trees"
    learned = tell_apart(
        reference.features(records), negatives, network if not trees else None, seed
    )
    return FeatureTilt(reference, (learned,), (1.0,))


def tell_apart(
    positives: Floats,
    negatives: Negatives,
    network: NetworkSettings | None,
    seed: int,
    bound: float | None = None,
) -> Network | Trees:
    """A classifier of records' features (n, k) against those of draws, |·| ≤ bound; None: trees."""
    if network is not None:
        return train_network(positives, negatives, network, seed, bound)
    # Unequal numbers of both shift the log odds by a constant, which normalizing removes.
    drawn = negatives(max(len(positives), _FEWEST_DRAWS), np.random.default_rng([seed, 1]))
    return grow_trees(positives, drawn, seed, bound)
