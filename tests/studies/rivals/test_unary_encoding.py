"""Unary encoding: the laws, independent bits, and the ratio e^ε in integers."""

from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit import seeded_bugs
from laws.mechanism import FALSE_ALARM, MechanismLaws, chi_square
from local import test_cost
from mechanisms import test_frequency_oracle as oracles
from mechanisms.test_audits import EPSILONS, attack
from mechanisms.test_choice import choices, mutual_information
from privot.audit import audit_randomizer, law
from privot.core.errors import PrivotError
from privot.mechanisms import choose_mechanism, mechanism
from privot.randomizer import Randomizer
from privot.schema import Schema
from studies.rivals import unary_encoding
from studies.rivals.unary_encoding import UnaryEncoding, codes_of_bits

BITS = np.array(list(product([False, True], repeat=5)))


TOWN = Schema.from_dict(
    {"columns": {"town": {"kind": "categorical", "categories": [*map(str, range(300))]}}}
)


@pytest.fixture(autouse=True)
def _known_by_its_kind(monkeypatch):
    monkeypatch.setitem(mechanism._KINDS, "unary_encoding", UnaryEncoding)


class TestUnaryEncoding(MechanismLaws):
    mechanism = UnaryEncoding(num_categories=5, epsilon=1.0)
    wrong = (UnaryEncoding(5, 1.01), UnaryEncoding(5, 0.99))
    record = np.int64(2)
    worst_pairs = ((np.int64(0), np.int64(4)), (np.int64(3), np.int64(2)))
    records = np.arange(400) % 5
    outcomes = BITS
    invalid_fields = (
        ("num_categories", 1),
        ("num_categories", 2.5),
        ("epsilon", 0.0),
        ("epsilon", 2.0**-40),
        ("epsilon", float("nan")),
    )

    def index(self, reports):
        return reports @ (2 ** np.arange(4, -1, -1))

    @pytest.mark.parametrize("code", [-1, 5])
    @pytest.mark.parametrize("count", [1, 100])
    def test_other_codes_are_refused(self, code, count):
        with pytest.raises(PrivotError, match="outside"):
            self.mechanism.privatize(np.full(count, code))

    def test_shapes_and_types_are_refused(self):
        with pytest.raises(PrivotError, match="shape"):
            self.mechanism.privatize(np.zeros((3, 1), int))
        for y in (np.zeros((3, 4), bool), np.zeros((3, 5), int)):
            with pytest.raises(PrivotError, match="give 5 booleans"):
                self.mechanism.log_likelihood(y, np.zeros(3, int))

    def test_likelihood_broadcasts(self):
        pairs = self.mechanism.log_likelihood(BITS[:, None], np.arange(5))
        assert pairs.shape == (32, 5)
        assert pairs[7, 3] == self.mechanism.log_likelihood(BITS[7], np.int64(3))


def test_bytes_that_tie_are_decided_by_the_rest_of_the_word():
    """With ε = log 511, L/2^64 is 1/512: the first byte of L is 0, so only ties can set a bit."""
    mechanism = UnaryEncoding(100, float(np.log(511.0)))
    reports = mechanism.privatize(np.zeros(400_000, np.int64))[:, 1:]
    counts = np.array([reports.sum(), (~reports).sum()])
    q = mechanism.probabilities[1]
    assert q == pytest.approx(1 / 512, rel=1e-9)
    assert chi_square(counts, np.array([q, 1 - q])) > FALSE_ALARM
    assert chi_square(counts, np.array([1.03 * q, 1 - 1.03 * q])) < FALSE_ALARM


def test_every_word_is_compared_as_a_whole(monkeypatch):
    mechanism = UnaryEncoding(2, 1.0)
    first, rest = divmod(mechanism.words[1], 2**56)
    for low, expected in ((rest - 1, True), (rest, False)):
        stock = [np.full(1, first * 0x0101010101010101, np.uint64), np.full(8, low << 8, np.uint64)]
        monkeypatch.setattr(unary_encoding, "random_words", lambda n, s=stock: s.pop(0)[:n])
        bits = np.empty(8, bool)
        mechanism._fill(bits)
        assert (bits == expected).all()


def test_bits_of_many_categories_are_independent_and_equally_frequent():
    mechanism = UnaryEncoding(num_categories=300, epsilon=2.0)
    reports = mechanism.privatize(np.full(20_000, 41))
    own, other = mechanism.probabilities
    frequency = reports.mean(axis=0)
    limit = 6 * np.sqrt(0.25 / len(reports))
    assert abs(frequency[41] - own) < limit
    assert np.abs(np.delete(frequency, 41) - other).max() < limit
    correlation = np.corrcoef(reports[:, 30:60], rowvar=False) - np.eye(30)
    assert np.abs(correlation).max() < 6 / np.sqrt(len(reports))


def test_variance_is_that_of_the_unbiased_indicator():
    mechanism = UnaryEncoding(4, 2.0)
    assert mechanism.variance == pytest.approx(4 * np.exp(2.0) / np.expm1(2.0) ** 2, rel=1e-12)


@given(num_categories=st.integers(2, 2**24), epsilon=st.floats(1e-6, 40.0))
def test_integers_keep_epsilon_and_waste_nothing(num_categories, epsilon):
    own, other = UnaryEncoding(num_categories, epsilon).words
    ratio = Fraction(own, 2**64 - own) * Fraction(2**64 - other, other)
    with mpmath.workdps(60):
        loss = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
        assert mpmath.mpf(epsilon) - mpmath.mpf(4) / other <= loss <= mpmath.mpf(epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_information_is_its_definition_and_nearly_that_of_subsets(epsilon):
    unary = UnaryEncoding(5, epsilon)
    likelihood = np.exp(unary.log_likelihood(BITS, np.arange(5)[:, None]))
    told = unary.information(choices(5))
    assert told == pytest.approx(mutual_information(likelihood), rel=1e-9)
    assert 0 <= told <= min(epsilon / np.log(2), np.log2(5))
    column = choices(1000)
    most = max(choose_mechanism(column, epsilon, among=("subset_selection",)).compared.values())
    assert UnaryEncoding(1000, epsilon).information(column) == pytest.approx(most, rel=0.02)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_audit_finds_its_epsilon_and_no_more(epsilon):
    result = attack(
        UnaryEncoding(6, epsilon), (1, 4), num_draws=300_000 if epsilon < 1 else 100_000
    )
    assert 0.8 * epsilon <= result.epsilon_lower <= epsilon


def test_a_tenth_less_noise_is_caught():
    assert attack(UnaryEncoding(6, 1.0 / 0.9), (1, 4), num_draws=500_000).refutes(1.0)


def test_it_is_a_frequency_oracle():
    case = UnaryEncoding(5, 1.5), BITS
    oracles.test_the_indicator_is_unbiased_and_has_the_stated_variance(*case)
    oracles.test_a_report_tells_two_codes_apart_by_its_support_and_the_ratio_alone(*case)
    oracles.test_it_fits_its_own_alphabet_only(*case)
    oracles.test_what_is_no_support_is_impossible(*case)


def test_cost_of_a_distribution_is_its_mixture_likelihood():
    test_cost.test_cost_of_a_distribution_is_its_mixture_likelihood(UnaryEncoding(5, 1.0))


def honest():
    return Randomizer.calibrate(TOWN, 1.0, report="split", mechanism="unary_encoding")


def test_an_honest_randomizer_passes_the_audit(monkeypatch):
    """False-alarm rate 1e-6."""
    monkeypatch.setattr(law, "_NUM_SINGLES", 8)
    monkeypatch.setattr(law, "_MAX_STREAM_ROWS", 2**8)
    result = audit_randomizer(honest(), num_draws=300, confidence=1 - 1e-6)
    assert result.tests
    assert not result.refuted


@property
def too_low_a_threshold(self):
    return int(0.9 * 2**64 / (np.exp(self.epsilon) + 1))


def test_bits_of_other_categories_that_are_set_too_rarely_are_found():
    assert seeded_bugs.caught(
        seeded_bugs.bug(honest, UnaryEncoding, "_threshold", too_low_a_threshold, num_draws=300)
    )


def test_bits_are_codes_padded_to_the_longest():
    bits = np.array([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0]], bool)
    assert codes_of_bits(bits).tolist() == [[0, 2, 3], [-1, -1, -1], [1, -1, -1]]
    assert codes_of_bits(bits[:0]).shape == (0, 0)
