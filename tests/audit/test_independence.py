"""Tests of uniformity: p-values hold for honest numbers, and each way to be wrong is seen."""

import numpy as np
import pytest

from privot.audit.statistics import (
    Stream,
    agreement,
    dependence,
    repeats,
    row_keys,
    serial_dependence,
    uniformity,
)

COUNT = 20_000


def everywhere(numbers):
    return np.ones(numbers.shape, bool)


TESTS = {
    "uniformity": uniformity,
    "dependence": lambda u: dependence(u, everywhere(u)),
    "serial_dependence": lambda u: serial_dependence(u, everywhere(u)),
    "agreement": lambda u: agreement(u, u[::-1], everywhere(u)),
}


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
@pytest.mark.parametrize("count", [3, 40, 1000])
def test_p_values_are_below_a_level_no_more_often_than_it_says(test, count):
    if count % 2:
        count += 1
    rng = np.random.default_rng(0)
    p_values = np.array([test(rng.random((count, 3))) for _ in range(400)])
    for level in (0.3, 0.05, 0.01):
        # More than that of 400 has probability below 1e-7 at each level (binomial tail); seeded.
        assert (p_values <= level).sum() <= 400 * level + 5 * np.sqrt(400 * level) + 4


def clipped(u):
    return np.clip(u, 0.01, 0.99)


def one_atom(u):
    return np.where(u < 0.01, 0.5, u)


@pytest.mark.parametrize("bend", [np.sqrt, clipped, one_atom, lambda u: u * 0.99], ids=range(4))
def test_another_law_does_not_fit(bend):
    rng = np.random.default_rng(0)
    numbers = rng.random((COUNT, 5))
    numbers[:, 3] = bend(numbers[:, 3])
    assert uniformity(numbers) < 1e-6


def test_one_number_of_a_common_size_and_a_sign_of_its_own_depends():
    rng = np.random.default_rng(0)
    first, sign = rng.random(COUNT), rng.random(COUNT) < 0.5
    numbers = np.stack([first, np.where(sign, first, 1 - first)], axis=1)
    assert abs(np.corrcoef(numbers.T)[0, 1]) < 0.05
    assert dependence(numbers, everywhere(numbers)) < 1e-6


@pytest.mark.parametrize("lag", [1, 3, 64, 4096])
def test_people_at_a_distance_who_share_noise_are_seen(lag):
    rng = np.random.default_rng(0)
    numbers = rng.random((COUNT, 2))
    pairs = numbers[: COUNT // (2 * lag) * 2 * lag, 1].reshape(-1, 2, lag)
    pairs[:, 1] = pairs[:, 0]
    assert serial_dependence(numbers, everywhere(numbers)) < 1e-6


def test_absent_reports_tell_nothing():
    rng = np.random.default_rng(0)
    numbers = rng.random((COUNT, 2))
    numbers[: COUNT // 2, 1] = numbers[: COUNT // 2, 0]
    present = everywhere(numbers)
    present[: COUNT // 2, 1] = False
    assert dependence(numbers, present) > 1e-3


def drawn(rng, count, values):
    keys = row_keys(rng.integers(0, values, (count, 1)))
    return Stream(keys, np.full(count, np.log2(values)))


@pytest.mark.parametrize(("values", "offset"), [(2, 500), (256, 3), (2**40, 17)])
def test_a_stretch_in_common_is_found_wherever_it_is(values, offset):
    rng = np.random.default_rng(0)
    first, second = drawn(rng, 4096, values), drawn(rng, 4096, values)
    assert repeats([first, second]) == 1.0
    keys = second.keys.copy()
    keys[offset : offset + 1024] = first.keys[:1024]
    assert repeats([first, Stream(keys, second.bits)]) < 1e-9


def test_reports_that_tell_next_to_nothing_are_not_judged():
    keys = np.zeros(1000, np.uint64)
    streams = [Stream(keys, np.full(1000, 1e-4))] * 2
    assert repeats(streams) is None
