"""Optimal transport on tensors. Knows nothing of privacy."""

from privot.transport.costs import manhattan, squared_euclidean
from privot.transport.entropic import entropic_cost
from privot.transport.exact import wasserstein
from privot.transport.problem import Problem
from privot.transport.sinkhorn import SinkhornResult, SinkhornSolver, Status

__all__ = [
    "Problem",
    "SinkhornResult",
    "SinkhornSolver",
    "Status",
    "entropic_cost",
    "manhattan",
    "squared_euclidean",
    "wasserstein",
]
