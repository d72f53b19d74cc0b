"""A tree's answers on a device: one sequence, one draw of each, whatever clocks, kills and values do."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from privot import PrivotError
from privot.waves import (
    Answer,
    ChangeTree,
    DeviceLedger,
    Limit,
    LimitReached,
    NotDue,
    Panel,
    TreeLedger,
    signs_of,
)
from privot.wire.draws import WORDS
from privot_benchmarks import device_ledgers
from waves.enumeration import loss, sequences

HALF = WORDS // 2


def panel_of(waves, name="bits"):
    return Panel(name, window=waves, start=0, length=3600, seed="public", waves=waves)


def person_of(tree, level):
    return next(str(n) for n in range(1000) if tree.level_of(str(n)) == level)


def opened(folder, tree, level=0, **how):
    device = DeviceLedger(folder / "ledger", person_of(tree, level), **{"now": -1.0, **how})
    return TreeLedger(device, tree, panel_of(tree.waves))


def tell(held, wave, value, word=lambda: WORDS - 1):
    return held.tell(value, now=3600.0 * wave, word=word)


def law(folder, tree, level, asked):
    """Log-probabilities of all that is handed out, of every sequence told in these waves.

    A device's words decide by two limits: one word of each part stands for all in it.
    """
    own = tree.words(level)
    parts = [(0, own), (own, HALF - own), (HALF, WORDS - HALF)]
    every, found = sequences(tree.waves), []
    number = itertools.count()
    for values in every:
        outputs = dict.fromkeys(itertools.product((-1, 1), repeat=tree.intervals(level)), 0.0)
        for drawn in itertools.product(parts, repeat=tree.intervals(level)):
            place = folder / str(next(number))
            place.mkdir()
            held, words = opened(place, tree, level), iter(word for word, _ in drawn)
            for wave in asked:
                # In a wave that was told before, another value changes nothing.
                tell(held, wave, bool(values[wave]), partial(next, words))
                tell(opened(place, tree, level), wave, not values[wave])
            signs = tuple(each.sign for each in held.answers())
            outputs[signs] += np.prod([share / WORDS for _, share in drawn])
        found.append(list(outputs.values()))
    with np.errstate(divide="ignore"):
        return every, np.log(found)


@pytest.fixture
def unflushed(monkeypatch):
    """Thousands of ledgers whose loss nobody would mind."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


@pytest.mark.parametrize(
    ("waves", "changes", "level", "asked"),
    [
        (3, 1, 0, (0, 1, 2)),
        (3, 2, 0, (0, 1, 2)),
        (4, 1, 1, (0, 1, 2, 3)),
        (4, 1, 1, (1, 0, 3)),
        (3, 1, 0, (1, 0, 2)),
    ],
)
def test_loss_of_what_is_handed_out_is_the_promise(
    tmp_path, unflushed, waves, changes, level, asked
):
    tree = ChangeTree(waves, changes, 2.0)
    every, logs = law(tmp_path, tree, level, asked)
    assert np.allclose(np.exp(logs).sum(axis=1), 1.0)
    found = loss(logs)
    assert found <= 2.0 + 1e-9
    if len(asked) == waves and waves >= 2 * changes:
        assert found >= 0.999 * 2.0
        # Whoever followed all changes would lose more: the bound is that of c changes.
        assert len({tuple(row) for row in logs.round(9).tolist()}) < len(every)


def test_asked_again_it_gives_the_same_bytes_whatever_the_value_is_now(tmp_path):
    tree = ChangeTree(8, 2, 1.0)
    held, sent = opened(tmp_path, tree), []
    for wave in range(8):
        sent = [each.to_bytes() for each in tell(held, wave, wave % 2 == 0)]
        assert len(sent) == wave + 1
        for value in (True, False) * 3:
            again = opened(tmp_path, tree).tell(value, now=3600.0 * wave + 1800)
            assert [each.to_bytes() for each in again] == sent
    assert len({each.id for each in held.answers()}) == 8
    assert [Answer.from_bytes(each) for each in sent] == held.answers()


def test_change_c_plus_one_is_not_reported(tmp_path):
    tree = ChangeTree(6, 2, 1.0)
    held = opened(tmp_path, tree)
    values = [True, False, True, True, False, True]
    signs = [tell(held, wave, value)[-1].sign for wave, value in enumerate(values)]
    limits = []
    for wave in range(6):  # a word below the limit turns a sign: half of all where nothing changed
        (tmp_path / f"{wave}").mkdir()
        turned = opened(tmp_path / f"{wave}", tree)
        for earlier in range(wave + 1):
            told = tell(turned, earlier, values[earlier], lambda: tree.words(0))
        limits.append(told[-1].sign != signs[wave])
    assert signs[:2] == [1, -1]
    assert limits == [False, False, True, True, True, True]


def test_a_wave_in_which_nothing_was_told_is_as_the_one_before(tmp_path):
    tree = ChangeTree(8, 2, 1.0)
    held = opened(tmp_path, tree)
    tell(held, 0, True)
    found = tell(held, 5, False, lambda: tree.words(0))
    assert [each.interval for each in found] == list(range(6))
    # Only in wave 5 the bit has changed: no sign is turned there, and every fair coin is.
    assert [each.sign for each in found] == [1, -1, -1, -1, -1, -1]
    assert [each.sign for each in tell(held, 6, False)][-1] == 1


def test_a_clock_that_was_set_back_or_forward_draws_nothing_twice(tmp_path):
    tree = ChangeTree(8, 2, 1.0)
    held = opened(tmp_path, tree, level=1)
    first = tell(held, 4, True)
    assert [each.interval for each in first] == [0, 1]
    assert all(tell(held, wave, False) == first for wave in (0, 1, 3, 4))
    last = tell(held, 7, True)
    assert last[:2] == first
    assert [each.interval for each in last] == [0, 1, 2, 3]


def test_a_new_ledger_answers_nothing_in_a_campaign_that_had_begun(tmp_path):
    tree = ChangeTree(8, 2, 1.0)
    held = opened(tmp_path, tree, now=0.0)
    with pytest.raises(NotDue, match="begun in wave 0 .* takes no part"):
        tell(held, 5, True)
    assert len(tell(opened(tmp_path, tree, wait=False), 5, True)) == 6


def test_a_tree_counts_once_within_the_owners_limit(tmp_path):
    tree, device = ChangeTree(8, 2, 1.5), device_ledgers.DEVICE  # of ε = 1
    held = opened(tmp_path, tree, limit=Limit(3.0))
    one, two = (replace(panel_of(8, name), window=1) for name in ("one", "two"))
    held.ledger.report(device, {"bit": True}, one, now=0.0)
    for wave in range(8):
        tell(held, wave, True)
    assert held.ledger.spent().epsilon == 2.5
    with pytest.raises(LimitReached, match=r"'two' asks for ε = 1 .*: ε = 2\.5 is spent"):
        held.ledger.report(device, {"bit": True}, two, now=0.0)
    other = TreeLedger(held.ledger, tree, panel_of(8, "other"))
    with pytest.raises(LimitReached, match=r"'other' asks for ε = 1\.5"):
        tell(other, 0, True)
    assert other.answers() == []


def test_a_tree_is_spent_until_the_last_of_its_answers(tmp_path):
    tree, hour = ChangeTree(8, 2, 1.5), 3600.0
    held = opened(tmp_path, tree, limit=Limit(2.0, days=3 / 24))
    tell(held, 0, True)
    tell(held, 4, True)
    assert held.ledger.spent(days=3 / 24, now=6 * hour).epsilon == 1.5
    other = replace(panel_of(100, "other"), window=1)
    with pytest.raises(LimitReached):
        held.ledger.report(device_ledgers.DEVICE, {"bit": True}, other, now=6 * hour)
    held.ledger.report(device_ledgers.DEVICE, {"bit": True}, other, now=8 * hour)
    with pytest.raises(LimitReached):
        tell(held, 7, True)  # a clock that was set back ages nothing


def test_another_tree_or_panel_of_the_name_is_refused(tmp_path):
    tree = ChangeTree(8, 2, 1.0)
    held = opened(tmp_path, tree)
    tell(held, 0, True)
    for changed in (replace(tree, epsilon=2.0), replace(tree, changes=1), replace(tree, seed="s")):
        with pytest.raises(PrivotError, match="had another panel"):
            tell(TreeLedger(held.ledger, changed, held.panel), 1, True)
    with pytest.raises(PrivotError, match="had another panel"):
        held.ledger.report(device_ledgers.DEVICE, {"bit": True}, held.panel, now=3600.0)
    with pytest.raises(PrivotError, match="a tree of 8 waves needs a panel with both 8"):
        TreeLedger(held.ledger, tree, replace(panel_of(8), window=4))


def test_what_is_no_bit_costs_nothing(tmp_path):
    held = opened(tmp_path, ChangeTree(8, 2, 1.0))
    for value in (1, None, "yes"):
        with pytest.raises(PrivotError, match="no bit"):
            tell(held, 0, value)
    assert held.answers() == []
    assert held.ledger.spent().epsilon == 0


@pytest.mark.parametrize("jumps", [0, 5])
def test_kills_and_jumps_of_the_clock_cause_no_second_answer(tmp_path, jumps):
    answers = device_ledgers.answered(tmp_path, 6, jumps)
    assert len(answers) >= 3
    assert device_ledgers.second_answers(answers) == 0


@pytest.mark.slow
@pytest.mark.parametrize("jumps", [0, 5])
def test_a_hundred_kills_cause_no_second_answer(tmp_path, jumps):
    answers = device_ledgers.answered(tmp_path, device_ledgers.KILLS, jumps)
    assert len(answers) >= 50
    assert device_ledgers.second_answers(answers) == 0


def test_without_a_ledger_second_answers_are_found(tmp_path):
    answers = device_ledgers.answered(tmp_path, 3, 0, careless=True)
    assert device_ledgers.second_answers(answers) > 0


def test_what_devices_send_estimates_the_share(tmp_path, unflushed):
    """Every other person of each level becomes 1 in wave 2; every third is away in wave 1."""
    tree, sent = ChangeTree(4, 1, 6.0), []
    counts = dict.fromkeys(range(tree.levels), 0)
    for person in range(150):
        device = DeviceLedger(tmp_path / str(person), str(person), now=-1.0)
        held = TreeLedger(device, tree, panel_of(4))
        counts[held.level] += 1
        for wave in range(4):
            if wave != 1 or person % 3:
                sent += held.tell(wave >= 2 and counts[held.level] % 2 == 0, now=3600.0 * wave)
    signs = signs_of(tree, sent)
    assert sum(np.count_nonzero(each) for each in signs) == len({each.id for each in sent})
    share, stderr = tree.estimate(signs)
    # Four statistics, each with a false-alarm rate of 4e-8.
    assert (np.abs(share - [0, 0, 0.5, 0.5]) < 5.5 * stderr).all()
    assert share[3] > 0.05  # five standard deviations below
    assert 0.05 < stderr.max() < 0.16


def test_answers_of_no_interval_and_what_is_no_answer_are_refused():
    tree = ChangeTree(4, 1, 1.0)
    good = Answer("bits", 1, 1, -1, "0" * 32)
    assert signs_of(tree, [good, good])[1].tolist() == [[0, -1]]
    for strange in (replace(good, level=3), replace(good, interval=2), replace(good, interval=-1)):
        with pytest.raises(PrivotError, match="this tree has not"):
            signs_of(tree, [strange])
    line = good.to_bytes()
    for text in (b"", b"{}\n", line[:-1], line.replace(b"-1", b"0"), line.replace(b"-1", b"true"),
                 line.replace(b"00", b"0", 1), line.replace(b"}", b', "more": 1}')):  # fmt: skip
        with pytest.raises(PrivotError, match="no answer"):
            Answer.from_bytes(text)
