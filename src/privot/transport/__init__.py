"""Optimal transport on tensors. Knows nothing of privacy."""

from privot.transport.costs import manhattan, squared_euclidean
from privot.transport.divergence import sinkhorn_divergence
from privot.transport.entropic import entropic_cost
from privot.transport.exact import wasserstein
from privot.transport.one_dimensional import wasserstein_1d
from privot.transport.problem import Problem
from privot.transport.sinkhorn import SinkhornResult, SinkhornSolver, Status
from privot.transport.sliced import sliced_wasserstein

__all__ = [
    "Problem",
    "SinkhornResult",
    "SinkhornSolver",
    "Status",
    "entropic_cost",
    "manhattan",
    "sinkhorn_divergence",
    "sliced_wasserstein",
    "squared_euclidean",
    "wasserstein",
    "wasserstein_1d",
]
