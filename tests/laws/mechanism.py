"""What every mechanism must satisfy, whatever its noise. Each mechanism's test inherits this suite.

A subclass sets the class attributes below. Statistical laws are tested with so many draws that the
right likelihood passes and one with 1 % wrong noise fails; a test of at most six statistics is wrong in
one run of a million, since each of them is wrong in one of ten million.
"""

import json
import os
import threading
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, norm

from privot.core.errors import PrivotError
from privot.mechanisms.mechanism import mechanism_from_dict

CHUNK = 1_000_000
FALSE_ALARM = 1e-6
ONE_OF_SOME = 1e-7  # false-alarm rate of one statistic, where a test looks at up to six
MIN_EXPECTED = 50.0
FAR = norm.isf(ONE_OF_SOME / 2)
SEEN = norm.isf(1e-9)  # wrong noise is missed once in a billion runs
COARSE = 25  # 5 % too much or too little noise takes a 25th of the draws that 1 % takes


def chi_square(counts, probabilities):
    """P-value of counts against probabilities; rare outcomes, and all others, share one bin."""
    total = counts.sum()
    common = probabilities * total >= MIN_EXPECTED
    observed, expected = counts[common], probabilities[common] * total
    rest_observed, rest_expected = total - observed.sum(), total - expected.sum()
    statistic = ((observed - expected) ** 2 / expected).sum()
    degrees = len(observed) - 1
    if rest_expected >= MIN_EXPECTED:
        statistic += (rest_observed - rest_expected) ** 2 / rest_expected
        degrees += 1
    assert degrees > 0, "too few draws for two bins"
    return chi2.sf(statistic, degrees)


class LikelihoodRatio:
    """Neyman and Pearson's test of counts, where a histogram of all outcomes has little power."""

    def __init__(self, law, wrong):
        self.score = np.log(law) - np.log(wrong)

    def moments(self, law):
        """Mean and standard deviation of one draw's score."""
        mean = law @ self.score
        return mean, np.sqrt(law @ (self.score - mean) ** 2)

    def deviations(self, counts, law):
        """By how many standard deviations the counts' score is above what `law` expects."""
        mean, deviation = self.moments(law)
        total = counts.sum()
        return (counts @ self.score - total * mean) / (deviation * np.sqrt(total))

    def draws(self, law, wrong):
        """So many that counts of `law` are `FAR` above what `wrong` expects, but once in a billion."""
        (mean, deviation), (other, spread) = self.moments(law), self.moments(wrong)
        return int(np.ceil(((FAR * spread + SEEN * deviation) / (mean - other)) ** 2))


def has_law_and_no_other(draw, counted, law, *others):
    """Whether `counted(draw(n))` has the law, and none of the others, which n is large enough to refute.

    At most five statistics, each with a false-alarm rate of 1e-7; a wrong law passes with 1e-9.
    """
    ratios = [(other, LikelihoodRatio(law, other)) for other in others]
    counts = counted(draw(max(ratio.draws(law, other) for other, ratio in ratios)))
    assert chi_square(counts, law) > ONE_OF_SOME
    for other, ratio in ratios:
        assert abs(ratio.deviations(counts, law)) < FAR
        assert ratio.deviations(counts, other) > FAR
    return True


class MechanismLaws:
    mechanism = None  # few outcomes: noise a few grid steps wide, or a small alphabet
    wrong = ()  # the same mechanism with about 1 % wrong noise, each to be rejected
    domain = None
    delta = 0.0
    record = None  # one true record, shape of a single item
    worst_pairs = ()  # pairs of records at which the privacy loss is largest
    records = None  # many different records, for the laws about output sets
    outcomes = None  # outputs that carry all but 1e-12 of the probability, first axis
    tight = 1e-9  # how closely the worst privacy loss must reach the guarantee
    scalars = 12  # numbers of a call that are drawn one by one, at most
    invalid_fields = ()  # field values that the constructor must refuse

    def index(self, reports):
        """Position in `outcomes` of every report, or len(outcomes) for none of them."""
        raise NotImplementedError

    def test_probabilities_sum_to_one(self):
        for pair in self.worst_pairs:
            for record in pair:
                total = np.exp(self.mechanism.log_likelihood(self.outcomes, record)).sum()
                assert total == pytest.approx(1.0, abs=1e-9)

    def law(self, mechanism):
        """The probability of every outcome."""
        return np.exp(mechanism.log_likelihood(self.outcomes, self.record))

    def counted(self, draws):
        """How often every outcome was drawn, and, last, how often another was."""
        counts = np.zeros(len(self.outcomes) + 1)
        for drawn in np.diff([*range(0, draws, CHUNK), draws]):
            records = np.broadcast_to(self.record, (drawn, *np.shape(self.record)))
            index = self.index(self.mechanism.privatize(records))
            counts += np.bincount(index, minlength=len(counts))
        return counts

    def ratios(self):
        """The tests of the mechanism's law against every wrong one, and the draws that they take."""
        assert self.wrong
        law = self.law(self.mechanism)
        others = [(other, LikelihoodRatio(law, other)) for other in map(self.law, self.wrong)]
        return law, others, max(ratio.draws(law, other) for other, ratio in others)

    def test_histogram_matches_the_likelihood_and_no_other(self):
        """The power check is part of the test: 1 % wrong noise must be told apart."""
        law, others, draws = self.ratios()
        counts = self.counted(draws)
        assert chi_square(counts, np.append(law, 0.0)) > ONE_OF_SOME
        for other, ratio in others:
            assert abs(ratio.deviations(counts[:-1], law)) < FAR
            assert ratio.deviations(counts[:-1], other) > FAR

    def test_few_records_have_the_same_law(self):
        """Single records take other code than arrays do: 5 % wrong noise shows."""
        law, others, draws = self.ratios()
        few = max(1, self.scalars // np.size(self.record))
        records = np.broadcast_to(self.record, (few, *np.shape(self.record)))
        calls = draws // COARSE // len(records) + 1
        reports = np.concatenate([self.mechanism.privatize(records) for _ in range(calls)])
        counts = np.bincount(self.index(reports), minlength=len(self.outcomes) + 1)
        assert chi_square(counts, np.append(law, 0.0)) > ONE_OF_SOME
        for _, ratio in others:
            assert abs(ratio.deviations(counts[:-1], law)) < FAR

    def read(self, reports):
        """Reports as a curator reads them."""
        return self.mechanism.support(reports) if self.mechanism.takes_codes else reports

    def test_probability_cells_are_those_of_the_likelihood(self):
        """Cells hold the probability, lie in (0, 1), and those of all outcomes tile it."""
        for record in {id(r): r for pair in self.worst_pairs for r in pair}.values():
            reports = self.read(self.outcomes)
            records = np.broadcast_to(record, (len(reports), *np.shape(record)))
            rng = np.random.default_rng(0)
            low, high = self.mechanism.probability_cells(reports, records, rng)
            assert (low <= high).all()
            expected = np.exp(self.mechanism.log_likelihood(self.outcomes, record))
            assert self.cells_hold((high - low).prod(axis=1), expected)

    def cells_hold(self, found, expected):
        return np.allclose(found, expected, rtol=1e-7, atol=1e-15)

    def test_possible_reports_are_told_from_others(self):
        assert not self.mechanism.impossible(self.read(self.outcomes)).any()

    def test_privacy_loss_is_the_guarantee(self):
        """No outcome is likelier by more than e^ε (up to δ), and some pair attains it."""
        guarantee = self.mechanism.guarantee(self.domain, self.delta)
        losses = []
        for first, second in self.worst_pairs:
            here = self.mechanism.log_likelihood(self.outcomes, first)
            there = self.mechanism.log_likelihood(self.outcomes, second)
            if self.delta:
                excess = np.maximum(np.exp(here) - np.exp(guarantee.epsilon + there), 0.0).sum()
                assert excess <= self.delta * (1 + 1e-9)
                losses.append(excess / self.delta)
            else:
                loss = np.abs(here - there).max()
                assert loss <= guarantee.epsilon * (1 + 1e-12) + 1e-12
                losses.append(loss / guarantee.epsilon)
        assert max(losses) >= 1 - self.tight

    def test_round_trip(self):
        written = json.loads(json.dumps(self.mechanism.to_dict()))
        assert mechanism_from_dict(written) == self.mechanism

    def test_fields_are_refused(self):
        description = self.mechanism.to_dict()
        with pytest.raises(PrivotError, match="give exactly"):
            mechanism_from_dict(description | {"seed": 0})
        with pytest.raises(PrivotError, match="give exactly"):
            mechanism_from_dict({"kind": description["kind"]})
        assert self.invalid_fields
        for name, value in self.invalid_fields:
            with pytest.raises(PrivotError, match=name):
                replace(self.mechanism, **{name: value})

    def test_shapes_and_empty_input(self):
        shape = np.shape(self.record)
        for count in (0, 1, 3, 40):
            records = np.broadcast_to(self.record, (count, *shape))
            reports = self.mechanism.privatize(records)
            assert len(reports) == count
            assert self.mechanism.log_likelihood(reports, records).shape == (count,)

    def test_input_is_left_alone(self):
        records = np.array(self.records)
        before = records.copy()
        self.mechanism.privatize(records)
        assert (records == before).all()

    def test_threads_draw_fresh_noise(self):
        drawn = []
        barrier = threading.Barrier(4)

        def draw():
            barrier.wait()
            drawn.append(self.mechanism.privatize(self.records).tobytes())
            drawn.append(self.mechanism.privatize(self.records).tobytes())

        threads = [threading.Thread(target=draw) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(drawn)) == 8

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_forked_processes_draw_fresh_noise(self):
        few = self.records[:8]
        self.mechanism.privatize(few)  # the parent now holds words drawn ahead
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, self._draw_bytes(few))
            finally:
                os._exit(0)
        here = self._draw_bytes(few)
        os.waitpid(child, 0)
        there = os.read(reader, 2**16)
        os.close(reader)
        os.close(writer)
        assert len(there) == len(here)
        assert here != there

    def _draw_bytes(self, few):
        small = b"".join(self.mechanism.privatize(few).tobytes() for _ in range(16))
        return small + self.mechanism.privatize(self.records[:200]).tobytes()
