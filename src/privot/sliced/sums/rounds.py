"""Rounds of a run: what was released so far, once more from its checkpoint, and then what is new.

What a run asks is a function of public numbers and of what was released before. A run that goes on
after a kill therefore asks the same questions again; those that are in the checkpoint are answered from
it, at no cost. The ledger counts a round before it is made: one that was counted and whose answer was
lost is spent, and with it the plan, since later rounds would have to do without it.

**Privacy.** A run goes on with the records it began with, labels included, or not at all: sums of two
sets of records would be told as those of one. Which set that was is known from its account alone
(`privot.disk.accounts`: a keyed digest, entered before the first round, in the curator's state folder).
The checkpoint holds released sums and public settings, and nothing else of the records. That a set is
another one is told by a refusal, to the curator, before anything is spent.
"""

from __future__ import annotations

import numpy as np

from privot.errors import PrivotError
from privot.models import Checkpoint
from privot.sliced.sums.mechanism import NoisySums, Question, SumMechanism
from privot.training import Interrupted, Progress, deferred_interruption


class Rounds:
    """The releases of a run, in their order.

    Arguments:
        mechanism: Who answers.
        checkpoint: Where answers are kept; a run without resumes nothing.
        progress: Told after every round: which, of how many, and the noise that it bore.

    Raises:
        PrivotError: if the ledger counted rounds that the checkpoint lacks, or rounds of other records.
    """

    def __init__(
        self, mechanism: SumMechanism, checkpoint: Checkpoint, progress: Progress | None = None
    ) -> None:
        self._mechanism, self._checkpoint, self._progress = mechanism, checkpoint, progress
        self._kept = checkpoint.load() or {}
        self._asked = 0
        held, spent = len(self._kept) // 2, mechanism.ledger.spent
        if held != spent:
            raise PrivotError(
                f"ledger {mechanism.ledger.path} counted {spent} rounds, and {held} are in "
                f"{checkpoint.path}: restore both; a round that was lost is spent, and a run without "
                "it starts again with a budget of its own"
            )
        if held:
            mechanism.enter()

    def ask(self, question: Question) -> NoisySums:
        """The answer to the run's next question."""
        sums, stddev = f"sums_{self._asked}", f"stddev_{self._asked}"
        if sums not in self._kept:
            with deferred_interruption() as interruption:
                released = self._mechanism.release(question)
                self._kept[sums] = released.sums
                self._kept[stddev] = np.array(released.stddev)
                self._checkpoint.save(self._kept)
            if interruption.requested:
                raise Interrupted(f"stopped after round {self._asked + 1}")
        self._asked += 1
        told = NoisySums(self._kept[sums], float(self._kept[stddev]))
        if self._progress is not None:
            self._progress(self._asked, self._mechanism.ledger.plan.uses, told.stddev)
        return told
