"""multi-freq-ldpy: every column's histogram, by the solutions of that library, from reports of its own.

What there was for tables of several attributes: unbiased estimates of each, cut at zero and normalized,
nothing about pairs. Its solutions spend ε differently: `"SPL"` splits it over all columns, `"SMP"` has a
person report one drawn column with all of it, `"RS+FD"` hides among invented values which column that
was. Each takes the better of randomized response and optimized unary encoding for a column ("ADP").

The library draws noise from NumPy's global, seedable generator: fit for comparisons, for nobody's data.

References:
    Arcolezi et al., *Multi-freq-LDPy: multiple frequency estimation under local differential privacy in
    Python* (2022); *Random sampling plus fake data* (2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

import numpy as np

from privot.core.errors import PrivotError
from privot.local.classes.mixture import LatentClasses

PACKAGE = "multi_freq_ldpy"
_PREFIXES = {"SPL": "SPL", "SMP": "SMP", "RS+FD": "RSpFD"}
SOLUTIONS = tuple(_PREFIXES)


def multi_freq_ldpy(
    codes: np.ndarray, sizes: Sequence[int], epsilon: float, solution: str
) -> LatentClasses:
    """The product of the columns' estimated histograms, as `independence` has it.

    Arguments:
        codes: Raw codes (people, columns): reports are made here.
        sizes: Number of codes of each column.
        epsilon: Privacy loss of one person.
        solution: One of `SOLUTIONS`.

    Raises:
        PrivotError: if the package is not installed, or the solution is not known.
    """
    if solution not in _PREFIXES:
        raise PrivotError(f"solution {solution!r} is not known: use one of {', '.join(SOLUTIONS)}")
    if find_spec(PACKAGE) is None:
        raise PrivotError(
            f"{PACKAGE} is not installed: pip install multi-freq-ldpy, or leave this comparison out"
        )
    prefix, num_columns = _PREFIXES[solution], len(sizes)
    module = import_module(f"{PACKAGE}.mdim_freq_est.{prefix}_solution")
    client = getattr(module, f"{prefix}_ADP_Client")
    aggregate = getattr(module, f"{prefix}_ADP_Aggregator_MI")
    reports = [client(row, list(sizes), num_columns, epsilon) for row in codes.tolist()]
    shares = aggregate(reports, list(sizes), num_columns, epsilon)
    columns = [np.asarray(share, np.float64)[:, None] for share in shares]
    return LatentClasses(np.ones(1), tuple(column / column.sum() for column in columns))
