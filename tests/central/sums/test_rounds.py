"""Rounds are answered once; a run that goes on hears the same answers, and lost ones are not made up."""

from dataclasses import dataclass

import numpy as np
import pytest

from privot.central.sums import Query, Rounds, SumMechanism, SumPlan
from privot.core.errors import PrivotError
from privot.models import Checkpoint
from privot.privacy.ledger import BudgetExhausted, Ledger

PLAN = SumPlan((1.0, 1.0, 1.0), 1e-5, 20)


@dataclass(frozen=True)
class Count(Query):
    """How many records there are."""

    slots = width = radius = moment = 1
    non_negative = True

    def answer(self, records):
        count = len(records[0])
        return np.zeros(count, int), np.ones((count, 1), int)


def rounds(folder, resume=False, **more):
    ledger = Ledger(PLAN, folder / "run.ledger", resume=resume)
    state = Checkpoint(folder / "run", {"ledger": ledger.id}, resume)
    return Rounds(SumMechanism((np.zeros(20),), ledger), state, **more)


def test_a_resumed_run_has_the_same_answers(tmp_path):
    first = rounds(tmp_path)
    answers = [first.release(Count()).sums[0, 0] for _ in range(2)]
    told = []
    second = rounds(tmp_path, resume=True, progress=lambda *at: told.append(at))
    again = [second.release(Count()).sums[0, 0] for _ in range(3)]
    assert again[:2] == answers
    assert [at[:2] for at in told] == [(1, 3), (2, 3), (3, 3)]
    with pytest.raises(BudgetExhausted):
        second.release(Count())


def test_answers_that_were_lost_end_the_run(tmp_path):
    started = rounds(tmp_path)
    started.release(Count())
    kept = (tmp_path / "run").read_bytes()
    started.release(Count())
    (tmp_path / "run").write_bytes(kept)
    with pytest.raises(PrivotError, match="counted 2 rounds, and 1 are in"):
        rounds(tmp_path, resume=True)
