"""Exact accounting of slicing, X ↦ (U, XU + V): random directions U, Gaussian noise V.

A curator holds records X ∈ ℝ^{n×d}, each clipped to a public radius. At every step they draw a batch and
directions U ∈ ℝ^{d×k}, afresh and independent of the data, and publish U and XU + V with V of i.i.d.
N(0, σ²). Whatever is computed from that (a sliced Wasserstein loss, a trained model) is post-processing.

Since U is independent of the data the mechanism is, given U, a Gaussian one whose squared sensitivity
H = ‖Uᵀz‖² has a known law, the same for every difference z of a given norm. Averaging over that law is
exact; bounding H with high probability, as published (`published_bounds`), wastes noise and spends δ.

**What must hold.** Batches are drawn by coins nobody sees, in uniformly random row order, the number of
published rows is public (padded where batches are random), U does not depend on the data, and the
noise is exactly Gaussian or a function of it (rounded afterwards). Epoch shuffling, class-balanced
batches, and dividing rows by a batch's largest norm are other mechanisms, which nothing here covers.
How long a step takes, and how many records were clipped, depend on raw data: they are not published.
"""

from privot.privacy.slicing.accounting import Method, SlicedAccounting
from privot.privacy.slicing.published_bounds import (
    published_bernstein,
    published_clt,
    published_stddev,
)
from privot.privacy.slicing.sensitivity import CentralNeighboring, Sampling, record_sensitivity

__all__ = [
    "CentralNeighboring",
    "Method",
    "Sampling",
    "SlicedAccounting",
    "published_bernstein",
    "published_clt",
    "published_stddev",
    "record_sensitivity",
]
