"""A ledger's file: what was changed, damaged, rolled back or copied is refused."""

import json
import shutil

import pytest

from privacy.conftest import Uses, spend_all
from privot.core.errors import PrivotError
from privot.privacy.ledger import Ledger, adopt


def test_a_rolled_back_file_is_refused(tmp_path):
    path, old = tmp_path / "run.ledger", tmp_path / "old"
    ledger = Ledger(Uses(10), path)
    ledger.spend(2)
    shutil.copy(path, old)
    ledger.spend(4)
    shutil.copy(old, path)
    for call in (ledger.spend, lambda: Ledger(Uses(10), path, resume=True)):
        with pytest.raises(
            PrivotError, match="rolled back or copied: 6 are known .* it knows of 2"
        ):
            call()


def test_a_copy_shares_the_budget(tmp_path):
    """The copy may be used; then the original is behind, and refused."""
    (tmp_path / "copy").mkdir()
    first = Ledger(Uses(10), tmp_path / "run.ledger", ahead=2)
    first.spend(3)
    shutil.copy(tmp_path / "run.ledger", tmp_path / "copy")
    second = Ledger(Uses(10), tmp_path / "copy" / "run.ledger", resume=True)
    second.spend(2)
    first.spend()  # in hand, and counted before the copy was made
    for call in (first.close, first.spend):
        with pytest.raises(PrivotError, match="rolled back or copied"):
            call()
    assert spend_all(second) == 3


def test_a_kill_between_file_and_witness_is_forgiven(tmp_path, state_folder):
    path = tmp_path / "run.ledger"
    ledger = Ledger(Uses(10), path)
    ledger.spend()
    witness = state_folder / "ledgers" / f"{ledger.id}.json"
    before = witness.read_text()
    ledger.spend(2)
    witness.write_text(before)
    ledger.spend(3)
    assert ledger.spent == 6


def test_a_file_from_elsewhere_must_be_adopted(tmp_path, state_folder):
    path = tmp_path / "run.ledger"
    Ledger(Uses(10), path).spend(4)
    shutil.rmtree(state_folder)
    with pytest.raises(PrivotError, match="never seen by this account"):
        Ledger(Uses(10), path, resume=True)
    adopt(path)
    assert spend_all(Ledger(Uses(10), path, resume=True)) == 6
    with pytest.raises(PrivotError, match="already known"):
        adopt(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields["entries"][-1].update(spent=0),
        lambda fields: fields["entries"][-1].update(uses=1, spent=1),
        lambda fields: fields["entries"].pop(0),
        lambda fields: fields["entries"].clear(),
        lambda fields: fields["entries"][-1].pop("hash"),
        lambda fields: fields.update(id="ab" * 16),
    ],
)
def test_a_changed_file_is_refused(tmp_path, change):
    path = tmp_path / "run.ledger"
    ledger = Ledger(Uses(10), path)
    ledger.spend(4)
    fields = json.loads(path.read_text())
    change(fields)
    path.write_text(json.dumps(fields))
    with pytest.raises(PrivotError, match="cannot be trusted"):
        ledger.spend()


def test_a_plan_that_was_raised_in_the_file_and_in_the_run_is_refused(tmp_path):
    """The plan is part of the identity that entries are chained to."""
    path = tmp_path / "run.ledger"
    Ledger(Uses(10), path).spend(4)
    fields = json.loads(path.read_text())
    fields["plan"]["uses"] = 1000
    path.write_text(json.dumps(fields))
    with pytest.raises(PrivotError, match="cannot be trusted"):
        Ledger(Uses(1000), path, resume=True)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"entries": 3}'])
def test_a_damaged_file_is_refused(tmp_path, text):
    path = tmp_path / "run.ledger"
    ledger = Ledger(Uses(10), path)
    ledger.spend()
    path.write_text(text)
    with pytest.raises(PrivotError, match="cannot be trusted"):
        ledger.spend()
    path.unlink()
    with pytest.raises(PrivotError, match="is gone"):
        ledger.spend()
