r"""As if clean: the same estimator on the same reports, told that the device always tells the truth.

The likelihood of an answer is taken to be its support alone, $f(y | v) ∝ A_{yv}$, as if the ratio r of a
true to a false answer were infinite. Whoever trains on privatized records without their likelihood does
this, and learns the noise: marginals are drawn towards uniform, dependence towards none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from privot.local.classes.counts import Factor, ReportGroup

# Large enough to leave a false answer no likelihood, small enough to divide by.
_CERTAIN = 1e9


def as_if_clean(groups: Iterable[ReportGroup]) -> list[ReportGroup]:
    """The groups with every factor's ratio so large that no answer can be false."""
    told: dict[int, Factor] = {}
    changed = []
    for group in groups:
        for factor in group.factors:
            if id(factor) not in told:
                told[id(factor)] = replace(factor, ratio=_CERTAIN)
        changed.append(replace(group, factors=tuple(told[id(f)] for f in group.factors)))
    return changed
