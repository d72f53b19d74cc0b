"""Public references: one suite for all of them, and what each refuses."""

import numpy as np
import pytest

from laws.reference import ReferenceLaws
from privot.errors import PrivotError
from privot.integral import (
    Categorical,
    CustomReference,
    Integers,
    Normal,
    ProductReference,
    StandardNormal,
    TruncatedNormal,
    Uniform,
    UniformBox,
)
from privot.integral.densities.grid import make_grid
from privot.integral.densities.marginals import marginal_from_dict


class TestStandardNormal(ReferenceLaws):
    reference = StandardNormal(2)
    box = ((-5, -5), (5, 5))


class TestTruncatedNormal(ReferenceLaws):
    reference = TruncatedNormal([-1.0], [3.0], mean=0.5, stddev=2.0)
    box = ((-1,), (3,))


class TestFarTail(ReferenceLaws):
    reference = TruncatedNormal([6.0], [8.0], mean=0.0, stddev=1.0)
    box = ((6,), (8,))
    cells = 60

    # 10^−9 of the normal law lie there.


class TestUniformBox(ReferenceLaws):
    reference = UniformBox([0.0, -2.0], [1.0, 5.0])
    box = ((0, -2), (1, 5))


class TestProduct(ReferenceLaws):
    reference = ProductReference(
        (Uniform(0.0, 1.0), Categorical((0.2, 0.3, 0.5)), Integers(-2, 2), Normal(1.0, 0.5))
    )
    box = ((0, 0, -2, -2), (1, 2, 2, 4))
    discrete = (1, 2)
    cells = 8


class TestGrid(ReferenceLaws):
    reference = make_grid(ProductReference((Normal(), Categorical((0.25, 0.75)))))
    box = ((-5, 0), (5, 1))
    discrete = (1,)


class TestCustom(ReferenceLaws):
    reference = CustomReference(
        1,
        lambda n, generator: -np.log1p(-generator.random((n, 1))),
        lambda x: np.where(x[:, 0] >= 0, -x[:, 0], -np.inf),
    )
    box = ((0,), (12,))

    def test_what_is_not_inside_has_no_density(self):
        assert self.reference.contains(np.array([[-1.0], [1.0]])).tolist() == [False, True]


@pytest.mark.parametrize(
    "reference",
    [StandardNormal(3), UniformBox([0.0], [2.0]), TestProduct.reference, TestFarTail.reference],
)
def test_round_trip(reference):
    again = ProductReference([marginal_from_dict(plain) for plain in reference.to_dict()])
    x = reference.sample(100, np.random.default_rng(0))
    np.testing.assert_array_equal(again.log_density(x), reference.log_density(x))


@pytest.mark.parametrize("reference", [StandardNormal(1), TestProduct.reference, StandardNormal(2)])
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
        x = np.clip(axis.marginal.within(low, high, place), low, np.nextafter(high, -np.inf))
        np.testing.assert_array_equal(axis.locate(x), np.repeat(np.arange(axis.size), 3))


def test_a_nearly_certain_code_still_has_integer_masses():
    axis = make_grid(ProductReference([Categorical((1.0, 1e-30))])).axes[0]
    assert sum(axis.masses.tolist()) == 2**64


@pytest.mark.parametrize(
    "reference",
    [StandardNormal(3), ProductReference([Integers(0, 2**21)]), TestCustom.reference],
)
def test_no_grid_where_it_would_be_coarse_or_huge(reference):
    assert make_grid(reference) is None


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: StandardNormal(0), "marginals are empty"),
        (lambda: UniformBox([1.0], [0.0]), "not an interval"),
        (lambda: Normal(0.0, 0.0), "no normal law"),
        (lambda: Normal(low=50.0, high=60.0), "next to nothing"),
        (lambda: Categorical((0.5, 0.6)), "add up to 1"),
        (lambda: Categorical((1.0, 0.0)), "never be drawn"),
        (lambda: Integers(3, 3), "smaller first"),
        (lambda: StandardNormal(2).log_density(np.zeros((3, 1))), r"give \(n, 2\)"),
        (lambda: marginal_from_dict({"kind": "other"}), "kind of marginal is 'other'"),
        (
            lambda: CustomReference(1, lambda n, rng: rng.random((n + 1, 1)), len).sample(
                3, np.random.default_rng(0)
            ),
            "gave 4 draws for n = 3",
        ),
    ],
)
def test_refusals(build, message):
    with pytest.raises(PrivotError, match=message):
        build()
