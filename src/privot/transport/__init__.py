"""Optimal transport on tensors, and exact assignment on arrays, without any reference to privacy.

Names are imported on first use, because exact assignment needs no PyTorch.
"""

from typing import TYPE_CHECKING

from privot.core.errors import lazy_names

if TYPE_CHECKING:
    from privot.transport.exact import sliced_wasserstein, wasserstein
    from privot.transport.ground import manhattan, squared_euclidean
    from privot.transport.sinkhorn import (
        Problem,
        SinkhornResult,
        SinkhornSolver,
        Status,
        entropic_cost,
    )

_MODULES = {
    "exact": ("sliced_wasserstein", "wasserstein"),
    "ground": ("manhattan", "squared_euclidean"),
    "sinkhorn": ("Problem", "SinkhornResult", "SinkhornSolver", "Status", "entropic_cost"),
}
__getattr__ = lazy_names(__name__, _MODULES)

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
