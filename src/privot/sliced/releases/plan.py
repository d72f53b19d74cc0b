r"""The plan of a run: what will be released, with which noise, for which guarantee; and where it stands.

Public. Everything that decides privacy: the accounting (dimension, slices, records, batch,
sampling, who may differ, radius), the noise, δ, the number of releases it was calibrated for, and the
grid. It is fixed before private data are touched.

**Grid.** Projections are rounded to a power of two g, far below the noise; the accountant is told
(2 + √rows)·g. One g pays for rounding two neighbors (½ each), another for the floating-point error of
the projections: in double precision below d·2^−52·R, at most g/2 or the plan is refused. The rest pays
for the **other** rows of a batch: which rows are multiplied together depends on all labels, and with it
the last bits of every row. Each of their projections may come out one g further, √(rows·k)·g in all.

**Its guarantee** is that of all its releases, however many of them are made: `privot.disk.ledger` says
why nothing smaller may be claimed of a part.

**Where a run stands** is what it has learned, and the ledger beside its checkpoint. The ledger of `run`
is `run.ledger`. A checkpoint says whose releases it holds and how many were counted when it was
written: it is resumed with that very ledger, and only if that is not behind. A run whose releases are
all made and that left no checkpoint has nothing to go on from: it is finished.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from privot.disk import Ledger
from privot.errors import PrivotError
from privot.models import Checkpoint
from privot.privacy import ApproximateDP
from privot.privacy.slicing import Method, SlicedAccounting

_GRID_BITS = 19  # of a slice's root mean square of the sensitivity


@dataclass(frozen=True)
class SlicePlan:
    """What will be released, and the noise that keeps (ε, δ).

    Arguments:
        accounting: The setting whose privacy is accounted; its `grid` is 2 + √rows of `grid` below.
        stddev: Standard deviation σ of the noise of one projection of one row.
        steps: Number of releases.
        delta: δ of the guarantee.
        grid: Power of two to which projections and noise are rounded.
        method: `"pld"`, the privacy-loss distribution, or `"rdp"`.
    """

    accounting: SlicedAccounting
    stddev: float
    steps: int
    delta: float
    grid: float
    method: Method = "rdp"

    noun: ClassVar[str] = "releases"

    def __post_init__(self) -> None:
        if math.frexp(self.grid)[0] != 0.5 or self.accounting.grid < accounted_grid(
            self.grid, self.rows
        ):
            raise PrivotError(
                f"grid {self.grid} is no power of two, or more than the accounted "
                f"{self.accounting.grid} pays for in {self.rows} rows: use SlicePlan.calibrate"
            )
        if self.accounting.dim * self.accounting.radius * 2.0**-52 > self.grid / 2:
            raise PrivotError(
                f"grid {self.grid} is too fine for double precision in {self.accounting.dim} "
                "dimensions: give fewer dimensions or more noise"
            )

    @classmethod
    def calibrate(
        cls,
        epsilon: float,
        delta: float,
        steps: int,
        accounting: Callable[[float], SlicedAccounting],
        method: Method = "rdp",
    ) -> Self:
        """The plan with the least noise that keeps (ε, δ); `accounting` makes one of a grid."""
        free = accounting(0.0)
        grid, rows = fine_grid(free), free.overflow(steps, delta)[1]
        exact = accounting(accounted_grid(grid, rows))
        stddev = exact.calibrate(epsilon, delta, steps, method)
        return cls(exact, stddev, steps, delta, grid, method)

    @property
    def rows(self) -> int:
        """Rows of every release, padding included: public and constant."""
        return self.accounting.overflow(self.steps, self.delta)[1]

    @property
    def uses(self) -> int:
        """Releases that are declared."""
        return self.steps

    @cached_property
    def guarantee(self) -> ApproximateDP:
        """What all releases together promise: fixed in advance, for any number that is made."""
        return self.accounting.guarantee(self.stddev, self.steps, self.delta, self.method)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The plan of `to_dict`."""
        return cls(**fields | {"accounting": SlicedAccounting(**fields["accounting"])})


def accounted_grid(grid: float, rows: int) -> float:
    """What the accountant is told of a grid on which batches of as many rows are rounded."""
    return grid * (2 + math.sqrt(rows))


def fine_grid(accounting: SlicedAccounting) -> float:
    """A power of two far below a slice of the sensitivity, and so far below any useful noise."""
    slice_of = accounting.sensitivity / math.sqrt(accounting.dim)
    return 2.0 ** (math.floor(math.log2(slice_of)) - _GRID_BITS)


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
        checkpoint.save({name: x.cpu().numpy() for name, x in self.state_dict().items()})

    def restore(self, checkpoint: Checkpoint, ledger: Ledger[SlicePlan]) -> None:
        """Read what `keep` wrote, if there is anything to go on from."""
        state = checkpoint.load()
        if state is None:
            return
        try:
            self.load_state_dict({name: torch.from_numpy(x) for name, x in state.items()})
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise PrivotError(
                f"checkpoint {checkpoint.path} cannot be read ({reason}): what the ledger counted "
                "stays spent"
            ) from None
        self.check(ledger)
