"""Optimal transport on tensors. Knows nothing of privacy."""

from privot.transport.exact import sliced_wasserstein, wasserstein
from privot.transport.ground import manhattan, squared_euclidean
from privot.transport.sinkhorn.solver import (
    Problem,
    SinkhornResult,
    SinkhornSolver,
    Status,
    entropic_cost,
)

__all__ = [
    "Problem",
    "SinkhornResult",
    "SinkhornSolver",
    "Status",
    "entropic_cost",
    "manhattan",
    "sliced_wasserstein",
    "squared_euclidean",
    "wasserstein",
]
