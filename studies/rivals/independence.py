r"""Independence: every column by maximum likelihood, and nothing else.

$$ p(v_1, …, v_m) = \prod_c m_c(v_c) . $$

The least that a table model must beat, and what it should return when reports show no dependence. Its
one-way marginals are as good as the reports allow (`privot.local.classes.marginals`); its two-way error
is that of independence itself plus what the marginals add.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from privot.local.classes.counts import ReportGroup, count_tables
from privot.local.classes.marginals import stacked_marginals
from privot.local.classes.mixture import LatentClasses


def independence(groups: Iterable[ReportGroup], sizes: Sequence[int]) -> LatentClasses:
    """The product of the columns' maximum-likelihood marginals: one latent class.

    Raises:
        PrivotError: if the groups contradict `sizes`.
    """
    tables = count_tables(groups, sizes)
    marginals = np.split(stacked_marginals(tables), tables.offsets[1:-1])
    return LatentClasses(np.ones(1), tuple(marginals))
