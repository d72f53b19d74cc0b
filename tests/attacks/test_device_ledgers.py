"""A device's ledger whose file, clock or flush is against it: no second draw, no limit passed unseen."""

import os
import shutil

import pytest

from privot import PrivotError
from privot.waves import DeviceLedger, Limit, LimitReached, Panel
from privot_benchmarks import device_ledgers

DEVICE = device_ledgers.DEVICE
DAY = 86_400
PANEL = Panel("bits", window=4, start=0, length=3600, seed="public", waves=40)
SLOT = PANEL.slot("me")


def report(held, now=3600.0 * SLOT, panel=PANEL):
    return held.report(DEVICE, {"bit": True}, panel, now=now)


def test_a_ledger_that_is_removed_while_it_is_open_draws_no_second_report(tmp_path):
    path = tmp_path / "ledger"
    held = DeviceLedger(path, "me", now=-1.0)
    first = report(held)
    content = path.read_bytes()
    path.unlink()
    for _ in range(3):
        with pytest.raises(PrivotError, match="removed or replaced"):
            report(held)
    with pytest.raises(PrivotError, match="removed or replaced"):
        held.spent()
    with pytest.raises(PrivotError, match=f"from wave {SLOT + 1} on"):  # and a new one waits
        report(DeviceLedger(path, "me", now=3600.0 * SLOT))
    path.write_bytes(content)
    assert report(held) == first


def test_a_ledger_that_is_replaced_by_another_while_it_is_open_draws_nothing(tmp_path):
    held = DeviceLedger(tmp_path / "ledger", "me", now=-1.0)
    report(held)
    DeviceLedger(tmp_path / "other", "me", now=-2.0)
    shutil.move(tmp_path / "other", tmp_path / "ledger")
    with pytest.raises(PrivotError, match="removed or replaced"):
        report(held)


def test_what_a_killed_process_wrote_is_flushed_before_it_is_handed_out(tmp_path, monkeypatch):
    """Killed between write and flush, a line is in memory alone: a loss of power would take it back."""
    held, flush = DeviceLedger(tmp_path / "ledger", "me", now=-1.0), os.fsync

    def killed(handle):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        report(held)
    flushed = []
    monkeypatch.setattr(
        os, "fsync", lambda handle: flushed.append(os.fstat(handle).st_ino) or flush(handle)
    )
    report(held)
    assert (tmp_path / "ledger").stat().st_ino in flushed
    assert len(held.reports(PANEL)) == 1


def campaign(name):
    return Panel(name, window=1, start=0, length=3600, seed="public")


def test_a_clock_that_is_set_forward_and_right_again_gives_no_budget_back(tmp_path):
    held = DeviceLedger(tmp_path / "ledger", "me", now=-1.0, limit=Limit(2.0, days=365))
    for name in "ab":
        report(held, 10.0 * DAY, campaign(name))
    report(held, 376.0 * DAY, campaign("c"))  # while the clock stands forward, what was spent ages
    for day in (11, 12, 374):  # right again, the first two count as before
        with pytest.raises(LimitReached):
            report(held, float(DAY * day), campaign("d"))
    report(held, 376.0 * DAY, campaign("d"))
    with pytest.raises(LimitReached):  # and what was drawn meanwhile until its own days have passed
        report(held, 740.0 * DAY, campaign("e"))
    report(held, 741.0 * DAY, campaign("e"))


def test_a_limit_without_days_holds_whatever_the_clock_shows(tmp_path):
    held = DeviceLedger(tmp_path / "ledger", "me", now=-1.0, limit=Limit(3.0))
    drawn = 0
    for day in (10, 800, 5, 10_000, 20_000, 0, 10):
        try:
            report(held, float(DAY * day), campaign(f"day {day} {drawn}"))
            drawn += 1
        except LimitReached:
            continue
    assert drawn == 3
