"""Where a run on private records stands: what it has learned, and the ledger beside its checkpoint.

The ledger of `run` is `run.ledger`. A checkpoint says whose releases it holds and how many were counted
when it was written: it is resumed with that very ledger, and only if that is not behind. A run whose
releases are all made and that left no checkpoint has nothing to go on from: it is finished.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from privot.disk import Ledger
from privot.errors import PrivotError
from privot.models import Checkpoint
from privot.sliced.releases.plan import SlicePlan

# Releases are taken in blocks of 16 and a hundredth of the plan: a kill costs one block.
_BLOCK, _BLOCKS = 16, 100


class Counted(nn.Module):
    """Modules that learn from releases, and how many of them were counted by then.

    Arguments:
        learned: What travels with a checkpoint, by name.
    """

    spent: Tensor

    def __init__(self, **learned: nn.Module) -> None:
        super().__init__()
        self.learned = nn.ModuleDict(learned)
        self.register_buffer("spent", torch.zeros((), dtype=torch.int64))

    def count(self, ledger: Ledger[SlicePlan]) -> None:
        """Note what the ledger has counted; call after every release that is learned from."""
        self.spent.fill_(ledger.spent)

    def check(self, ledger: Ledger[SlicePlan]) -> None:
        """Refuse a ledger that has counted fewer releases than were learned from."""
        if int(self.spent) > ledger.spent:
            raise PrivotError(
                f"ledger {ledger.path} is behind its checkpoint, which holds what {int(self.spent):,} "
                f"releases told: {ledger.spent:,} are counted; restore the newest ledger"
            )

    def keep(self, checkpoint: Checkpoint, ledger: Ledger[SlicePlan]) -> None:
        """Write all that was learned; an existing file survives any failure."""
        self.count(ledger)
        checkpoint.save(self.state_dict())

    def restore(self, checkpoint: Checkpoint, ledger: Ledger[SlicePlan]) -> None:
        """Read what `keep` wrote, if there is anything to go on from."""
        state = checkpoint.load()
        if state is None:
            return
        try:
            self.load_state_dict(state)
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise PrivotError(
                f"checkpoint {checkpoint.path} cannot be read ({reason}): what the ledger counted "
                "stays spent"
            ) from None
        self.check(ledger)


def open_ledger(plan: SlicePlan, checkpoint: Path | None, resume: bool) -> Ledger[SlicePlan]:
    """The ledger of a run: beside its checkpoint, or in memory if there is none."""
    if checkpoint is None:
        return Ledger(plan)
    path = checkpoint.with_name(checkpoint.name + ".ledger")
    if resume and checkpoint.exists() and not path.exists():
        raise PrivotError(
            f"ledger {path} is gone, and {checkpoint} holds what its releases told: restore it; to "
            "start again without it is another budget, which adds to the plan's"
        )
    ledger = Ledger(plan, path, resume=resume, ahead=_BLOCK + plan.steps // _BLOCKS)
    if resume and path.exists() and not checkpoint.exists() and not ledger.left:
        raise PrivotError(
            f"ledger {path} has counted all {plan.steps:,} releases and there is no {checkpoint} to go "
            "on from: this run is finished, use its model; another path is another budget"
        )
    return ledger
