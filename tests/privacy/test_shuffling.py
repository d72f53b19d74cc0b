import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import comb

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import binom

from privot.core.errors import PrivotError
from privot.privacy import shuffling
from privot.privacy.distributed import ReportLaw
from privot.privacy.shuffling import (
    _binomial_pmf,
    _delta_attained,
    _delta_of_few,
    _labeled_delta,
    _narrow,
    calibrate_shuffling,
    composed_shuffled_epsilon,
    shuffled_delta,
    shuffled_epsilon,
)
from privot_benchmarks.shuffling import attained_delta


def hockey_stick(first, second, epsilon):
    """Return both directions' largest δ between two laws given as {outcome: probability}."""
    factor = math.exp(epsilon)
    outcomes = set(first) | set(second)

    def excess(p, q):
        return sum(max(0.0, p.get(o, 0.0) - factor * q.get(o, 0.0)) for o in outcomes)

    return max(excess(first, second), excess(second, first))


def shuffled_counts(reports):
    """Return the law of the histogram of independent reports, one convolution at a time."""
    law = {(0,) * len(reports[0]): 1.0}
    for report in reports:
        following: dict[tuple[int, ...], float] = {}
        for counts, weight in law.items():
            for category, probability in enumerate(report):
                more = tuple(c + (i == category) for i, c in enumerate(counts))
                following[more] = following.get(more, 0.0) + weight * probability
        law = following
    return law


def clone_pair(epsilon0, num_people):
    """Return the 2023 pair from its published description, by enumeration."""
    odds = math.exp(epsilon0)
    clone = 2 / (odds + 1)
    laws = []
    for keep in (odds / (odds + 1), 1 / (odds + 1)):
        law: dict[tuple[int, int], float] = {}
        for clones in range(num_people):
            weight = comb(num_people - 1, clones) * clone**clones
            weight *= (1 - clone) ** (num_people - 1 - clones)
            for zeros in range(clones + 1):
                half = weight * comb(clones, zeros) / 2**clones
                for own, probability in ((1, keep), (0, 1 - keep)):
                    outcome = (zeros + own, clones - zeros + 1 - own)
                    law[outcome] = law.get(outcome, 0.0) + half * probability
        laws.append(law)
    return laws


@pytest.mark.parametrize("num_people", [1, 2, 7, 25])
@pytest.mark.parametrize("epsilon0", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("ratio", [0.0, 0.2, 0.7])
def test_upper_bound_is_the_published_pair_by_brute_force(num_people, epsilon0, ratio):
    epsilon = ratio * epsilon0
    exact = hockey_stick(*clone_pair(epsilon0, num_people), epsilon)
    delta = shuffled_delta(epsilon0, num_people, epsilon)
    assert exact <= delta <= exact * (1 + 2e-6) + 1e-20


@pytest.mark.parametrize("num_people", [1, 2, 8, 20])
@pytest.mark.parametrize("epsilon0", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("ratio", [0.0, 0.2, 0.7])
def test_lower_bound_is_what_shuffled_randomized_response_needs(num_people, epsilon0, ratio):
    epsilon, odds = ratio * epsilon0, math.exp(epsilon0)

    def response(category, num_categories):
        weights = [odds if c == category else 1.0 for c in range(num_categories)]
        return [w / sum(weights) for w in weights]

    rest = [response(2, 3)] * (num_people - 1)
    exact = hockey_stick(*(shuffled_counts([response(c, 3), *rest]) for c in (0, 1)), epsilon)
    attained = _delta_attained(ReportLaw.worst(epsilon0), num_people, epsilon)
    assert attained == pytest.approx(exact, rel=1e-5, abs=1e-15)


def random_mechanism(rng, num_records, num_outputs, epsilon0):
    """Return the output laws of a random ε₀-DP mechanism with random corner columns."""
    columns = rng.choice([1.0, math.exp(epsilon0)], size=(num_records, num_outputs))
    # Columns of ratios in {1, e^ε₀} and their mirror images: rows then sum to the same number.
    columns = np.concatenate([columns, math.exp(epsilon0) + 1 - columns], axis=1)
    weights = np.tile(rng.random(num_outputs), 2)
    laws = columns * weights
    return laws / laws.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(12))
def test_no_random_mechanism_exceeds_the_bound(seed):
    rng = np.random.default_rng(seed)
    epsilon0, num_people = rng.uniform(0.3, 3.0), 5
    laws = random_mechanism(rng, 3, 2, epsilon0)
    assert laws.max(axis=0).max() > 0
    assert np.max(laws.max(axis=0) / laws.min(axis=0)) <= math.exp(epsilon0) * (1 + 1e-12)
    rest = [laws[2]] * (num_people - 1)
    pair = [shuffled_counts([laws[c], *rest]) for c in (0, 1)]
    for ratio in (0.0, 0.1, 0.3, 0.6, 0.9):
        epsilon = ratio * epsilon0
        assert hockey_stick(*pair, epsilon) <= shuffled_delta(epsilon0, num_people, epsilon)


def extremal_mechanism(rng, num_records, num_outputs, epsilon0):
    """Return an extreme point of the ε₀-DP mechanisms: columns proportional to {1, e^ε₀}."""
    patterns = np.array(list(itertools.product([1.0, math.exp(epsilon0)], repeat=num_records))).T
    while True:
        some = patterns[:, rng.permutation(patterns.shape[1])[:num_outputs]]
        solved = linprog(rng.normal(size=some.shape[1]), A_eq=some, b_eq=np.ones(num_records))
        if solved.status == 0:
            return some * solved.x


@pytest.mark.parametrize("num_people", [1, 2, 3, 4])
def test_no_extremal_mechanism_exceeds_the_bound_and_some_attain_it(num_people):
    """Every multiset of other people's records, and mixtures of records, in both orders."""
    rng = np.random.default_rng(num_people)
    tightest = 0.0
    for _ in range(12):
        epsilon0 = rng.choice([0.1, 0.5, 1.0, 2.0, 5.0])
        laws = extremal_mechanism(rng, 3, 6, epsilon0)
        laws = laws[:, laws[0] > 1e-12]
        mixed = rng.dirichlet(np.ones(3), size=2) @ laws
        everybody = np.concatenate([laws, mixed])
        for others in itertools.combinations_with_replacement(everybody, num_people - 1):
            pair = [shuffled_counts([laws[c], *others]) for c in (0, 1)]
            for ratio in (0.0, 0.2, 0.6, 0.95):
                epsilon = ratio * epsilon0
                exact = hockey_stick(*pair, epsilon)
                bound = shuffled_delta(epsilon0, num_people, epsilon)
                assert exact <= bound
                tightest = max(tightest, exact / bound)
    assert tightest > 1 - 2e-6


def test_published_numbers():
    bound = shuffled_epsilon(5.0, 400_000, 1e-6)
    assert bound.epsilon_closed_form == pytest.approx(0.352, abs=5e-4)
    assert bound.epsilon == pytest.approx(0.098, abs=5e-4)
    # Shuffled binary randomized response alone shows 0.069.
    assert 0.069 <= bound.epsilon_lower <= bound.epsilon <= 0.100


def test_realistic_size_against_fifty_digits():
    epsilon0, num_people, epsilon = 5.0, 20_000, 0.4
    with mpmath.workdps(50):
        odds, clone = mpmath.exp(epsilon0), 2 / (mpmath.exp(epsilon0) + 1)
        gain, loss = odds - mpmath.exp(epsilon), mpmath.exp(epsilon) * odds - 1
        total = mpmath.mpf(0)
        weight = (1 - clone) ** num_people
        for clones in range(500):
            if clones >= 150:
                first = int(mpmath.ceil(clones * loss / (gain + loss)))
                pmf = mpmath.mpf(comb(clones, first)) / mpmath.mpf(2) ** clones
                for zeros in range(first, min(clones, first + 120) + 1):
                    total += weight * pmf * (gain * zeros - loss * (clones - zeros))
                    pmf *= mpmath.mpf(clones - zeros) / (zeros + 1)
            weight *= (num_people - clones) * clone / ((clones + 1) * (1 - clone))
        exact = total / num_people
    delta = shuffled_delta(epsilon0, num_people, epsilon)
    assert exact <= delta <= exact * (1 + 2e-6)


@pytest.mark.parametrize("draws", [1, 15, 17, 300, 10**6, 10**8])
@pytest.mark.parametrize("probability", [0.5, 0.0134])
def test_binomial_probabilities(draws, probability):
    mean, spread = draws * probability, math.sqrt(draws * probability)
    successes = np.unique(np.clip(np.round(mean + spread * np.arange(-6, 7)), 0, draws))
    with mpmath.workdps(40):
        p = mpmath.mpf(probability)
        exact = [
            mpmath.binomial(draws, int(k)) * p ** int(k) * (1 - p) ** (draws - int(k))
            for k in successes
        ]
    ours = _binomial_pmf(successes, draws, probability)
    np.testing.assert_allclose(ours, np.array(exact, dtype=float), rtol=1e-10)


@settings(max_examples=10, deadline=None)
@given(
    epsilon0=st.floats(0.05, 8.0), num_people=st.integers(1, 50_000), exponent=st.floats(-10, -2)
)
def test_laws(epsilon0, num_people, exponent):
    delta = 10.0**exponent
    bound = shuffled_epsilon(epsilon0, num_people, delta)
    assert 0 <= bound.epsilon_lower <= bound.epsilon <= bound.epsilon_closed_form <= epsilon0
    assert shuffled_epsilon(epsilon0, 2 * num_people, delta).epsilon <= bound.epsilon + 1e-6
    assert shuffled_epsilon(epsilon0 * 1.1, num_people, delta).epsilon >= bound.epsilon - 1e-6
    assert shuffled_epsilon(epsilon0, num_people, 2 * delta).epsilon <= bound.epsilon


@settings(max_examples=15, deadline=None)
@given(
    epsilon=st.floats(0.005, 5.0), num_people=st.integers(1, 50_000), exponent=st.floats(-10, -2)
)
def test_calibration_is_the_inverse_from_the_safe_side(epsilon, num_people, exponent):
    delta = 10.0**exponent
    epsilon0 = calibrate_shuffling(epsilon, num_people, delta)
    assert epsilon <= epsilon0
    assert shuffled_epsilon(epsilon0, num_people, delta).epsilon <= epsilon
    assert shuffled_epsilon(epsilon0 * 1.001, num_people, delta).epsilon > epsilon
    assert shuffled_delta(epsilon0, num_people, epsilon, delta) <= delta


def test_calibration_at_its_ends():
    assert calibrate_shuffling(0.1, 400_000, 1e-6) == pytest.approx(5.0397, abs=1e-4)
    # One report is not shuffled among anything: all it gains is δ, about δ(e^ε₀+1) in e^ε₀.
    alone = calibrate_shuffling(1.0, 1, 1e-6)
    assert math.exp(alone) - math.e == pytest.approx(1e-6 * (math.e + 1), rel=0.2)
    assert 0 < calibrate_shuffling(0.0, 1000, 1e-6) < 1e-3
    assert calibrate_shuffling(39.9, 10, 0.5) == 40.0
    assert calibrate_shuffling(40.0, 3, 1e-6) == 40.0


@pytest.mark.parametrize("law", [2.0, ReportLaw.of_subsets(2.0, 12, 100)])
def test_the_smallest_delta_leaves_epsilon0(law):
    assert shuffled_epsilon(law, 50, 1e-300).epsilon == 2.0


def test_closed_form_condition():
    assert shuffled_epsilon(5.0, 1000, 1e-6).epsilon_closed_form == 5.0
    assert Fraction(shuffled_epsilon(0.0, 10, 1e-6).epsilon) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shuffled_epsilon(-1.0, 10, 1e-6), "epsilon0 is -1.0"),
        (lambda: shuffled_epsilon(50.0, 10, 1e-6), "above 40 shuffling amplifies nothing"),
        (lambda: shuffled_epsilon(1.0, 0, 1e-6), "people 0 cannot be"),
        (lambda: shuffled_epsilon(1.0, 10, 0.0), "delta is 0.0"),
        (lambda: calibrate_shuffling(-1.0, 10, 1e-6), "epsilon is -1.0"),
        (lambda: calibrate_shuffling(50.0, 10, 1e-6), "give every report epsilon"),
        (lambda: calibrate_shuffling(1.0, 0, 1e-6), "people 0 cannot be"),
        (lambda: calibrate_shuffling(1.0, 10, 1.0), "delta is 1.0"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(PrivotError, match=message):
        call()


def exact_pair_delta(epsilon0, num_people, epsilon):
    """The published pair's δ in 60 digits: (1/n) E[(e^ε₀−e^ε)N₀ + (1−e^(ε+ε₀))N₁]₊."""
    with mpmath.workdps(60):
        odds, loss = mpmath.exp(epsilon0), mpmath.exp(epsilon)
        clone = 1 / (odds + 1)
        total = mpmath.mpf(0)
        for zeros in range(num_people + 1):
            for ones in range(num_people - zeros + 1):
                value = (odds - loss) * zeros + (1 - odds * loss) * ones
                if value > 0:
                    ways = mpmath.binomial(num_people, zeros) * mpmath.binomial(
                        num_people - zeros, ones
                    )
                    rest = num_people - zeros - ones
                    total += value * ways * clone ** (zeros + ones) * (1 - 2 * clone) ** rest
        return total / num_people


@pytest.mark.parametrize("num_people", [1, 2, 5, 20])
@pytest.mark.parametrize("epsilon0", [1.829, 8.0, 16.0, 24.0, 30.0, 36.0, 40.0])
def test_no_digits_are_lost_at_large_epsilon0_or_near_it(epsilon0, num_people):
    """Where gain/loss falls below a float's resolution the bound must not fall below the truth."""
    for below in (1e-12, 1e-9, 1e-4, 0.1, 0.9, 1.0):
        epsilon = epsilon0 * (1 - below)
        bound = shuffled_delta(epsilon0, num_people, epsilon)
        exact = exact_pair_delta(epsilon0, num_people, epsilon)
        assert bound >= exact
        assert bound <= exact * (1 + 1e-5) + 1e-20


@pytest.mark.parametrize(
    ("epsilon0", "total", "num_people", "epsilon"),
    [(24.7, 5, 5, 18.0), (28.9, 4, 7, 13.3), (37.5, 91, 150, 0.23), (37.9, 4990, 10, 2.3)],
)
def test_sets_lose_no_digits_at_large_epsilon0(epsilon0, total, num_people, epsilon):
    """Where nobody else holds person 1's code, the event that somebody reports it needs nearly δ = 1."""
    law = ReportLaw.of_subsets(epsilon0, 1, total)
    other = 1 / (math.exp(epsilon0) + total - 1)
    needed = 1 - (total - 1) * other - math.exp(epsilon) * num_people * other
    assert needed > 0.99
    forms = ReportLaw.mixed([(0.5, law), (0.5, ReportLaw.of_subsets(epsilon0, 1, 2))])
    for each in (law, forms):
        assert shuffled_delta(each, num_people, epsilon) >= needed - 1e-12


@pytest.mark.parametrize(("epsilon0", "num_people"), [(24.0, 20), (30.0, 5), (36.0, 60), (40.0, 9)])
def test_the_epsilon_returned_is_proven_at_large_epsilon0(epsilon0, num_people):
    bound = shuffled_epsilon(epsilon0, num_people, 1e-6)
    assert exact_pair_delta(epsilon0, num_people, bound.epsilon) <= 1e-6


@pytest.mark.parametrize("ratio", [0.3, 0.9, 0.9991])
def test_no_lower_bound_is_above_the_upper_one_at_large_epsilon0(ratio):
    """e^ε = 10¹³ times a rounding error is no δ that anybody needs."""
    law = ReportLaw(30.28429997617355, one=7.041993697484356e-14)
    epsilon = ratio * law.epsilon0
    assert _delta_attained(law, 1000, epsilon) <= shuffled_delta(law, 1000, epsilon)


@pytest.mark.parametrize("log_left_out", [1.5, 2.0, 3.0, 5.0])
@pytest.mark.parametrize("epsilon0", [0.5, 2.0])
def test_a_window_however_narrow_leaves_the_bound_above_the_truth(epsilon0, log_left_out):
    """Counts outside of the window have probability 4e^−L at most, which is added, not forgotten."""
    resolution = 4e9 * math.exp(-log_left_out)
    for epsilon in (0.0, 0.1 * epsilon0):
        truth = shuffled_delta(epsilon0, 2000, epsilon, 1e-12)
        assert shuffled_delta(epsilon0, 2000, epsilon, resolution) >= truth


def subset_laws(size, total, epsilon0):
    """Return, by record, the law of sets of `size` of `total` codes."""
    sets = list(itertools.combinations(range(total), size))
    weights = [
        [math.exp(epsilon0) if code in each else 1.0 for each in sets] for code in range(total)
    ]
    return [[w / sum(row) for w in row] for row in weights]


@pytest.mark.parametrize(
    ("size", "total", "num_people"),
    [(1, 3, 4), (1, 5, 3), (1, 6, 3), (2, 4, 3), (2, 5, 2), (3, 5, 2), (2, 3, 3), (3, 4, 2)],
)
@pytest.mark.parametrize("epsilon0", [0.5, 1.5, 3.0])
def test_reports_of_subsets_never_need_more_than_their_own_law(size, total, num_people, epsilon0):
    """All that others may hold, enumerated; and the law is tighter than that of any mechanism."""
    laws = subset_laws(size, total, epsilon0)
    own, worst = ReportLaw.of_subsets(epsilon0, size, total), ReportLaw.worst(epsilon0)
    assert own.neither == pytest.approx(
        1 - (math.exp(epsilon0) + 1) * own.one - math.exp(epsilon0) * own.both, abs=1e-12
    )
    for epsilon in (0.0, 0.1 * epsilon0, 0.4 * epsilon0, 0.8 * epsilon0):
        bound = shuffled_delta(own, num_people, epsilon)
        assert bound <= shuffled_delta(worst, num_people, epsilon) * (1 + 1e-5)
        for others in itertools.combinations_with_replacement(range(min(total, 4)), num_people - 1):
            rest = [laws[code] for code in others]
            pair = (shuffled_counts([laws[code], *rest]) for code in (0, 1))
            assert hockey_stick(*pair, epsilon) <= bound
        attained = _delta_attained(own, num_people, epsilon)
        assert attained <= bound


@pytest.mark.parametrize(("supported", "total"), [(2, 6), (3, 5), (4, 5)])
@pytest.mark.parametrize("epsilon0", [0.5, 2.0])
def test_windows_never_need_more_than_their_own_law(supported, total, epsilon0):
    """Windows on a circle, which overlap for some records: the bound is that of the farthest two."""
    odds, people = math.exp(epsilon0), 3
    laws = []
    for record in range(total):
        inside = {(record + step) % total for step in range(supported)}
        row = [odds if place in inside else 1.0 for place in range(total)]
        laws.append([w / sum(row) for w in row])
    for epsilon in (0.0, 0.2 * epsilon0, 0.7 * epsilon0):
        bound = shuffled_delta(ReportLaw.of_sets(epsilon0, supported, total), people, epsilon)
        for second in range(1, total):
            for others in itertools.combinations_with_replacement(range(total), people - 1):
                rest = [laws[place] for place in others]
                pair = (shuffled_counts([laws[place], *rest]) for place in (0, second))
                assert hockey_stick(*pair, epsilon) <= bound


def test_forms_that_a_public_coin_chooses_never_need_more_than_their_mixture():
    first, second = (subset_laws(1, total, 2.0) for total in (3, 4))
    own = ReportLaw.mixed(
        [(0.25, ReportLaw.of_sets(2.0, 1, 3)), (0.75, ReportLaw.of_sets(2.0, 1, 4))]
    )
    smaller = subset_laws(1, 4, 1.2)
    mixed = ReportLaw.mixed(
        [(0.25, ReportLaw.of_sets(2.0, 1, 3)), (0.75, ReportLaw.of_sets(1.2, 1, 4))]
    )
    for law, wider in ((own, second), (mixed, smaller)):
        laws = [
            [0.25 * p for p in row] + [0.75 * p for p in other]
            for row, other in zip(first, wider, strict=False)
        ]
        for epsilon in (0.0, 0.3, 1.0):
            bound = shuffled_delta(law, 3, epsilon)
            for others in itertools.combinations_with_replacement(range(3), 2):
                rest = [laws[code] for code in others]
                pair = (shuffled_counts([laws[code], *rest]) for code in (0, 1))
                assert hockey_stick(*pair, epsilon) <= bound


@pytest.mark.parametrize("epsilon0", [4.37, 8.45])
def test_the_bound_of_windows_is_nearly_attained(epsilon0):
    """At n = 200 000, of windows of some per cent of the area: within a hundredth of what is needed."""
    law = ReportLaw.of_sets(epsilon0, supported=22, total=1000)
    bound = shuffled_epsilon(law, 200_000, 1e-6)
    assert bound.epsilon <= 1.01 * bound.epsilon_lower
    assert bound.epsilon < shuffled_epsilon(epsilon0, 200_000, 1e-6).epsilon


@pytest.mark.parametrize("delta", [1e-12, 1e-20])
def test_a_law_never_needs_more_than_that_of_any_mechanism_however_small_delta_is(delta):
    law = ReportLaw.of_sets(8.0, 3, 100)
    own, worst = (shuffled_epsilon(each, 200_000, delta).epsilon for each in (law, 8.0))
    assert own <= worst * (1 + 1e-6)


def test_what_is_no_number_proves_nothing():
    assert _narrow(lambda e: math.nan if e < 0.5 else 1e-9, 0.0, 1.0, 1e-6)[1] >= 0.5


@pytest.mark.parametrize(("epsilon0", "num_people"), [(1.0, 12), (3.0, 12)])
def test_batches_of_the_same_people_compose_as_their_pair_does(epsilon0, num_people):
    """The published pair, drawn twice, by enumeration: never more, and hardly less."""
    laws = [
        {(one, two): p * q for one, p in law.items() for two, q in law.items()}
        for law in clone_pair(epsilon0, num_people)
    ]
    for delta in (1e-2, 1e-4):
        epsilon = composed_shuffled_epsilon(epsilon0, num_people, delta, batches=2)
        assert hockey_stick(*laws, epsilon) <= delta
        assert hockey_stick(*laws, 0.97 * epsilon) > delta


def test_more_batches_cost_about_their_root():
    one = shuffled_epsilon(4.0, 50_000, 1e-6).epsilon
    many = composed_shuffled_epsilon(4.0, 50_000, 1e-6, batches=25)
    assert 5 * one < many < 6.5 * one
    assert composed_shuffled_epsilon(4.0, 50_000, 1e-6, batches=1) == one
    assert composed_shuffled_epsilon(0.0, 50_000, 1e-6, batches=9) == 0.0
    # A batch's share of a tiny δ is small, or below all that are computed with.
    assert one < composed_shuffled_epsilon(4.0, 50_000, 1e-299, batches=4) < 16.0
    assert composed_shuffled_epsilon(4.0, 50_000, 1e-299, batches=11) == 44.0
    with pytest.raises(PrivotError, match="batches 0 cannot be"):
        composed_shuffled_epsilon(4.0, 50_000, 1e-6, batches=0)


def together(*laws):
    """Return the law of independent outcomes, one of each."""
    joint = {(): 1.0}
    for law in laws:
        joint = {(*a, b): p * q for a, p in joint.items() for b, q in law.items()}
    return joint


def least_epsilon(first, second, delta):
    """Return ε at which the δ between two laws falls to `delta`, from below."""
    broken, proven = 0.0, 10.0
    for _ in range(30):
        middle = (broken + proven) / 2
        kept = hockey_stick(first, second, middle) <= delta
        broken, proven = (broken, middle) if kept else (middle, proven)
    return broken


@pytest.mark.parametrize(("epsilon0", "num_people"), [(1.0, 24), (2.0, 36), (3.0, 30)])
@pytest.mark.parametrize("delta", [1e-3, 1e-5])
def test_two_batches_of_randomized_response_need_no_more_and_hardly_less(
    epsilon0, num_people, delta
):
    """All that others may hold, by enumeration of both batches together; the second may be larger."""
    first, second = subset_laws(1, 2, epsilon0)
    law = ReportLaw.of_subsets(epsilon0, 1, 2)
    epsilon = composed_shuffled_epsilon(law, num_people, delta, batches=2)
    exact = []
    for ones in (0, num_people // 2, num_people - 1):
        for more in (0, 5):
            pair = []
            for own in (first, second):
                rest = [second] * ones + [first] * (num_people - 1 - ones)
                batches = ([own, *rest], [own, *rest, *[first] * more])
                pair.append(together(*map(shuffled_counts, batches)))
            exact.append(least_epsilon(*pair, delta))
    assert max(exact) <= epsilon <= 1.1 * max(exact)


@pytest.mark.parametrize("law", [3.0, ReportLaw.of_sets(3.0, 5, 100)])
def test_composition_grows_with_batches_falls_with_people_and_is_below_the_sum(law):
    sizes = [200, 1000, 5000]
    found = np.array(
        [
            [composed_shuffled_epsilon(law, people, 1e-6, batches) for batches in (1, 2, 9)]
            for people in sizes
        ]
    )
    assert (np.diff(found, axis=1) > 0).all()
    assert (np.diff(found, axis=0) < 0).all()
    for row, people in zip(found, sizes, strict=True):
        for epsilon, batches in zip(row, (1, 2, 9), strict=True):
            share = shuffled_epsilon(law, people, 1e-6 / batches).epsilon
            assert epsilon <= batches * share * (1 + 1e-12)


def test_of_few_people_the_sum_is_what_holds():
    """Batches that hide nobody compose as local reports do."""
    assert composed_shuffled_epsilon(1.0, 1, 1e-9, batches=7) <= 7.0


def test_to_know_more_of_reports_never_makes_the_epsilon_of_all_batches_larger(monkeypatch):
    """The grid of losses ends where they are negligible by the bound that fills it."""
    monkeypatch.setattr(shuffling, "_LOSSES", 100)  # coarser, and so quicker
    law = ReportLaw.of_subsets(1.0, 2, 6)
    less = replace(law, one_form=False)
    epsilons = [composed_shuffled_epsilon(each, 40, 1e-3, batches=2) for each in (law, less)]
    assert 0 < epsilons[0] <= epsilons[1]


def test_larger_batches_have_a_smaller_bound_at_every_epsilon():
    """Why the smallest of several batches counts for all."""
    law = ReportLaw.of_subsets(2.0, 2, 7)
    for epsilon in (0.0, 0.1, 0.4, 1.0, 1.9):
        deltas = [shuffled_delta(law, people, epsilon) for people in (1, 2, 3, 10, 50, 51, 400)]
        assert (np.diff(deltas) <= 1e-15).all()


@pytest.mark.parametrize(
    ("size", "total", "num_people"),
    [(1, 2, 6), (1, 2, 40), (2, 5, 4), (2, 6, 3), (2, 4, 4), (3, 5, 3)],
)
@pytest.mark.parametrize("epsilon0", [0.5, 1.0, 2.0, 4.0])
def test_what_others_may_hold_never_exceeds_the_bound_by_labels(size, total, num_people, epsilon0):
    """All data sets of a few people, in both orders, at many ε, against these bounds alone."""
    laws = subset_laws(size, total, epsilon0)
    own = ReportLaw.of_subsets(epsilon0, size, total)
    epsilons = [ratio * epsilon0 for ratio in (0.0, 0.02, 0.1, 0.3, 0.6, 0.9)]
    bounds = [_labeled_delta(own, num_people, epsilon) for epsilon in epsilons]
    if own.third is not None:
        of_few = [_delta_of_few(own, num_people, epsilon) for epsilon in epsilons]
        bounds = list(map(min, bounds, of_few))
    assert min(bounds) > 0
    for others in itertools.combinations_with_replacement(range(min(total, 4)), num_people - 1):
        rest = [laws[code] for code in others]
        pair = [shuffled_counts([laws[code], *rest]) for code in (0, 1)]
        for epsilon, bound in zip(epsilons, bounds, strict=True):
            assert hockey_stick(*pair, epsilon) <= bound


@pytest.mark.parametrize(
    ("epsilon0", "size", "total", "num_people"),
    [(1.0, 2, 6, 14), (0.5, 38, 100, 12), (2.0, 12, 100, 14)],
)
def test_others_who_all_hold_one_record_need_no_more_than_the_bound_of_few(
    epsilon0, size, total, num_people
):
    """The δ of n draws of Z from the law of that record, by all numbers of reports of a kind."""
    law, odds = ReportLaw.of_subsets(epsilon0, size, total), math.exp(epsilon0)
    # Kinds of reports: supported by record 0, by record 1, by the others' record, and their number.
    kinds = [
        (zero, one, other, comb(total - 3, size - zero - one - other))
        for zero, one, other in itertools.product((0, 1), repeat=3)
        if 0 <= size - zero - one - other <= total - 3
    ]
    weight = sum(number * odds**other for *_, other, number in kinds)
    for epsilon in (0.1 * epsilon0, 0.4 * epsilon0):
        bound = _delta_of_few(law, num_people, epsilon)
        for held in (0, 1, 2):
            laws: dict[float, float] = {}
            for *records, number in kinds:
                ratio = odds ** records[held]
                z = (odds ** records[0] - math.exp(epsilon) * odds ** records[1]) / ratio
                laws[z] = laws.get(z, 0.0) + number * ratio / weight
            exact = 0.0
            for counts in compositions(num_people, len(laws)):
                total_z = sum(z * c for z, c in zip(laws, counts, strict=True))
                if total_z > 0:
                    ways = math.factorial(num_people)
                    for p, c in zip(laws.values(), counts, strict=True):
                        ways *= p**c / math.factorial(c)
                    exact += ways * total_z / num_people
            assert exact <= bound


@pytest.mark.parametrize(("epsilon0", "size", "total"), [(1.0, 2, 4), (2.0, 12, 100), (0.5, 2, 5)])
@pytest.mark.parametrize(("ratio", "slack"), [(0.2, 1.12), (0.7, 1.5)])  # chances are rounded
def test_the_bound_of_few_is_its_theorem_by_all_that_others_hold(
    epsilon0, size, total, ratio, slack
):
    """Every number of holders of either record, and everybody who may report before the first by ω."""
    law, odds = ReportLaw.of_subsets(epsilon0, size, total), math.exp(epsilon0)
    share = (size - 1) / (total - 2)
    epsilon, others = ratio * epsilon0, 6
    gain, loss = odds - math.exp(epsilon), math.exp(epsilon) * odds - 1
    rare = {-math.expm1(epsilon) * odds: law.both, -math.expm1(epsilon): law.neither}
    kinds = []
    for hidden, shown in ((1.0, 0.0), (0.0, 1.0), (share, share)):  # of gains, and of losses
        kind = {gain: law.one * (1 - hidden), gain / odds: law.one * odds * hidden}
        kind |= {-loss: law.one * (1 - shown), -loss / odds: law.one * odds * shown} | rare
        kinds.append(kind | {0.0: 1 - sum(kind.values())})

    @cache
    def mean_excess(*holders):
        sums = {0.0: 1.0}
        for kind in (
            kind for kind, number in zip(kinds, holders, strict=True) for _ in range(number)
        ):
            longer: dict[float, float] = {}
            for one, p in sums.items():
                for more, q in kind.items():
                    key = round(one + more, 9)
                    longer[key] = longer.get(key, 0.0) + p * q
            sums = longer
        return sum(p * max(z, 0.0) for z, p in sums.items())

    gamma, worst = 2 * law.one + law.both + law.neither, 0.0
    for holders in compositions(others, 3):
        delta = (1 - gamma) ** others * law.one * gain
        for left in range(
            1, others + 1
        ):  # these come after the first who reports by ω, and he himself
            for stay in compositions(left, 3):
                ways = math.prod(map(comb, holders, stay)) / comb(others, left)
                delta += gamma * (1 - gamma) ** (others - left) * ways * mean_excess(*stay) / left
        worst = max(worst, delta)
    assert worst <= _delta_of_few(law, others + 1, epsilon) <= slack * worst


def compositions(total, parts):
    """Return all ways to write `total` as an ordered sum of `parts` counts."""
    if parts == 1:
        return [(total,)]
    return [
        (first, *rest)
        for first in range(total + 1)
        for rest in compositions(total - first, parts - 1)
    ]


@pytest.mark.parametrize(("epsilon0", "size", "total"), [(0.5, 38, 100), (1.0, 27, 100)])
def test_of_a_hundred_people_sets_need_nearly_what_is_printed(epsilon0, size, total):
    """An event of a data set whose others all hold a third record has more than δ at a little less ε."""
    law = ReportLaw.of_subsets(epsilon0, size, total)
    printed = shuffled_epsilon(law, 100, 1e-6).epsilon
    assert attained_delta(law, (size, total), 100, printed, "third") < 1e-6
    assert attained_delta(law, (size, total), 100, printed / 1.05, "third") > 1e-6


def test_forms_in_which_both_records_or_others_agree_never_exceed_the_bound_by_labels():
    """A coin chooses one of two forms of sets; records are pairs of codes, equal in some forms."""
    first, second = subset_laws(2, 5, 1.0), subset_laws(1, 2, 1.0)
    own = ReportLaw.mixed(
        [(0.6, ReportLaw.of_subsets(1.0, 2, 5)), (0.4, ReportLaw.of_subsets(1.0, 1, 2))]
    )
    records = list(itertools.product(range(4), range(2)))
    laws = {(a, b): [0.6 * p for p in first[a]] + [0.4 * p for p in second[b]] for a, b in records}
    bounds = {epsilon: _labeled_delta(own, 3, epsilon) for epsilon in (0.0, 0.1, 0.4, 0.8)}
    for others in itertools.combinations_with_replacement(records, 2):
        rest = [laws[each] for each in others]
        for other in ((1, 1), (0, 1), (1, 0)):
            pair = [shuffled_counts([laws[each], *rest]) for each in ((0, 0), other)]
            for epsilon, bound in bounds.items():
                assert hockey_stick(*pair, epsilon) <= bound


@pytest.mark.parametrize(("epsilon0", "num_people"), [(1.0, 1000), (3.0, 3000)])
def test_the_bound_of_binary_randomized_response_is_nearly_attained(epsilon0, num_people):
    """Where all others hold one of the two, by a binomial law: within a fiftieth, a tenth before."""
    law = ReportLaw.of_subsets(epsilon0, 1, 2)
    epsilon = shuffled_epsilon(law, num_people, 1e-6).epsilon
    ones, odds = np.arange(num_people), math.exp(epsilon0)
    others = binom(num_people - 1, law.one)

    def attained(epsilon):
        """Return δ of the best event "at most so many ones", in the order of records 1 and 0."""
        one_less = others.pmf(ones) * (odds * math.exp(epsilon) - 1) * law.one
        return np.max(one_less - math.expm1(epsilon) * others.cdf(ones))

    assert attained(epsilon) <= 1e-6 < attained(epsilon / 1.02)
    assert epsilon < 0.95 * shuffled_epsilon(epsilon0, num_people, 1e-6).epsilon


@pytest.mark.parametrize("delta", [1e-1, 1e-3])
def test_two_batches_of_three_categories_need_no_more_and_hardly_less(delta):
    laws = subset_laws(1, 3, 1.0)
    exact = []
    for others in (0, 2):
        rest = [laws[others]] * 11
        pair = [shuffled_counts([laws[code], *rest]) for code in (0, 1)]
        exact.append(least_epsilon(*(together(each, each) for each in pair), delta))
    epsilon = composed_shuffled_epsilon(ReportLaw.of_subsets(1.0, 1, 3), 12, delta, batches=2)
    assert max(exact) <= epsilon <= 1.05 * max(exact)


def ones_of_two(epsilon0, num_people, ones):
    """Return the laws of the number of ones if `ones` others hold 1, and person 1 holds 0, or 1."""
    flip = 1 / (math.exp(epsilon0) + 1)
    zeros = num_people - 1 - ones
    others = np.convolve(
        binom.pmf(np.arange(ones + 1), ones, 1 - flip), binom.pmf(np.arange(zeros + 1), zeros, flip)
    )
    return [np.convolve(others, each) for each in ([1 - flip, flip], [flip, 1 - flip])]


@pytest.mark.parametrize("num_people", [1, 2, 5, 40, 130])
@pytest.mark.parametrize("epsilon0", [0.2, 1.0, 3.0, 8.0])
def test_two_categories_need_what_the_worst_of_all_data_sets_does(num_people, epsilon0):
    """Up to 100 people exactly; of more, some two per cent of the reports are given away."""
    law = ReportLaw.of_subsets(epsilon0, 1, 2)
    pairs = [ones_of_two(epsilon0, num_people, ones) for ones in range(num_people)]
    for epsilon in (epsilon0 * ratio for ratio in (0.0, 0.02, 0.1, 0.4, 0.9, 0.999)):
        worst, fewer = 0.0, shuffled_delta(law, max(1, round(0.99 * num_people)), epsilon)
        for first, second in pairs:
            for p, q in ((first, second), (second, first)):
                worst = max(worst, np.maximum(p - math.exp(epsilon) * q, 0).sum())
        bound = shuffled_delta(law, num_people, epsilon)
        assert worst * (1 - 1e-9) - 1e-15 <= bound
        assert bound <= (fewer if num_people > 100 else worst * (1 + 2e-6)) + 1e-15


@pytest.mark.parametrize("below", [1e-9, 1e-4, 0.1, 0.9])
@pytest.mark.parametrize("epsilon0", [8.0, 24.0, 40.0])
def test_two_categories_lose_no_digits_at_large_epsilon0(epsilon0, below):
    epsilon, people = epsilon0 * (1 - below), 6
    with mpmath.workdps(60):
        flip, worst = 1 / (mpmath.exp(epsilon0) + 1), mpmath.mpf(0)
        for others in itertools.combinations_with_replacement((flip, 1 - flip), people - 1):
            law = [mpmath.mpf(1)]
            for own in others:
                law = [a * (1 - own) + b * own for a, b in zip([*law, 0], [0, *law], strict=True)]
            pairs = list(zip([*law, 0], [0, *law], strict=True))
            zero, one = ([a * (1 - p) + b * p for a, b in pairs] for p in (flip, 1 - flip))
            excess = (p - mpmath.exp(epsilon) * q for p, q in zip(zero, one, strict=True))
            worst = max(worst, mpmath.fsum(max(each, 0) for each in excess))
    bound = shuffled_delta(ReportLaw.of_subsets(epsilon0, 1, 2), people, epsilon)
    assert worst <= bound <= worst * (1 + 1e-5) + 1e-18


def test_the_exact_bound_of_two_categories_is_of_one_form_alone():
    """Others may hold 0 in one form and 1 in another, which the theorem does not cover."""
    law = ReportLaw.of_subsets(1.0, 1, 2)
    assert law.one_form
    assert ReportLaw.mixed([(1.0, law)]) == law
    for other in (law, ReportLaw.of_subsets(1.0, 2, 5), ReportLaw.of_subsets(0.5, 1, 2)):
        mixture = ReportLaw.mixed([(0.5, law), (0.5, other)])
        assert not mixture.one_form
        assert shuffled_delta(mixture, 60, 0.1) > shuffled_delta(law, 60, 0.1) * (1 + 1e-5)
