"""A panel's promise holds for all sequences of values, and no smaller one does."""

import itertools
import math

import numpy as np
import pytest

from privot import PrivotError, Randomizer, Schema
from privot.privacy import ApproximateDP, PureDP
from privot.schema.schema import Promise
from privot.waves import PanelGuarantee
from privot.waves.panel import Panel
from waves.enumeration import loss, product_law, sequences

SCHEMA = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
BIT = Randomizer.calibrate(SCHEMA, epsilon=2.0, report="split")


def answer_law():
    """Log-probabilities of the answers of the device's own integers, by the true bit (2, 2)."""
    (report,) = BIT.program["split"]["reports"]
    other = int(report["draw"]["slot"], 16) / 2**64
    return np.log([[1 - other, other], [other, 1 - other]])


@pytest.mark.parametrize(
    ("window", "waves"), [(1, 8), (2, 12), (3, 12), (5, 12), (6, 12), (12, 12)]
)
def test_loss_over_all_sequences_is_within_the_promise_and_reaches_it(window, waves):
    panel = Panel("bits", window, 0, 1, "seed", waves)
    promise, answers, every = (
        BIT.panel_guarantee(panel),
        answer_law(),
        sequences(waves),
    )
    slots = {panel.slot(str(number)): str(number) for number in range(200)}
    assert len(slots) == window
    for span, stated in ((window, promise.report), (waves, promise.in_all)):
        found = []
        for person in slots.values():
            for first in range(waves - span + 1):
                due = [t for t in panel.waves_of(person) if first <= t < first + span]
                found.append(loss(product_law([answers[every[:, t]] for t in due])))
        assert max(found) <= stated.epsilon + 1e-9
        assert max(found) >= 0.999 * stated.epsilon


def test_slots_drawn_anew_for_every_window_would_break_the_promise():
    """A person in the last wave of one window and the first of the next reports twice in two waves."""
    answers, every = answer_law(), sequences(2)
    assert loss(product_law([answers[every[:, t]] for t in (0, 1)])) > 1.9 * BIT.guarantee.epsilon


def test_in_figures_and_words():
    promise = PanelGuarantee(PureDP(2.0), window=6, waves=52)
    assert (promise.report, promise.in_all) == (PureDP(2.0), PureDP(18.0))
    words = promise.describe()
    assert "at most once in any 6 consecutive waves" in words
    assert "All 52 waves together promise ε = 18 (pure)" in words
    endless = PanelGuarantee(PureDP(2.0), window=6)
    assert endless.in_all is None
    assert "without bound" in str(endless)
    assert "no end" in endless.describe()


def test_both_numbers_of_an_approximate_report_are_multiplied():
    promise = PanelGuarantee(ApproximateDP(0.5, 1e-7), window=4, waves=10)
    assert promise.in_all.epsilon == 1.5
    assert math.isclose(promise.in_all.delta, 3e-7)
    assert PanelGuarantee(PureDP(0.1), window=1, waves=10**6).in_all.epsilon >= 1e5


def test_promises_come_back_from_plain_values():
    promise = PanelGuarantee(ApproximateDP(0.5, 1e-7), window=4)
    assert PanelGuarantee.from_dict(promise.to_dict()) == promise


def test_a_curators_promise_is_no_panels():
    with pytest.raises(PrivotError, match="neighboring"):
        PanelGuarantee(PureDP(1.0, "replace_one"), 2)


@pytest.fixture(scope="module")
def shuffled():
    """Randomizer of one bit, and how many ones a batch of such bits has, as a law."""
    promise = Promise(1.0, "shuffled", delta=0.01, people=4)
    randomizer = Randomizer.calibrate(SCHEMA.model_copy(update={"promise": promise}))
    wrong = 1 / (math.exp(randomizer.guarantee.epsilon) + 1)

    def ones(bits):
        law = np.ones(1)
        for bit in bits:
            law = np.convolve(law, [wrong, 1 - wrong] if bit else [1 - wrong, wrong])
        return law

    return randomizer, ones


def test_a_window_of_batches_is_bounded_given_those_before_and_all_by_themselves(shuffled):
    """Sizes that follow earlier batches repeat them: two waves alone then show a third."""
    randomizer, ones = shuffled
    guarantee = randomizer.panel_guarantee(Panel("bits", 2, 0, 1, "seed", 4))
    assert "in any 2 consecutive waves, given those before, " in str(guarantee)

    def later_waves(bits, others, others_later):
        """Law of size and ones of wave 2, whose size is 4 + the number of ones in wave 0."""
        first, later = bits
        laws = []
        for more, chance in enumerate(ones([first, *others])):
            laws.append(chance * ones([later, *others_later, *others_later[:1] * more]))
        return laws

    def excess(law, other, epsilon):
        pairs = zip(law, other, strict=True)
        return sum(np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in pairs)

    of_window, given, of_all = [], [], []
    other_people = [(0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 1)]
    for others, others_later in itertools.product(other_people, repeat=2):
        for x, y in itertools.product(itertools.product((0, 1), repeat=2), repeat=2):
            law, other = (later_waves(z, others, list(others_later)) for z in (x, y))
            of_window.append(excess(law, other, guarantee.report.epsilon))
            of_all.append(excess(law, other, guarantee.in_all.epsilon))
            for p, q in zip(law, other, strict=True):
                given.append(excess([p / p.sum()], [q / q.sum()], guarantee.report.epsilon))
    assert max(of_window) > 0.07
    assert max(given) <= guarantee.report.delta
    assert max(of_all) <= guarantee.in_all.delta
