"""A tree of changes: one ε for all waves, over all sequences; and estimates within their errors."""

import math

import numpy as np
import pytest

from privot import PrivotError
from privot.waves import ChangeTree
from privot.wire.draws import WORDS
from waves.enumeration import loss, product_law, sequences


def answer_law(tree, level, sequences_):
    """Log-probabilities of all signs of a level, of all sequences, from the words of a device."""
    other = tree.words(level) / WORDS
    table = np.log([[1 - other, other], [0.5, 0.5], [other, 1 - other]])  # of −1, 0, 1: signs −, +
    asked = tree.differences(sequences_, level)
    return product_law([table[asked[:, index] + 1] for index in range(tree.intervals(level))])


@pytest.mark.parametrize("changes", [1, 2, 3])
@pytest.mark.parametrize("waves", [1, 5, 8, 12])
def test_loss_over_all_sequences_is_within_the_promise_and_reaches_it(waves, changes):
    if changes > waves:
        pytest.skip("more changes than waves")
    tree, every = ChangeTree(waves, changes, 2.0), sequences(waves)
    kept = (
        every if waves < 12 else sequences(waves, changes)
    )  # all others are followed as one of these
    found = [loss(answer_law(tree, level, kept)) for level in range(tree.levels)]
    assert max(found) <= 2.0 + 1e-9
    if waves >= 2 * changes:
        assert max(found) >= 0.999 * 2.0


def test_a_sequence_is_followed_until_it_has_changed_often_enough():
    values = np.array([[1, 1, 0, 0, 1, 0], [0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0]])
    assert ChangeTree(6, 2, 1.0).followed(values).tolist() == [
        [1, 1, 0, 0, 0, 0],
        [0, 0, 0, 1, 1, 0],
        [0, 0, 0, 0, 0, 0],
    ]
    every = sequences(6)
    kept = {tuple(row) for row in ChangeTree(6, 2, 1.0).followed(every).tolist()}
    assert kept == {tuple(row) for row in sequences(6, 2).tolist()}


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_device_answers_as_a_table_does_at_the_ends_of_intervals(level):
    tree = ChangeTree(7, 2, 1.0)
    values = [True, True, False, False, True, True, False]
    asked = tree.differences(np.array([values]), level)[0]
    limits = [WORDS // 2 if d == 0 else tree.words(level) for d in asked]
    at = [(index + 1) << level for index in range(tree.intervals(level))]
    for wave in range(1, 8):
        if wave not in at:
            assert tree.answer(values[:wave], level) is None
            continue
        index = at.index(wave)
        likely = -1 if asked[index] < 0 else 1
        assert tree.answer(values[:wave], level, lambda i=index: limits[i]) == likely
        assert tree.answer(values[:wave], level, lambda i=index: limits[i] - 1) == -likely


def test_signs_have_the_law_of_the_words():
    tree, people = ChangeTree(4, 2, 2.0), 40_000
    values = np.tile([1, 1, 0, 0], (people, 1))
    signs = tree.privatize(values, 0)
    keep = 1 - tree.words(0) / WORDS
    expected = np.array([keep, 0.5, 1 - keep, 0.5])
    errors = ((signs > 0).mean(axis=0) - expected) / np.sqrt(expected * (1 - expected) / people)
    assert (np.abs(errors) < 5.5).all()
    assert math.isclose(keep, 1 / (1 + math.exp(-1.0)), rel_tol=1e-9)


def test_estimates_are_as_good_as_they_say():
    tree, rng = ChangeTree(24, 2, 2.0), np.random.default_rng(0)
    begins, ends = rng.integers(0, 40, 30_000), rng.integers(20, 60, 30_000)
    time = np.arange(24)
    values = (time >= begins[:, None]) & (time < ends[:, None])
    parts = np.array_split(values, tree.levels)
    found, stderr = tree.estimate([tree.privatize(v, h) for h, v in enumerate(parts)])
    errors = (found - values.mean(axis=0)) / stderr
    assert np.abs(errors).max() < 6
    assert stderr.max() < 0.06
    assert np.abs(values.mean(axis=0) - found[::-1]).max() > 0.1  # what a wrong order would show


def test_levels_are_even():
    tree = ChangeTree(52, 1, 1.0, "seed")
    counts = np.bincount([tree.level_of(str(person)) for person in range(6000)])
    assert len(counts) == tree.levels == 6
    assert np.abs(counts - 1000).max() < 150


def test_impossible_trees_and_signs_are_refused():
    for arguments in ((0, 1, 1.0), (5, 6, 1.0), (5, 0, 1.0), (5, 1, 0.0)):
        with pytest.raises(PrivotError):
            ChangeTree(*arguments)
    tree = ChangeTree(4, 1, 1.0)
    with pytest.raises(PrivotError, match="levels"):
        tree.estimate([np.ones((3, 4), np.int8)])
    with pytest.raises(PrivotError, match="people"):
        tree.stderr([0, 1, 1])
