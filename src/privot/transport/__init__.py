"""Optimal transport on tensors. Knows nothing of privacy."""

from privot.transport.costs.ground import manhattan, squared_euclidean
from privot.transport.divergence import sinkhorn_divergence
from privot.transport.entropic import entropic_cost
from privot.transport.exact import wasserstein
from privot.transport.line.one_dimensional import wasserstein_1d
from privot.transport.line.sliced import sliced_wasserstein
from privot.transport.sinkhorn.problem import Problem
from privot.transport.sinkhorn.solver import SinkhornResult, SinkhornSolver, Status

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
