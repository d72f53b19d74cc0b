"""What a wave says of a table's columns: slopes of mean 0 at the truth, and as its likelihood says."""

import numpy as np
import pytest

from given_classes import fit_four
from moving_people import TEXT, people, waves
from privot import Randomizer, Schema, count
from privot.core.errors import PrivotError
from privot.local.classes.counts import count_releases
from privot.local.releases import Releases
from privot.local.waves.table_drift import TableDrift


@pytest.fixture(scope="module")
def release():
    return waves([0.3], 20_000)[0]


@pytest.fixture(scope="module")
def drift(release):
    return TableDrift(fit_four(release).sampler)


def test_slopes_are_those_of_the_likelihood():
    """A column's shares moved a little, by raking: the log-likelihood changes by the slope."""
    few = Schema.from_toml(TEXT.split("[columns.age]")[0])
    columns = people(0.3, 20_000, 0)
    del columns["age"]
    release = count(Randomizer.calibrate(few, 4.0).privatize(columns))
    drift = TableDrift(fit_four(release).sampler)
    shares = [each.shares for each in drift.pieces]
    likelihoods = drift.likelihoods(release, shares)
    _, groups = count_releases(Releases((release,)))
    counts = np.concatenate([group.counts for group in groups])
    move, small = np.array([1.0, -1.0]), 1e-4

    def value(step):
        moved = drift._moved([shares[0] + step * move, *shares[1:]]).classes
        return counts @ moved.log_likelihood(groups)

    # Raked classes keep odds ratios and both margins, the slope the other column's law given this one:
    # so the other column's slope is a part of it.
    joint = drift.sampler.classes.marginal([0, 1])
    given = (joint / joint.sum(axis=1, keepdims=True)).T @ move
    slope = (value(small) - value(-small)) / (2 * small)
    spread = np.sqrt(move @ likelihoods[0].information @ move)
    assert abs(slope - (likelihoods[0].slope @ move - likelihoods[1].slope @ given)) < 0.3 * spread


def test_numbers_are_bumps_and_categories_are_values(drift):
    sizes = [len(each.shares) for each in drift.pieces]
    assert sizes[:2] == [2, 3]
    assert 8 <= sizes[2] <= 14
    for each in drift.pieces:
        assert np.allclose(each.law.sum(axis=0), 1)


def test_other_alphabets_are_refused(drift):
    other = Schema.from_toml(TEXT.replace("100", "90"))
    release = Randomizer.calibrate(other, 4.0).privatize(people(0.3, 500, 0))
    with pytest.raises(PrivotError, match="column 'age' is reported in other alphabets"):
        drift.likelihoods(release, [each.shares for each in drift.pieces])
