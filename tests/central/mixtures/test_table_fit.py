"""A curator's tables: dependence, conditions, and what nearly no budget leaves."""

import numpy as np
import pytest

from central.mixtures.tables import SCHEMA, people
from privot.central import SumSettings, fit
from privot.central.sums import Budget
from privot.central.table_fit import CodedRecords, PairCounts, TableFit, fit_pairs
from privot.core.errors import PrivotError


@pytest.fixture(scope="module")
def learned():
    return fit(people(), SCHEMA, epsilon=4.0)


def test_what_depends_on_each_other_is_drawn_together(learned):
    drawn = learned.sample(20_000, seed=0).to_pandas()
    true = people(seed=1).to_pandas()
    assert drawn["age"].mean() == pytest.approx(true["age"].mean(), abs=0.8)
    assert drawn["age"].quantile(0.9) == pytest.approx(true["age"].quantile(0.9), abs=2)
    assert drawn["sick"].isna().mean() == pytest.approx(0.1, abs=0.02)
    for value in (True, False):
        for column, most in (("town", 0.03), ("age", 1.5)):
            own, real = (frame[frame["sick"] == value] for frame in (drawn, true))
            if column == "town":
                gap = (own["town"] == "a").mean() - (real["town"] == "a").mean()
            else:
                gap = own["age"].mean() - real["age"].mean()
            assert abs(gap) < most


def test_little_budget_keeps_to_few_classes():
    poor = fit(people(2000), SCHEMA, epsilon=0.5)
    assert poor.law.sampler.atoms.num_classes == 16
    assert poor.guarantee.epsilon <= 0.5


def test_what_noise_would_drown_is_refused_and_costs_nothing():
    with pytest.raises(
        PrivotError, match=r"epsilon 0.01 for 500 rows: .* give [\d,]+ rows"
    ) as told:
        fit(people(500), SCHEMA, epsilon=0.01)
    enough = int(str(told.value).split("give ")[1].split(" rows")[0].replace(",", ""))
    assert TableFit(SCHEMA, SumSettings(), Budget(0.01, 1e-5, enough)).plan().uses == 1
    with pytest.raises(PrivotError, match="noise alone"):
        TableFit(SCHEMA, SumSettings(), Budget(0.01, 1e-5, int(0.95 * enough))).plan()


def test_atoms_are_what_all_codings_tell_apart():
    coded = CodedRecords(SCHEMA)
    table = people(5000)
    (codes,) = coded.encode(table)
    assert codes.shape == (5000, 3)
    (number, *_), ages = coded.atoms, table["age"].to_numpy()
    assert len(number.codes) > 60
    cells = number.cells
    inside = cells.low[codes[:, 0]] <= ages
    assert inside.all()
    assert (ages <= cells.high[codes[:, 0]]).all()


def test_pairs_are_counted_with_the_weights_of_columns():
    query = PairCounts([3, 24])
    assert query.weights.tolist() == [32, 64]
    codes = np.array([[0, 5], [2, 23], [0, 5]])
    slots, vectors = query.answer((codes,))
    assert not slots.any()
    assert np.square(vectors).sum(axis=1).tolist() == [32**2 + 64**2] * 3
    assert query.radius == 72
    pairs = vectors.T @ vectors / np.outer(*[query.weights[query.column_of_code]] * 2)
    assert pairs[0, 3 + 5] == 2
    assert pairs[2, 3 + 23] == 1


def test_noiseless_pairs_are_explained():
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(12)).reshape(3, 4)
    shares = np.zeros((7, 7))
    shares[:3, 3:], shares[3:, :3] = table, table.T
    shares[np.arange(7), np.arange(7)] = [*table.sum(1), *table.sum(0)]
    stddev = np.full((7, 7), 1e-3)
    stddev[:3, :3][~np.eye(3, dtype=bool)] = stddev[3:, 3:][~np.eye(4, dtype=bool)] = np.inf
    mixture, residual = fit_pairs(shares, stddev, [3, 4], 6, seed=0)
    assert np.abs(mixture.marginal([0, 1]) - table).max() < 2e-3
    assert residual < 10


def test_the_number_of_classes_can_be_given():
    model = fit(people(500), SCHEMA, epsilon=1.0, method=SumSettings(classes=3))
    assert model.law.sampler.atoms.num_classes == 3
