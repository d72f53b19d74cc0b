"""Accounts: records are recognized in any order, runs are composed, and only the curator is told."""

import warnings

import numpy as np
import pytest

from privacy.conftest import Uses
from privot.core.errors import PrivotError
from privot.privacy import ApproximateDP, IntegralPrivacy, compose
from privot.privacy.ledger import Ledger, RepeatedRecords, accounts, charge, fingerprint

ROWS = np.random.default_rng(0).random((50, 3))


class TestFingerprint:
    def test_order_and_parts_and_precision_do_not_matter(self):
        digest = fingerprint([ROWS])
        assert fingerprint([ROWS[::-1]]) == digest
        assert fingerprint([ROWS[:7], ROWS[7:]]) == digest
        assert fingerprint([ROWS.astype(np.float32).reshape(50, 1, 3)]) == digest
        assert fingerprint([np.where(ROWS > 0.5, 0.0, -0.0)]) == fingerprint([0 * ROWS])

    @pytest.mark.parametrize(
        "other",
        [ROWS[1:], np.concatenate([ROWS, ROWS[:1]]), ROWS.T, ROWS + 1e-3, ROWS[:, ::-1]],
    )
    def test_other_records_have_another(self, other):
        assert fingerprint([other]) != fingerprint([ROWS])

    def test_rows_count_as_often_as_they_are_there(self):
        """A hash that forgets repeated rows (by exclusive or, say) would not see these apart."""
        twice = np.concatenate([ROWS, ROWS])
        assert fingerprint([twice[:52]]) != fingerprint([np.concatenate([ROWS, ROWS[[0, 0]]])])
        assert fingerprint([ROWS[[0, 0]]]) != fingerprint([ROWS[[1, 1]]])

    def test_another_account_has_another_key(self, monkeypatch, tmp_path):
        mine = fingerprint([ROWS])
        monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path / "other"))
        assert fingerprint([ROWS]) != mine

    def test_the_key_is_secret_and_not_made_anew(self, state_folder):
        fingerprint([ROWS])
        key = state_folder / "key"
        assert key.stat().st_mode & 0o777 == 0o600
        before = key.read_bytes()
        fingerprint([ROWS])
        assert key.read_bytes() == before
        key.write_bytes(b"")
        with pytest.raises(PrivotError, match="is damaged"):
            fingerprint([ROWS])


class Draws(Uses):
    noun = "draws"

    @property
    def guarantee(self):
        return IntegralPrivacy(self.epsilon)


def test_runs_on_the_same_records_are_composed_and_told():
    first, second = Ledger(Uses(10)), Ledger(Uses(20, epsilon=0.3))
    digest = fingerprint([ROWS])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        charge(digest, first)
        charge(digest, first)  # a run that goes on is one run
        charge(fingerprint([ROWS[1:]]), second)
    with pytest.warns(RepeatedRecords, match=r"2 runs, together ε = 1.3, δ = 2e-06"):
        account = charge(digest, second)
    assert account.sums == ((compose(first.plan.guarantee, second.plan.guarantee), 2),)
    with pytest.warns(
        RepeatedRecords, match=r"3 runs, together ε = 3.3\d*, δ = 2e-06, replace_one"
    ):
        account = charge(digest, Ledger(Draws(5, epsilon=2.0)))
    assert sorted(len(known.runs) for known in accounts()) == [1, 3]
    assert [run.uses for run in account.runs] == ["10 releases", "20 releases", "5 draws"]


@pytest.mark.parametrize("swap", [False, True])
def test_slices_and_draws_have_one_sum(swap):
    """Neither promise holds of both: what slices tell, no integral privacy covers."""
    runs = [Ledger(Uses(10, epsilon=1.5)), Ledger(Draws(5, epsilon=2.0))]
    if swap:
        runs.reverse()
    digest = fingerprint([ROWS])
    charge(digest, runs[0])
    with pytest.warns(RepeatedRecords):
        account = charge(digest, runs[1])
    assert account.sums == ((ApproximateDP(3.5, 1e-6, "replace_one"), 2),)


def test_runs_without_a_common_promise_are_not_said_to_have_one():
    digest = fingerprint([ROWS])
    charge(digest, Ledger(Uses(10)))
    with pytest.warns(RepeatedRecords, match="no promise covers what all of them released") as told:
        charge(digest, Ledger(Uses(10, neighboring="zero_out")))
    assert "together" not in str(told[0].message)
    with pytest.warns(RepeatedRecords, match="of 2 alone ε = 2, .* of 1 alone ε = 1, "):
        charge(digest, Ledger(Uses(10)))


def test_a_damaged_account_is_refused(state_folder):
    digest = fingerprint([ROWS])
    charge(digest, Ledger(Uses(10)))
    (state_folder / "accounts" / f"{digest}.json").write_text("{")
    with pytest.raises(PrivotError, match="cannot be read"):
        charge(digest, Ledger(Uses(10)))


def test_a_run_goes_on_with_the_records_it_began_with(tmp_path):
    ledger = Ledger(Uses(10), tmp_path / "ledger")
    charge(fingerprint([ROWS]), ledger)
    ledger.spend()
    assert len(charge(fingerprint([ROWS[::-1]]), ledger).runs) == 1
    with pytest.raises(PrivotError, match="ledger .* counts a run on other records than these"):
        charge(fingerprint([ROWS[:-1]]), ledger)
    assert len(accounts()) == 1
    again = Ledger(Uses(10), tmp_path / "ledger", resume=True)
    with pytest.raises(PrivotError, match="on other records"):
        charge(fingerprint([ROWS + 1]), again)
    assert len(charge(fingerprint([ROWS]), again).runs) == 1
