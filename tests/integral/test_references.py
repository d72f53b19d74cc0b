"""Public references: one suite for all of them, and what each refuses."""

import numpy as np
import pytest

from laws.reference import ReferenceLaws
from privot.core.errors import PrivotError
from privot.integral.references import (
    Categorical,
    CustomReference,
    Integers,
    Normal,
    ProductReference,
    StandardNormal,
    Uniform,
    UniformBox,
)


class TestStandardNormal(ReferenceLaws):
    reference = StandardNormal(2)
    box = ((-5, -5), (5, 5))


class TestTruncatedNormal(ReferenceLaws):
    reference = ProductReference([Normal(mean=0.5, stddev=2.0, low=-1.0, high=3.0)])
    box = ((-1,), (3,))


class TestFarTail(ReferenceLaws):
    reference = ProductReference([Normal(low=6.0, high=8.0)])
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
    ("build", "message"),
    [
        (lambda: StandardNormal(0), "marginals are empty"),
        (lambda: StandardNormal(2).log_density(np.zeros((3, 1))), r"give \(n, 2\)"),
        (
            lambda: CustomReference(1, lambda n, rng: rng.random((n + 1, 1)), len).sample(
                3, np.random.default_rng(0)
            ),
            "made 4 draws for n = 3",
        ),
    ],
)
def test_refusals(build, message):
    with pytest.raises(PrivotError, match=message):
        build()
