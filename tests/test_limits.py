"""What is refused as no count, and what is taken as one."""

import math

import numpy as np
import pytest

from privot.errors import PrivotError
from privot.limits import require_count, require_seed


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_a_whole_number_of_any_library_comes_back_as_an_int(value):
    for count in (require_count("n", value, 10), require_seed(value)):
        assert count == 3
        assert type(count) is int


@pytest.mark.parametrize(
    "value", [0, 11, -1, 3.0, 2.5, math.nan, math.inf, np.float64(3), True, np.True_, "3", None]
)
def test_no_other_value_is_a_count(value):
    with pytest.raises(PrivotError, match=r"n .* cannot be: give a whole number from 1 to 10"):
        require_count("n", value, 10)
