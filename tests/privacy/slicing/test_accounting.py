"""The setting of a run: the table of noises, safe calibration, capacities, refusals."""

import warnings

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as oracle
from scipy import stats

from privot.core.errors import PrivotError
from privot.privacy import ApproximateDP, guarantee_from_dict
from privot.privacy.slice_accounting import SlicedAccounting

MNIST = {"dim": 784, "num_projections": 1000, "records": 60_000, "batch_size": 100}
SMALL = {"dim": 40, "num_projections": 10, "records": 2000, "batch_size": 50}
POISSON = {"sampling": "padded_poisson", "neighboring": "zero_out"}
STEPS, DELTA = 60_000, 1e-5


@pytest.mark.parametrize(
    ("setting", "stddev"),
    [
        (MNIST | {"radius": 0.5}, 0.748),
        (MNIST | POISSON | {"radius": 1.0}, 0.664),
        (MNIST | {"radius": 0.5, "non_negative": True}, 0.529),
        # Label ⊗ image.
        (MNIST | {"dim": 7840, "radius": 0.5}, 0.2365),
        (MNIST | {"dim": 7840, "num_projections": 200, "radius": 0.5}, 0.1065),
    ],
)
def test_table_of_noises(setting, stddev):
    got = SlicedAccounting(**setting).calibrate(10.0, DELTA, STEPS)
    assert got == pytest.approx(stddev, abs=5.1e-4)


def test_the_published_noise_is_worth_more_than_was_claimed():
    assert SlicedAccounting(**MNIST, radius=0.5).epsilon(2.94, STEPS, DELTA) < 1.3755


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "epsilon", "stddev"),
    [
        (MNIST | {"radius": 0.5}, 10.0, 0.6954),
        (MNIST | {"radius": 0.5}, 1.0, 2.1806),
        (MNIST | POISSON | {"radius": 1.0}, 10.0, 0.6454),
        (MNIST | {"radius": 0.5, "non_negative": True}, 10.0, 0.4917),
    ],
)
def test_privacy_loss_distributions_need_less(setting, epsilon, stddev):
    accounting = SlicedAccounting(**setting)
    tighter = accounting.calibrate(epsilon, DELTA, STEPS, "pld")
    assert tighter == pytest.approx(stddev, rel=2e-3)
    assert tighter < 0.98 * accounting.calibrate(epsilon, DELTA, STEPS)
    assert accounting.epsilon(tighter, STEPS, DELTA, "pld") <= epsilon


@pytest.mark.parametrize(
    "setting",
    [
        SMALL,
        SMALL | POISSON,
        SMALL | {"orthonormal": True},
        pytest.param(SMALL | {"grid": 0.01}, marks=pytest.mark.slow),
        SMALL | {"sampling": "none", "batch_size": 2000},
        SMALL | POISSON | {"batch_size": 2000},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["rdp", "pld"])
def test_calibration_is_safe_and_tight(setting, method):
    accounting = SlicedAccounting(**setting)
    stddev = accounting.calibrate(3.0, 1e-5, 200, method)
    slack = 1e-8 if method == "rdp" else 1e-4
    assert 3.0 * (1 - 20 * slack) <= accounting.epsilon(stddev, 200, 1e-5, method) <= 3.0
    assert accounting.epsilon(stddev * (1 - 2 * slack), 200, 1e-5, method) > 3.0
    if method == "pld":
        assert stddev < accounting.calibrate(3.0, 1e-5, 200)


@pytest.mark.parametrize("method", ["rdp", "pld"])
def test_epsilon_is_monotone(method):
    accounting = SlicedAccounting(**SMALL)
    base = accounting.epsilon(1.0, 100, 1e-6, method)
    assert accounting.epsilon(1.1, 100, 1e-6, method) < base
    assert accounting.epsilon(1.0, 110, 1e-6, method) > base
    assert accounting.epsilon(1.0, 100, 1e-7, method) > base
    for change in ({"batch_size": 55}, {"num_projections": 11}, {"dim": 36}, {"radius": 1.1}):
        changed = SlicedAccounting(**(SMALL | change))
        assert changed.epsilon(1.0, 100, 1e-6, method) > base, change


def test_one_dimension_is_a_plain_gaussian_of_k_copies():
    # d = 1: k signed copies of the record; the same as one copy at √k times the radius.
    full = {"records": 100, "batch_size": 100, "sampling": "none"}
    slices = SlicedAccounting(1, 9, **full, radius=1.0)
    plain = SlicedAccounting(1, 1, **full, radius=3.0)
    for method in ("rdp", "pld"):
        assert slices.epsilon(4.0, 3, 1e-6, method) == pytest.approx(
            plain.epsilon(4.0, 3, 1e-6, method), rel=1e-9
        )


def test_padded_batches_of_one_dimension_are_those_of_dp_accounting():
    """Which counts the worse order of the pair: the other alone would promise a third of it."""
    accounting = SlicedAccounting(1, 1, records=500, batch_size=100, **POISSON)
    theirs = oracle.from_gaussian_mechanism(
        2.0, sampling_prob=0.2, value_discretization_interval=1e-3
    ).self_compose(60)
    left = 1e-5 - accounting.overflow(60, 1e-5)[0]
    ours = accounting.epsilon(2.0, 60, 1e-5, "pld")
    assert ours == pytest.approx(theirs.get_epsilon_for_delta(left), rel=2e-3)
    assert ours < accounting.epsilon(2.0, 60, 1e-5)


def test_capacity_is_the_smallest_that_keeps_its_share():
    spent, capacity = SlicedAccounting(**MNIST, **POISSON).overflow(STEPS, DELTA)
    tail = stats.binom(60_000, 1 / 600).sf
    assert capacity == 175
    assert spent == pytest.approx(STEPS * tail(175), rel=1e-6)
    assert STEPS * tail(175) <= spent <= DELTA / 40 < STEPS * tail(174)
    assert SlicedAccounting(**MNIST).overflow(STEPS, DELTA) == (0.0, 100)
    everybody = SlicedAccounting(**(SMALL | POISSON | {"batch_size": 2000}))
    assert everybody.overflow(10, 1e-6) == (0.0, 2000)


def test_overflows_are_charged():
    accounting = SlicedAccounting(**SMALL, **POISSON)
    spent, _ = accounting.overflow(100, 1e-5)
    assert 0 < spent <= 1e-5 / 40
    whole = accounting.renyi(1.0, 100).to_approximate(1e-5).epsilon
    left = accounting.renyi(1.0, 100).to_approximate(1e-5 - spent).epsilon
    assert accounting.epsilon(1.0, 100, 1e-5) == pytest.approx(left, rel=1e-12)
    assert left > whole


def test_guarantee_names_everything():
    accounting = SlicedAccounting(**SMALL, **POISSON, unit="household")
    guarantee = accounting.guarantee(2.0, 100, 1e-5)
    epsilon = accounting.epsilon(2.0, 100, 1e-5)
    assert guarantee == ApproximateDP(epsilon, 1e-5, "zero_out", "household")
    assert guarantee_from_dict(guarantee.to_dict()) == guarantee
    assert "blank" in guarantee.describe()


def test_zero_out_without_replacement_is_no_cheaper():
    replaced = SlicedAccounting(**SMALL)
    blanked = SlicedAccounting(**SMALL, neighboring="zero_out")
    assert blanked.sensitivity == replaced.sensitivity == 2.0
    assert blanked.epsilon(1.0, 50, 1e-6) == replaced.epsilon(1.0, 50, 1e-6)


def test_a_large_delta_is_warned_about():
    with pytest.warns(UserWarning, match="above one over the 2,000 records"):
        SlicedAccounting(**SMALL).epsilon(1.0, 10, 1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SlicedAccounting(**SMALL).epsilon(1.0, 10, 1e-4)


def test_steps_of_epochs():
    assert SlicedAccounting(**MNIST).steps_of(100) == 60_000
    assert SlicedAccounting(10, 1, 1000, 300).steps_of(1.0) == 4


@pytest.mark.parametrize("epsilon", [2.0, 3.0, 10.0, 17.3])
@pytest.mark.parametrize("batch_size", [37, 50])
def test_what_is_calibrated_is_kept_to_the_last_bit(epsilon, batch_size):
    accounting = SlicedAccounting(**SMALL | {"batch_size": batch_size})
    stddev = accounting.calibrate(epsilon, 1e-5, 100)
    assert accounting.epsilon(stddev, 100, 1e-5) <= epsilon


def test_huge_and_tiny_settings_give_numbers():
    for dim, k in ((2, 1), (1, 1), (10**6, 10**5), (10**6, 1)):
        accounting = SlicedAccounting(dim, k, 10**6, 100)
        stddev = accounting.calibrate(2.0, 1e-7, 1000)
        assert np.isfinite(stddev)
        assert stddev > 0


def test_tails_that_are_flat_to_the_last_bit_give_a_number():
    """A mass that rounding made negative had no logarithm."""
    accounting = SlicedAccounting(784, 100, 60_000, 100, "padded_poisson", "zero_out", radius=0.5)
    assert 0 < accounting.epsilon(2.94, 60, 1e-5, "pld") < accounting.epsilon(2.94, 60, 1e-5)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: SlicedAccounting(40, 10, 20, 50), "batch_size is 50: there are only 20 records"),
        (lambda: SlicedAccounting(40, 10, 0, 1), "records 0 cannot be"),
        (lambda: SlicedAccounting(40, 10, 5, 0), "batch_size 0 cannot be"),
        (lambda: SlicedAccounting(0, 10, 5, 1), "dim 0 cannot be"),
        (lambda: SlicedAccounting(4, 0, 5, 1), "num_projections 0 cannot be"),
        (lambda: SlicedAccounting(5, 2.5, 5, 1), "num_projections 2.5"),
        (lambda: SlicedAccounting(5, True, 5, 1), "num_projections True"),
        (lambda: SlicedAccounting(5, float("nan"), 5, 1), "num_projections nan"),
        (lambda: SlicedAccounting(5, 2.0, 5, 1), "num_projections 2.0"),
        (lambda: SlicedAccounting(4, 5, 5, 1, orthonormal=True), "can be orthonormal"),
        (lambda: SlicedAccounting(4, 5, 5, 1, "none"), "every step then sees all 5 records"),
        (lambda: SlicedAccounting(4, 5, 5, 1, "poisson"), "choose one of"),
        (lambda: SlicedAccounting(4, 5, 5, 1, "padded_poisson"), "use neighboring 'zero_out'"),
        (lambda: SlicedAccounting(4, 5, 5, 1, radius=-1.0), "radius is -1.0"),
        (lambda: SlicedAccounting(**SMALL).epsilon(0.0, 1, 1e-6), "stddev is 0.0"),
        (lambda: SlicedAccounting(**SMALL).epsilon(1.0, 0, 1e-6), "steps 0 cannot be"),
        (lambda: SlicedAccounting(**SMALL).epsilon(1.0, 1, 1.0), "delta is 1.0"),
        (lambda: SlicedAccounting(**SMALL).epsilon(1.0, 1, 0.0), "delta is 0.0"),
        (lambda: SlicedAccounting(**SMALL).epsilon(1.0, 1, 1e-6, "zcdp"), "method is 'zcdp'"),
        (lambda: SlicedAccounting(**SMALL).calibrate(0.0, 1e-6, 1), "epsilon is 0.0"),
        (lambda: SlicedAccounting(**SMALL).calibrate(1.0, 1e-6, 1, "zcdp"), "method is 'zcdp'"),
        (lambda: SlicedAccounting(**SMALL).calibrate(1e-4, 1e-6, 100), "use method 'pld'"),
        (lambda: SlicedAccounting(**SMALL).epsilon(1e-160, 1, 1e-6), "promises nothing"),
        (lambda: SlicedAccounting(**SMALL).steps_of(0.0), "epochs is 0.0"),
    ],
)
def test_refusals_name_value_and_remedy(act, message):
    with pytest.raises(PrivotError, match=message):
        act()
