"""An owner's limit: sums as they are written, windows of time, and clocks that are set."""

from dataclasses import replace

import pytest

from privot import PrivotError
from privot.device import Device
from privot.waves import DeviceLedger, Limit, LimitReached, Panel
from privot_benchmarks import device_ledgers

DEVICE = device_ledgers.DEVICE
PANEL = Panel("bits", window=4, start=0, length=3600, seed="public", waves=40)
SLOT = PANEL.slot("me")
DAY = 24 * 3600


def ledger(path, **how):
    return DeviceLedger(path / "ledger", "me", **{"now": -1.0, **how})


def report(held, wave, panel=PANEL, bit=True, device=DEVICE):
    return held.report(device, {"bit": bit}, panel, now=panel.length * wave + panel.start)


def test_three_tenths_are_within_a_limit_of_three_tenths(tmp_path):
    device = Device(DEVICE.fingerprint, DEVICE.program, {"kind": "PureDP", "epsilon": 0.1})
    held = ledger(tmp_path, limit=Limit(0.3))
    for name in "abc":
        report(held, SLOT, replace(PANEL, name=name), device=device)
    with pytest.raises(
        LimitReached, match=r"ε = 0\.3 is spent, and the limit is ε = 0\.3 for ever"
    ):
        report(held, SLOT, replace(PANEL, name="d"), device=device)


def test_a_limit_is_on_any_window_of_time(tmp_path):
    daily = Panel("daily", window=1, start=0, length=DAY, seed="public")
    held, drawn = ledger(tmp_path, limit=Limit(2.0, days=7)), []
    for day in range(40):
        try:
            report(held, day, daily)
            drawn.append(day)
        except LimitReached:
            continue
    assert drawn == [0, 1, 7, 8, 14, 15, 21, 22, 28, 29, 35, 36]


def test_a_clock_that_was_set_back_gives_no_budget_back(tmp_path):
    held = ledger(tmp_path, limit=Limit(1.0, days=7))
    report(held, SLOT + 36)
    with pytest.raises(LimitReached):
        report(held, 0, replace(PANEL, name="other", window=1))


def test_what_is_drawn_by_a_clock_set_back_counts_as_drawn_last(tmp_path):
    daily = [Panel(name, window=1, start=0, length=DAY, seed="public") for name in "abc"]
    held = ledger(tmp_path, limit=Limit(2.0, days=7))
    report(held, 36, daily[0])
    report(held, 0, daily[1])
    with pytest.raises(LimitReached):
        report(held, 40, daily[2])
    report(held, 43, daily[2])


def test_deltas_are_limited_as_well(tmp_path):
    promise = {"kind": "ApproximateDP", "epsilon": 0.5, "delta": 1e-7}
    device = Device(DEVICE.fingerprint, DEVICE.program, promise)
    held = ledger(tmp_path, limit=Limit(100.0, delta=2e-7))
    for name in "ab":
        report(held, SLOT, replace(PANEL, name=name), device=device)
    with pytest.raises(LimitReached, match="δ = 2e-07 is spent, .* δ = 2e-07 for ever"):
        report(held, SLOT, replace(PANEL, name="c"), device=device)
    report(held, SLOT, replace(PANEL, name="d"))


IMPOSSIBLE = [{"epsilon": -1.0}, {"epsilon": 1.0, "days": 0}, {"epsilon": 1.0, "delta": 1.0}]


@pytest.mark.parametrize("limit", IMPOSSIBLE)
def test_impossible_limits_are_refused(limit):
    with pytest.raises(PrivotError):
        Limit(**limit)
