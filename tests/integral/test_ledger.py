"""The ledger: never more than declared; two processes, kills, copies, rollbacks."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from privot.errors import PrivotError
from privot.integral import IntegralModel, StandardNormal
from privot.integral.ledger import FILE, FileLedger, MemoryLedger

IDENTITY = "ab" * 32


@pytest.fixture
def ledger(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    made = FileLedger(folder, IDENTITY, 10)
    made.create(0)
    return made


def spend_in_another_process(folder, budget, code):
    program = f"""
import os, signal
from pathlib import Path
from privot.integral.ledger import FileLedger
from privot.errors import PrivotError
ledger = FileLedger(Path({str(folder)!r}), {IDENTITY!r}, {budget})
{code}
"""
    return subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


class TestMemory:
    def test_draw_beyond_the_budget_is_refused(self):
        ledger = MemoryLedger(3)
        ledger.spend(2)
        with pytest.raises(PrivotError, match="2 of 3 draws are spent; ask for at most 1"):
            ledger.spend(2)
        ledger.spend(1)
        assert ledger.spent == 3

    def test_threads_cannot_overspend(self):
        ledger, done = MemoryLedger(50), []

        def work():
            for _ in range(20):
                try:
                    ledger.spend(1)
                    done.append(1)
                except PrivotError:
                    pass

        threads = [threading.Thread(target=work) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert len(done) == ledger.spent == 50


class TestFile:
    def test_draw_beyond_the_budget_is_refused(self, ledger):
        ledger.spend(7)
        with pytest.raises(PrivotError, match="7 of 10 draws are spent; ask for at most 3"):
            ledger.spend(4)
        ledger.spend(3)
        with pytest.raises(PrivotError, match="at most 0"):
            ledger.spend(1)
        assert FileLedger(ledger.folder, IDENTITY, 10).spent == 10

    @pytest.mark.parametrize("draws", [0, -3])
    def test_spending_nothing_or_less_is_refused(self, ledger, draws):
        with pytest.raises(PrivotError, match="not positive"):
            ledger.spend(draws)
        assert ledger.spent == 0

    def test_two_processes_cannot_overspend(self, tmp_path):
        folder = tmp_path / "busy"
        folder.mkdir()
        FileLedger(folder, IDENTITY, 60).create(0)
        code = """
import time
done = 0
for _ in range(40):
    try:
        ledger.spend(1)
        done += 1
    except PrivotError:
        pass
print(done)
"""
        running = [spend_in_another_process(folder, 60, code) for _ in range(2)]
        outcomes = [process.communicate(timeout=200) for process in running]
        assert all(process.returncode == 0 for process in running), outcomes
        spent = [int(out) for out, _ in outcomes]
        assert sum(spent) == 60 == FileLedger(folder, IDENTITY, 60).spent
        assert max(spent) <= 40

    def test_a_kill_leaves_a_ledger_that_counts_every_draw(self, ledger):
        """Killed somewhere in the middle of spending, again and again: the chain stays whole."""
        code = "for _ in range(10**6):\n    ledger.spend(1)\n    print(1, flush=True)"
        budget = 10**6
        shutil.rmtree(ledger.folder)
        ledger.folder.mkdir()
        Path(os.environ["PRIVOT_STATE_DIR"], "integral", f"{IDENTITY[:32]}.json").unlink()
        counting = FileLedger(ledger.folder, IDENTITY, budget)
        counting.create(0)
        told = 0
        for _ in range(3):
            process = spend_in_another_process(ledger.folder, budget, code)
            lines = [process.stdout.readline() for _ in range(6)]
            process.send_signal(signal.SIGKILL)
            lines += process.communicate(timeout=60)[0].splitlines()
            told += sum(line.strip() == "1" for line in lines)
            assert told <= counting.spent <= told + 3
            told = counting.spent

    def test_a_rolled_back_folder_is_refused(self, ledger, tmp_path):
        shutil.copytree(ledger.folder, tmp_path / "backup")
        ledger.spend(4)
        shutil.rmtree(ledger.folder)
        shutil.copytree(tmp_path / "backup", ledger.folder)
        with pytest.raises(PrivotError, match="rolled back or copied: 4 draws are known"):
            ledger.spend(1)

    def test_a_copy_shares_the_budget(self, ledger, tmp_path):
        """The copy may be drawn from; then the original is behind, and refused."""
        shutil.copytree(ledger.folder, tmp_path / "copy")
        copy = FileLedger(tmp_path / "copy", IDENTITY, 10)
        copy.spend(1)
        with pytest.raises(PrivotError, match="rolled back or copied"):
            ledger.spend(1)

    def test_a_folder_from_elsewhere_must_be_adopted(self, ledger, state_folder):
        ledger.spend(4)
        shutil.rmtree(state_folder)
        with pytest.raises(PrivotError, match="never seen by this account"):
            ledger.spend(1)
        ledger.adopt()
        ledger.spend(6)
        with pytest.raises(PrivotError, match="at most 0"):
            ledger.spend(1)
        with pytest.raises(PrivotError, match="already known"):
            ledger.adopt()

    def test_a_kill_before_the_witness_is_forgiven(self, ledger, state_folder):
        """The ledger is one step ahead of the witness then."""
        witness = state_folder / "integral" / f"{IDENTITY[:32]}.json"
        before = witness.read_text()
        ledger.spend(2)
        witness.write_text(before)
        ledger.spend(3)
        assert ledger.spent == 5

    @pytest.mark.parametrize(
        "change",
        [
            lambda entries: entries[-1].update(spent=0),
            lambda entries: entries[-1].update(draws=1, spent=1),
            lambda entries: entries.pop(0),
            lambda entries: entries.clear(),
            lambda entries: entries[-1].pop("hash"),
        ],
    )
    def test_a_changed_entry_is_refused(self, ledger, change):
        ledger.spend(4)
        path = ledger.folder / FILE
        fields = json.loads(path.read_text())
        change(fields["entries"])
        path.write_text(json.dumps(fields))
        with pytest.raises(PrivotError, match="cannot be trusted"):
            ledger.spend(1)

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"entries": 3}'])
    def test_a_damaged_file_is_refused(self, ledger, text):
        (ledger.folder / FILE).write_text(text)
        with pytest.raises(PrivotError, match="cannot be trusted"):
            ledger.spend(1)

    def test_another_budget_is_refused(self, ledger):
        """The identity covers the budget, so a model.json with more draws has another one."""
        with pytest.raises(PrivotError, match="cannot be trusted"):
            FileLedger(ledger.folder, "cd" * 32, 1000).spend(1)

    def test_a_state_folder_that_cannot_be_written_is_refused(self, ledger, monkeypatch, tmp_path):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path / "file"))
        with pytest.raises(PrivotError, match="set PRIVOT_STATE_DIR"):
            ledger.spend(1)


def test_a_kill_between_spending_and_output_loses_draws_not_budget(tmp_path):
    records = np.random.default_rng(0).normal(size=(100, 1))
    IntegralModel.fit(
        records, reference=StandardNormal(1), unit="person", epsilon=1.0, draws=5
    ).save(tmp_path / "secret")
    program = f"""
import os, signal
from privot.integral import IntegralModel, TiltedDensity
TiltedDensity.draw = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
print(IntegralModel.load({str(tmp_path / "secret")!r}).sample(3))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == ""
    model = IntegralModel.load(tmp_path / "secret")
    assert model.draws_left == 2
    with pytest.raises(PrivotError, match="3 of 5 draws are spent"):
        model.sample(3)
