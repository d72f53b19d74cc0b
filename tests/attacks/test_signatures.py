"""What a signature covers, and what it only seems to: one file's bytes, no campaign, no time."""

import json
from dataclasses import replace

import pytest

from commands import privot
from privot import PrivotError, Randomizer, Schema
from privot.device import Device
from privot.randomizer.integrity import new_key, public_key, read_key, require_signature, sign
from privot.waves import DeviceLedger, Limit, LimitReached, Panel

SCHEMA = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
PANEL = Panel("bits", window=6, start=0, length=3600, seed="public", waves=60)


@pytest.fixture
def key(tmp_path):
    new_key(tmp_path / "signing.pem")
    return read_key(tmp_path / "signing.pem")


def test_a_panel_can_be_signed_and_an_altered_one_is_refused(tmp_path, key):
    path = tmp_path / "panel.json"
    PANEL.save(path)
    done = privot(tmp_path, "sign", "panel.json", "--key", "signing.pem")
    assert done.returncode == 0, done.stderr
    pinned = public_key(key)
    assert pinned in done.stdout
    require_signature(path, pinned)
    replace(PANEL, window=1).save(path)
    with pytest.raises(PrivotError, match="not what the holder"):
        require_signature(path, pinned)


def test_what_is_no_randomizer_and_no_panel_is_not_signed(tmp_path, key):
    (tmp_path / "other.json").write_text(json.dumps(PANEL.to_dict() | {"more": 1}))
    assert privot(tmp_path, "sign", "other.json", "--key", "signing.pem").returncode == 2
    assert not (tmp_path / "other.json.sig").exists()


def test_a_randomizers_signature_is_none_of_a_panel_beside_it(tmp_path, key):
    PANEL.save(tmp_path / "panel.json")
    Randomizer.calibrate(SCHEMA, epsilon=1.0).save(tmp_path / "randomizer.json")
    sign(tmp_path / "randomizer.json", key)
    (tmp_path / "panel.json.sig").write_bytes((tmp_path / "randomizer.json.sig").read_bytes())
    with pytest.raises(PrivotError, match="not what the holder"):
        require_signature(tmp_path / "panel.json", public_key(key))


def test_an_earlier_randomizer_of_the_key_verifies_for_ever_and_its_fingerprint_is_another(
    tmp_path, key
):
    """What the wire says remains: a key alone pins no campaign, the fingerprint does."""
    fingerprints = []
    for epsilon in (8.0, 1.0):
        path = tmp_path / f"{epsilon}.json"
        Randomizer.calibrate(SCHEMA, epsilon=epsilon).save(path)
        sign(path, key)
        fingerprints.append(Device.from_json(path.read_text()).fingerprint)
    for epsilon in (8.0, 1.0):
        require_signature(tmp_path / f"{epsilon}.json", public_key(key))
    assert fingerprints[0] != fingerprints[1]


def test_new_names_in_every_wave_are_bounded_by_the_owners_limit_alone(tmp_path):
    device = Device.from_json(Randomizer.calibrate(SCHEMA, epsilon=1.0).to_json())
    held = DeviceLedger(tmp_path / "ledger", "me", now=-1.0, limit=Limit(4.0))
    drawn = 0
    for wave in range(20):
        forged = replace(PANEL, name=f"bits {wave}", window=1)
        try:
            held.report(device, {"bit": True}, forged, now=3600.0 * wave)
            drawn += 1
        except LimitReached:
            continue
    assert drawn == 4


@pytest.mark.parametrize(
    "promise",
    [
        {"kind": "PureDP", "epsilon": -4.0},
        {"kind": "ApproximateDP", "epsilon": 1.0, "delta": -1e-6},
        {"kind": "PureDP", "epsilon": 1.0, "neighboring": "replace_one"},
        {"kind": "ZeroConcentratedDP", "rho": 0.1, "neighboring": "local"},
        {"kind": "GeoIndistinguishability", "epsilon": 1.0},
    ],
)
def test_a_ledger_draws_nothing_whose_promise_does_not_add_up(tmp_path, promise):
    device = Device.from_json(Randomizer.calibrate(SCHEMA, epsilon=1.0).to_json())
    held = DeviceLedger(tmp_path / "ledger", "me", now=-1.0, limit=Limit(4.0))
    evil = Device(device.fingerprint, device.program, promise)
    with pytest.raises(PrivotError):
        held.report(evil, {"bit": True}, replace(PANEL, window=1), now=0.0)
    assert held.spent(now=0.0).epsilon == 0
