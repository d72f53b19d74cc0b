"""The commands of panels, and a device's report on the command line."""

import json
import time

import pytest

from commands import privot
from privot import Randomizer, Schema
from privot.collector.analyst import _opened, read_analyst_key
from privot.device import Report
from privot.privacy.rounding import at_most
from privot.randomizer.integrity import new_key, public_key, read_key, sign
from privot.randomizer.reports.payloads import Payloads
from privot.waves import Panel

SCHEMA = '[columns.smokes]\nkind = "boolean"\n'
PROMISE = '[promise]\nepsilon = 1\nwhere = "shuffled"\ndelta = 1e-4\npeople = 50\n'


@pytest.fixture
def folder(tmp_path):
    made = Randomizer.calibrate(Schema.from_toml(SCHEMA), epsilon=2.0)
    made.save(tmp_path / "randomizer.json")
    (tmp_path / "today.json").write_text('{"smokes": true}')
    return tmp_path


def done(folder, line, *more):
    found = privot(folder, *line.split(), *more)
    assert found.returncode == 0, found.stderr
    return found


def asked(folder, name, window):
    """What asks for a report in a panel that has just begun, whose waves last a day."""
    panel = Panel(name, window, int(time.time()) - 100, 86_400, "seed")
    panel.save(folder / f"{name}.json")
    return f"waves report today.json -r randomizer.json --panel {name}.json --ledger mine"


def test_a_panel_is_made_and_shown(folder):
    line = "waves new commute --window 6 --waves 52 --start 2026-01-05 --seed 2026 -o panel.json"
    assert "52 waves of 7 days from 2026-01-05 (UTC) on" in done(folder, line).stdout
    panel = Panel.load(folder / "panel.json")
    assert panel == Panel("commute", 6, 1_767_571_200, 604_800, "2026", 52)
    shown = done(folder, "waves show panel.json -r randomizer.json --person me").stdout
    assert "ε = 2 (pure) in any 6 consecutive waves, ε = 18 (pure) over 52" in shown
    assert f"'me' is in slot {panel.slot('me')}: " in shown
    done(folder, "waves new commute --window 6 --start 2026-01-05T12:00 --days 0.5 -o other.json")
    other = Panel.load(folder / "other.json")
    assert (other.length, other.waves) == (43_200, None)
    assert len(other.seed) == 32


def test_a_panel_beyond_all_calendars_is_shown(folder):
    Panel("far", 10**6, 2**40, 2**40, "seed").save(folder / "far.json")
    assert (
        f"from second {2**40:,} (UTC) on" in done(folder, "waves show far.json --person me").stdout
    )


def test_a_new_ledger_waits_for_the_next_wave(folder):
    line = asked(folder, "daily", window=1)
    refused = privot(folder, *line.split())
    assert refused.returncode == 2
    assert "this ledger is new" in refused.stderr
    assert done(folder, f"{line} --first").stdout == done(folder, line).stdout


def test_reports_are_what_a_collector_takes_and_limits_hold(folder):
    line = asked(folder, "daily", window=1)
    told = done(folder, f"{line} --first --person me")
    assert "ε = 2, δ = 0" in told.stderr
    report = Report.from_json(json.loads(told.stdout)["reports"][0])
    randomizer = Randomizer.load(folder / "randomizer.json")
    assert report.fingerprint.hex() == randomizer.fingerprint
    assert len(report.payload) == Payloads(randomizer).width
    second = asked(folder, "weekly", window=1) + " --first --limit"
    refused = privot(folder, *second.split(), "3")
    assert refused.returncode == 2
    words = (
        "'weekly' asks for ε = 2 (pure), local, per person: ε = 2 is spent, and the limit is ε = 3"
    )
    assert words in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    done(folder, second, "4")


@pytest.fixture
def shuffled(folder):
    """A randomizer of shuffled reports in place of the local one."""
    randomizer = Randomizer.calibrate(Schema.from_toml(SCHEMA + PROMISE))
    randomizer.save(folder / "randomizer.json")
    return randomizer


def test_a_panel_of_shuffled_waves_shows_their_composition(folder, shuffled):
    panel = Panel("commute", 6, 1_767_571_200, 604_800, "2026", 52)
    panel.save(folder / "panel.json")
    line = "waves show panel.json -r randomizer.json"
    for more, least in (("", 50), (" --reports 400", 400)):
        shown = done(folder, line + more).stdout.splitlines()
        promise = shuffled.panel_guarantee(panel, least)
        assert shown[1:] == [str(promise), promise.describe()]
        assert " senders of each are honest, else ε = " in shown[1]
        assert f"the batch of {least} reports" in shown[2]
    refusals = {
        f"{line} --reports 49": "49 reports were accepted, and the promise is of a batch of 50",
        "waves show panel.json --reports 50": "--reports is of waves of shuffled reports",
        "waves show model --column smokes --reports 50": "leave out -r, --reports and --person",
    }
    for arguments, words in refusals.items():
        refused = privot(folder, *arguments.split())
        assert (refused.returncode, refused.stdout) == (2, "")
        assert words in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1


def test_a_shuffled_report_is_sealed_once_to_its_waves_key(folder, shuffled):
    """Only sealed bytes leave, the same again; the ledger counts ε of a report by itself."""
    new = "waves new daily --window 1 --waves 2 --start 2026-01-05 --keys keys"
    made = done(folder, new).stdout.splitlines()
    public, other = (each.split()[-1] for each in made[:2])
    assert [each.split(":")[0] for each in made[:2]] == ["wave 0", "wave 1"]
    assert {file.stat().st_mode & 0o777 for file in (folder / "keys").iterdir()} == {0o600}
    line = asked(folder, "daily", window=1) + " --first"
    told = done(folder, line, "--analyst-key", public)
    assert done(folder, line, "--analyst-key", other).stdout == told.stdout
    assert (
        f"ε = {at_most(shuffled.guarantee.epsilon)}, δ = 0, local, per person so far" in told.stderr
    )
    sealed = Report.from_json(json.loads(told.stdout)["reports"][0])
    assert sealed.time == 0
    own, stranger = (read_analyst_key(folder / "keys" / f"wave-{wave}.key") for wave in (0, 1))
    fingerprint = bytes.fromhex(shuffled.fingerprint)
    (report,), dropped = _opened([sealed.payload], fingerprint, own)
    assert (report.fingerprint, dropped) == (fingerprint, [])
    assert len(_opened([sealed.payload], fingerprint, stranger)[1]) == 1
    refusals = {line: "--analyst-key is for shuffled reports, and each of those needs it"}
    refusals[f"{new} --force"] = "a name that is free"
    refusals["waves new ever --window 1 --start 2026-01-05 --keys more --force"] = "of --waves"
    for arguments, words in refusals.items():
        refused = privot(folder, *arguments.split())
        assert (refused.returncode, refused.stdout, words in refused.stderr) == (2, "", True)
    Randomizer.calibrate(Schema.from_toml(SCHEMA), epsilon=2.0).save(folder / "randomizer.json")
    refused = privot(folder, *line.split(), "--analyst-key", public)
    assert (refused.returncode, refused.stdout) == (2, "")


@pytest.mark.parametrize("changed", ["randomizer.json", "daily.json"])
def test_what_another_key_signed_makes_no_report(folder, changed):
    line = asked(folder, "daily", window=1) + " --first"
    holder, other = keys = [folder / "holder.pem", folder / "other.pem"]
    for path in keys:
        new_key(path)
    done_by = {path: ["--public-key", public_key(read_key(path))] for path in keys}
    files = [folder / "randomizer.json", folder / "daily.json"]
    unsigned = privot(folder, *line.split(), *done_by[holder])
    assert (unsigned.returncode, "sign randomizer.json first" in unsigned.stderr) == (2, True)
    for path in files:
        sign(path, read_key(holder))
    sign(folder / changed, read_key(other))
    text = (folder / changed).read_text()
    refusals = {
        "is not what the holder of": done_by[holder],
        "is signed: give --public-key": [],
        "is not 32 bytes in base64": ["--public-key", "no key"],
    }
    for words, given in refusals.items():
        refused = privot(folder, *line.split(), *given)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert words in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1
    sign(folder / changed, read_key(holder))
    (folder / changed).write_text(text + " ")  # the same JSON, of other bytes
    assert "is not what the holder" in privot(folder, *line.split(), *done_by[holder]).stderr
    assert not (folder / "mine").exists()
    (folder / changed).write_text(text)
    made = done(folder, line, *done_by[holder]).stdout
    assert len(json.loads(made)["reports"]) == 1
