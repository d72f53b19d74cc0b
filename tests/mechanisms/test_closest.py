"""Closest candidates: the odds in integers, the law of reports, and means without bias."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privot.audit.statistics import audit
from privot.core.errors import PrivotError
from privot.mechanisms.candidates import codebook
from privot.mechanisms.candidates.codebook import ClosestCandidates, Codebook
from privot.mechanisms.samplers import skip_taken

FALSE_ALARM = 1e-6


def unit(size: int, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal(size)
    return x / np.linalg.norm(x)


@given(st.floats(0.01, 14.0), st.integers(1, 500))
def test_odds_never_exceed_e_to_the_epsilon(epsilon, dimension):
    mechanism = ClosestCandidates.for_dimension(dimension, epsilon)
    inside, outside = mechanism.words
    rest = mechanism.codebook.num_candidates - mechanism.closest
    assert inside + outside == 2**64
    with mpmath.workdps(60):
        odds = mpmath.mpf(inside) * rest / (mpmath.mpf(outside) * mechanism.closest)
        assert odds <= mpmath.exp(mpmath.mpf(epsilon))
        assert odds > mpmath.exp(mpmath.mpf(epsilon)) * (1 - mpmath.mpf(2) ** -30)


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_largest_are_found_with_ties_by_index(count, seed):
    rng = np.random.default_rng(seed)
    keys = rng.integers(-4, 5, (3, 256)).astype(np.int16)
    keys[1] *= np.int16(8191)
    found = codebook._largest(keys, count)
    expected = np.sort(np.argsort(-keys.astype(int), axis=1, kind="stable")[:, :count], axis=1)
    assert (found == expected).all()


@given(st.sets(st.integers(0, 19), min_size=1, max_size=8))
def test_skipping_counts_the_others(taken):
    others = [number for number in range(20) if number not in taken]
    ranks = np.arange(len(others))
    rows = np.broadcast_to(sorted(taken), (len(others), len(taken)))
    assert skip_taken(ranks, rows).tolist() == others


def ranks(mechanism, x, num_people):
    """Place of the reported candidate among all, by decreasing score: 0 is the closest."""
    seeds, indices = mechanism.privatize(np.broadcast_to(x, (num_people, len(x))))
    padded = np.zeros((num_people, mechanism.codebook.dimension), np.float32)
    padded[:, : len(x)] = x
    scores = mechanism.codebook.products(seeds, padded)
    own = scores[np.arange(num_people), indices]
    return (scores > own[:, None]).sum(axis=1)


def test_reports_have_the_claimed_law_and_no_other():
    """Every rank among the w closest is equally likely, so is every other; an ε 10 % off is not.

    False-alarm rate 5e-7. An ε 10 % off moves the share of the closest by 11 standard deviations.
    """
    mechanism, num_people = replace(ClosestCandidates.for_dimension(60, 2.0), closest=16), 16_000
    counts = np.bincount(ranks(mechanism, unit(60), num_people), minlength=256)
    inside, outside = mechanism.probabilities
    expected = np.where(np.arange(256) < 16, inside, outside) * num_people
    assert stats.chisquare(counts, expected).pvalue > FALSE_ALARM / 2
    near = int(counts[:16].sum())
    for epsilon in (2.2, 1.8):
        share = 16 * replace(mechanism, epsilon=epsilon).probabilities[0]
        assert stats.binomtest(near, num_people, share).pvalue < FALSE_ALARM, epsilon


def test_seeds_and_odds_do_not_depend_on_the_record():
    """Whatever is scored, however far out: the same share of reports is among its closest.

    Eight statistics, each with a false-alarm rate of 1e-7 (5.33 standard deviations).
    """
    mechanism, num_people = ClosestCandidates.for_dimension(60, 1.0), 2_000
    for x in (np.zeros(60), np.full(60, 1e9), np.eye(60)[0], -unit(60)):
        seeds, indices = mechanism.privatize(np.broadcast_to(x, (num_people, 60)))
        chosen = mechanism.closest_indices(seeds, np.broadcast_to(x, (num_people, 60)))
        near = int((chosen == indices[:, None]).any(axis=1).sum())
        share = mechanism.words[0] / 2**64
        assert stats.binomtest(near, num_people, share).pvalue > FALSE_ALARM / 10
        bits = np.unpackbits(seeds.view(np.uint8)).mean()
        assert abs(bits - 0.5) < 5.33 * 0.5 / math.sqrt(64 * num_people)


def test_a_seed_tells_nothing_of_the_coins_beside_it():
    """The seed is published: were the coin, or the place among the closest, of its words, both were too.

    Two tables of independent counts, chi-square at 1e-6 each.
    """
    mechanism, x = replace(ClosestCandidates.for_dimension(60, 2.0), closest=16), unit(60)
    records = np.broadcast_to(x, (6_000, 60))
    seeds, indices = mechanism.privatize(records)
    named = mechanism.closest_indices(seeds, records) == indices[:, None]
    near, place = named.any(axis=1), named.argmax(axis=1)
    first, last = (seeds >> np.uint64(61)).astype(int), (seeds % np.uint64(8)).astype(int)
    for rows, columns in ((first, near.astype(int)), (last[near], place[near])):
        table = np.zeros((8, columns.max() + 1))
        np.add.at(table, (rows, columns), 1)
        assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("dimension", "epsilon"), [(20, 1.0), (200, 4.0), (900, 8.0)])
def test_means_are_unbiased_with_the_stated_deviation(dimension, epsilon):
    """A chi-square at 1e-6, and the slope at five deviations of a normal number: 5.7e-7."""
    mechanism = ClosestCandidates.for_dimension(dimension, epsilon)
    x, num_people = unit(dimension, 1), 20_000 if epsilon < 2 else 10_000
    mean, stddev = mechanism.estimate_mean(*mechanism.privatize(np.tile(x, (num_people, 1))))
    error = mean - np.pad(x, (0, len(mean) - dimension))
    assert stats.chi2.sf(abs(error @ error / stddev**2), len(error)) > FALSE_ALARM
    # Along x, where a gain that is 10 % off would show.
    slope = mean[:dimension] @ x
    assert abs(slope - 1) < 5 * stddev
    assert 5 * stddev < 0.1


def test_likelihood_is_the_share_of_each_score():
    """f(y | x) of rows with a given score, averaged over all other candidates.

    Of 14 runs the share that is furthest off is so by .105 ± .018, at most .133, and the mean of all by
    .026 ± .003: both limits are six deviations from there, or more.
    """
    mechanism = ClosestCandidates.for_dimension(60, 3.0)
    x, num_people = unit(60, 2), 30_000
    seeds, indices = mechanism.privatize(np.tile(x, (num_people, 1)))
    scores = mechanism.codebook.rows(seeds, indices)[:, :60] @ x
    edges = np.quantile(scores, np.linspace(0, 1, 21)[1:-1])
    # Where nothing is known of x, scores are those of all rows.
    prior = np.linspace(-0.5, 0.5, 100_001)
    density = stats.beta.pdf((1 + prior) / 2, 255 / 2, 255 / 2) / 2
    density *= np.exp(mechanism.log_likelihood(prior))
    share = np.histogram(prior, [-1, *edges, 1], weights=density)[0]
    counts = np.histogram(scores, [-1, *edges, 1])[0]
    assert share.sum() * 1e-5 == pytest.approx(1, abs=0.01)
    # Rows of one block are not quite independent, which shows near the threshold.
    off = np.abs(counts / num_people / (share / share.sum()) - 1)
    assert off.max() < 0.22
    assert off.mean() < 0.05
    assert np.ptp(share) / share.sum() < 0.02 < np.ptp(np.exp(mechanism.log_likelihood(prior)))


def test_what_cannot_be_is_refused():
    mechanism = ClosestCandidates.for_dimension(60, 1.0)
    for x in (np.full((2, 60), np.nan), np.zeros((2, 257)), np.zeros(60)):
        with pytest.raises(PrivotError, match="finite"):
            mechanism.privatize(x)
    for dimension in (0, 2**16 + 1):
        with pytest.raises(PrivotError, match=f"is {dimension:,}: give 1 to 65,536 numbers"):
            ClosestCandidates.for_dimension(dimension, 1.0)
    with pytest.raises(PrivotError, match="from 1 to 128"):
        ClosestCandidates(1.0, Codebook(256, 1), 129)
    with pytest.raises(PrivotError, match="epsilon"):
        ClosestCandidates.for_dimension(60, math.inf)


@pytest.mark.parametrize(
    ("epsilon", "num_draws"),
    [
        (2.0, 5_000),
        pytest.param(0.5, 30_000, marks=pytest.mark.slow),
        pytest.param(8.0, 40_000, marks=pytest.mark.slow),
    ],
)
def test_an_audit_from_outside_finds_most_of_epsilon_and_no_more(epsilon, num_draws):
    """Records that are opposite share no close candidate: there reports tell most.

    The bound is above ε with probability 1e-6 at most; of so few draws it is .82 ± .02 of ε (12 audits).
    """
    mechanism = ClosestCandidates.for_dimension(8, epsilon)
    ends = unit(8, 3), -unit(8, 3)

    def randomize(record, count):
        seeds, indices = mechanism.privatize(np.broadcast_to(record, (count, 8)))
        return mechanism.log_ratio(seeds, indices, *ends)

    def score(outputs, record, other):
        return outputs if record is ends[0] else -outputs

    found = audit(randomize, [ends], num_draws=num_draws, confidence=1 - 1e-6, score=score)
    assert 0.6 * epsilon <= found.epsilon_lower <= epsilon
