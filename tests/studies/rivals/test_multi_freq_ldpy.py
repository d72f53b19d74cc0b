"""The library's own reports, estimated: close with much ε, and refused in words without it."""

from importlib.util import find_spec

import numpy as np
import pytest

from privot.core.errors import PrivotError
from studies.rivals import multi_freq_ldpy as module
from studies.rivals.multi_freq_ldpy import PACKAGE, SOLUTIONS, multi_freq_ldpy

SIZES = (3, 5, 2)


def test_unknown_solutions_and_a_missing_package_are_refused(monkeypatch):
    codes = np.zeros((5, 3), np.int64)
    with pytest.raises(PrivotError, match="use one of SPL, SMP"):
        multi_freq_ldpy(codes, SIZES, 1.0, "RAPPOR")
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(PrivotError, match="not installed"):
        multi_freq_ldpy(codes, SIZES, 1.0, "SMP")


@pytest.mark.skipif(find_spec(PACKAGE) is None, reason="multi-freq-ldpy is not installed")
@pytest.mark.parametrize("solution", SOLUTIONS)
def test_every_solution_estimates_every_column(solution):
    rng = np.random.default_rng(0)
    laws = [rng.dirichlet(np.ones(size)) for size in SIZES]
    codes = np.stack([rng.choice(len(law), 6000, p=law) for law in laws], axis=1)
    model = multi_freq_ldpy(codes, SIZES, 9.0, solution)
    for column, law in enumerate(laws):
        error = np.abs(model.marginal([column]) - law).sum() / 2
        assert error < 0.06
        assert np.abs(np.full(len(law), 1 / len(law)) - law).sum() / 2 > 0.06
