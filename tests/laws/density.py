"""The density within a cell: two line segments that meet at a knot."""

import numpy as np


def two_lines(below, above):
    """The density of mean 1 on 2^14 places of [0, 1]: heights at ends and knot, by bisection."""
    u = (np.arange(2**14) + 0.5) / 2**14
    height = 2 - (below + above) / 2
    if (below - 1) * (above - 1) >= 0:
        return u, np.interp(u, [0, 0.5, 1], [below, height, above])
    height = np.clip(height, min(below, above), max(below, above))
    low, high = 0.0, 1.0
    for _ in range(60):
        knot = (low + high) / 2
        mass = (knot * below + (1 - knot) * above + height) / 2
        low, high = (knot, high) if (mass < 1) == (below > above) else (low, knot)
    return u, np.interp(u, [0, knot, 1], [below, height, above])
