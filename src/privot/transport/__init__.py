"""Optimal transport on tensors. Knows nothing of privacy."""

from privot.transport.costs.ground import manhattan, squared_euclidean
from privot.transport.entropic import entropic_cost
from privot.transport.exact import wasserstein
from privot.transport.line import sliced_wasserstein
from privot.transport.sinkhorn.solver import Problem, SinkhornResult, SinkhornSolver, Status

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
