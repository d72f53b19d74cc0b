"""The mechanism of noisy sums: what it sums, how far one record moves it, its noise."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from privot.central.sums import Query, SumMechanism, SumPlan, sensitivity
from privot.core.errors import PrivotError
from privot.privacy.ledger import BudgetExhausted, Ledger, accounts


@dataclass(frozen=True)
class Given(Query):
    """Records are slots and integer vectors already."""

    slots: int
    width: int
    radius: int
    moment: int = 1
    non_negative: bool = False

    def answer(self, records):
        return records[0], records[1]


def released(query, slots, vectors, ratio=1e9):
    """What one round tells; by default with next to no noise."""
    records = np.asarray(slots), np.asarray(vectors)
    plan = SumPlan((ratio,), 1e-5, len(slots))
    return SumMechanism(records, Ledger(plan)).release(query)


def moved(query, pairs):
    """How far all slots together move, in ℓ2, when a record becomes another: by pair of records.

    A pair has slots of its own, so that one release holds them all.
    """
    count = query.slots
    wide = replace(query, slots=count * len(pairs))
    totals = []
    for which in (0, 1):
        slots = np.array([count * i + pair[which][0] for i, pair in enumerate(pairs)])
        sums = released(wide, slots, np.array([pair[which][1] for pair in pairs])).sums
        if query.moment == 2:
            rows, columns = np.triu_indices(query.width)
            sums = sums[:, rows, columns] * np.where(rows == columns, 29, 41)
        totals.append(sums.reshape(len(pairs), -1))
    return np.sqrt(np.square(totals[0] - totals[1]).sum(axis=1))


@pytest.mark.parametrize("moment", [1, 2])
@pytest.mark.parametrize("non_negative", [False, True])
def test_no_two_records_differ_by_more_than_the_sensitivity(moment, non_negative):
    rng = np.random.default_rng(0)
    query = Given(2, 3, 9, moment, non_negative)

    def record():
        vector = rng.standard_normal(3) * rng.choice([0.1, 1, 1, 1], 3)
        vector = np.trunc(9 * vector / np.linalg.norm(vector)).astype(int)
        return rng.integers(2), abs(vector) if non_negative else vector

    pairs = [(record(), record()) for _ in range(300)]
    corner = (0, np.array([9, 0, 0]))
    pairs += [(corner, other) for other in ((1, np.array([0, 9, 0])), (0, np.array([0, 0, 9])))]
    if not non_negative:
        pairs.append((corner, (0, np.array([-9, 0, 0]))))
    most = moved(query, pairs).max()
    assert 0.99 * sensitivity(query) < most <= sensitivity(query) + 1e-3


def test_sums_and_products_are_those_of_the_records():
    rng = np.random.default_rng(1)
    slots, vectors = rng.integers(3, size=9000), rng.integers(-5, 6, size=(9000, 4))
    ones = np.eye(3)[slots]
    sums = released(Given(3, 4, 10), slots, vectors).sums
    assert np.abs(sums - ones.T @ vectors).max() < 1
    products = released(Given(3, 4, 10, 2), slots, vectors).sums
    assert np.abs(products - np.einsum("ns,ni,nj->sij", ones, vectors, vectors)).max() < 1
    assert (products == products.swapaxes(1, 2)).all()


def test_what_is_longer_or_has_another_sign_than_promised_counts_as_nothing():
    vectors = np.array([[3, 4], [3, 5], [-1, 0]])
    sums = released(Given(1, 2, 5, non_negative=True), np.zeros(3, int), vectors).sums
    assert np.abs(sums - [[3, 4]]).max() < 0.5


@pytest.mark.parametrize("moment", [1, 2])
def test_noise_is_as_large_as_it_says(moment):
    query = Given(900, 8, 7, moment)
    told = released(query, np.zeros(2, int), np.zeros((2, 8), int), ratio=0.5)
    diagonal = told.sums if moment == 1 else told.sums[:, np.arange(8), np.arange(8)]
    # 7 200 draws: the standard deviation of their spread is 1/120 of it, and limits are six of these.
    assert diagonal.std() / told.stddev == pytest.approx(1, abs=0.05)
    expected = sensitivity(query) / 0.5 / (1 if moment == 1 else 29)
    assert told.stddev == pytest.approx(expected)
    if moment == 2:
        other = told.sums[:, 0, 1:]
        assert other.std() / (told.stddev * 29 / 41) == pytest.approx(1, abs=0.055)


def test_rounds_bear_the_noise_of_their_share_and_end():
    records = np.zeros(4, np.int64), np.zeros((4, 2), np.int64)
    mechanism = SumMechanism(records, Ledger(SumPlan((1.0, 0.1), 1e-5, 4)))
    query = Given(1, 2, 3)
    first, second = mechanism.release(query), mechanism.release(query)
    assert second.stddev == pytest.approx(10 * first.stddev)
    with pytest.raises(BudgetExhausted):
        mechanism.release(query)


def test_no_round_is_answered_twice_by_those_who_share_a_ledger(tmp_path):
    """Each has the noise of a round of its own: the budget of a round is spent once."""
    plan = SumPlan(tuple(0.1 * 2**k for k in range(6)), 1e-5, 4)
    records = np.zeros(4, np.int64), np.zeros((4, 2), np.int64)
    path = tmp_path / "ledger"
    first = SumMechanism(records, Ledger(plan, path))
    told = [first.release(Given(1, 2, 3)).stddev]
    second = SumMechanism(records, Ledger(plan, path, resume=True))
    for each in (second, first, second, first, second):
        told.append(each.release(Given(1, 2, 3)).stddev)
    assert told == pytest.approx([sensitivity(Given(1, 2, 3)) / ratio for ratio in plan.ratios])
    with pytest.raises(BudgetExhausted):
        first.release(Given(1, 2, 3))


def test_refusals_spend_nothing():
    records = np.zeros(4, np.int64), np.zeros((4, 2), np.int64)
    ledger = Ledger(SumPlan((1.0,), 1e-5, 4))
    mechanism, before = SumMechanism(records, ledger), accounts()
    for radius in (0, 2**26):
        with pytest.raises(PrivotError, match="radius"):
            mechanism.release(replace(Given(1, 2, 3), radius=radius))
    for records, words in (
        ((np.zeros(5, np.int64), np.zeros((5, 2), np.int64)), "do not fit a plan"),
        ((np.zeros(4, np.int64), np.full((4, 2), np.nan)), "NaN"),
    ):
        with pytest.raises(PrivotError, match=words):
            SumMechanism(records, ledger).release(Given(1, 2, 3))
    assert ledger.left == 1
    assert accounts() == before
