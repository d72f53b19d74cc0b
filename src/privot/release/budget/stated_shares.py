"""What of ε the user gives to single columns by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from privot.errors import PrivotError


def check_shares(
    shares: Mapping[str, float],
    names: Sequence[str],
    gaussian: Sequence[str],
    epsilon: float,
    num_reported: int,
) -> None:
    """Refuse shares that are not of `names`, or leave nothing of `epsilon` to the others.

    Raises:
        PrivotError: naming the share and the remedy.
    """
    for name, share in shares.items():
        if name not in names or name in gaussian:
            raise PrivotError(
                f"shares name column {name!r}, which "
                + ("gets what is left: its noise is Gaussian" if name in gaussian else "is unknown")
                + f": name some of {[n for n in names if n not in gaussian]}"
            )
        if not isinstance(share, int | float) or not 0 < share < epsilon:
            raise PrivotError(
                f"share {share} of column {name!r} is not between 0 and ε = {epsilon}"
            )
    if num_reported < len(names):
        raise PrivotError(
            f"shares need all columns reported, report_columns is {num_reported}: leave one out"
        )
    if len(shares) == len(names) or not math.fsum(shares.values()) < epsilon:
        raise PrivotError(
            f"shares {dict(shares)} leave nothing of ε = {epsilon}, or no column to take it: leave at "
            "least one column out, and give less than ε"
        )
