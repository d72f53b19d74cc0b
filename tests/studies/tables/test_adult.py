"""The census experiment's own arithmetic, and a small run where the data are there."""

import os
from pathlib import Path

import numpy as np
import pytest

from privot.core.errors import PrivotError
from studies.tables.adult import FILE, Drawn, compare_on, marginal_errors, read_adult

DATA = Path(os.environ.get("PRIVOT_DATA", "nowhere"))


def test_errors_of_marginals_are_total_variations():
    truth = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    apart = np.array([[0, 0], [0, 0], [0, 0], [1, 1]])
    one, two = marginal_errors(Drawn(apart), truth, (2, 3))
    assert one == pytest.approx(0.25)
    assert two == pytest.approx(0.5)
    assert marginal_errors(Drawn(truth), truth, (2, 3)) == (0.0, 0.0)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(PrivotError, match="give the folder that holds"):
        read_adult(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / FILE).exists(), reason=f"{FILE} is not in PRIVOT_DATA")
def test_latent_classes_beat_independence_the_tree_and_those_who_take_noise_for_truth():
    schema, table = read_adult(DATA)
    rows = {row["estimator"]: row for row in compare_on(schema, table, 8.0, seed=1)}
    ours = rows.pop("latent classes (privot.fit)")
    assert ours["two_way"] < 0.035
    assert ours["auc_logistic"] > 0.86
    for row in rows.values():
        assert ours["two_way"] < 0.8 * row["two_way"]
    assert ours["one_way"] < 1.05 * rows["independence"]["one_way"]
