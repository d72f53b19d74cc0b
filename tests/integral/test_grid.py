"""Cells: exact masses, draws that land in them, and where there is no grid."""

import numpy as np
import pytest

from laws.reference import ReferenceLaws
from privot.integral.density import make_grid
from privot.integral.references import (
    Categorical,
    CustomReference,
    Integers,
    Normal,
    ProductReference,
    StandardNormal,
    Uniform,
)

MIXED = ProductReference(
    (Uniform(0.0, 1.0), Categorical((0.2, 0.3, 0.5)), Integers(-2, 2), Normal(1.0, 0.5))
)


class TestGrid(ReferenceLaws):
    reference = make_grid(ProductReference((Normal(), Categorical((0.25, 0.75)))))
    box = ((-5, 0), (5, 1))
    discrete = (1,)


@pytest.mark.parametrize("reference", [StandardNormal(1), MIXED, StandardNormal(2)])
def test_cells_are_exact(reference):
    """Integer masses add up to one, are the cells' probabilities, and draws land in their cells."""
    grid = make_grid(reference)
    for axis in grid.axes:
        masses = axis.masses.tolist()
        assert sum(masses) == 2**64
        shares = axis.marginal.mass(axis.edges[:-1], axis.edges[1:])
        np.testing.assert_allclose(np.array(masses) / 2.0**64, shares, atol=1e-12)
        place = np.tile([2.0**-54, 0.5, 1 - 2.0**-53], axis.size)
        low, high = np.repeat(axis.edges[:-1], 3), np.repeat(axis.edges[1:], 3)
        x = np.clip(axis.marginal.quantile(low, high, place), low, np.nextafter(high, -np.inf))
        np.testing.assert_array_equal(axis.locate(x), np.repeat(np.arange(axis.size), 3))


def test_a_nearly_certain_code_still_has_integer_masses():
    axis = make_grid(ProductReference([Categorical((1.0, 1e-30))])).axes[0]
    assert sum(axis.masses.tolist()) == 2**64


@pytest.mark.parametrize(
    "reference",
    [
        StandardNormal(3),
        ProductReference([Integers(0, 2**21)]),
        CustomReference(1, StandardNormal(1).sample, StandardNormal(1).log_density),
    ],
)
def test_no_grid_where_it_would_be_coarse_or_huge(reference):
    assert make_grid(reference) is None
