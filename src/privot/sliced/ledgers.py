"""The ledger of a run by noisy sums or slices: a file beside its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from privot.disk import Countable, Ledger
from privot.errors import PrivotError

# Releases are taken in blocks of a hundredth of the plan: a kill costs one block.
_BLOCKS = 100
P = TypeVar("P", bound=Countable)


def open_ledger(plan: P, checkpoint: Path | None, resume: bool) -> Ledger[P]:
    """The ledger of a run: beside its checkpoint, or in memory if there is none."""
    if checkpoint is None:
        return Ledger(plan)
    path = checkpoint.with_name(checkpoint.name + ".ledger")
    if resume and checkpoint.exists() and not path.exists():
        raise PrivotError(
            f"ledger {path} is gone, and {checkpoint} holds what its releases told: restore it; to "
            "start again without it is another budget, which adds to the plan's"
        )
    ledger = Ledger(plan, path, resume=resume, ahead=plan.uses // _BLOCKS)
    if resume and path.exists() and not checkpoint.exists() and not ledger.left:
        raise PrivotError(
            f"ledger {path} has counted all {plan.uses:,} {plan.noun} and there is no {checkpoint} to "
            "go on from: this run is finished, use its model; another path is another budget"
        )
    return ledger
