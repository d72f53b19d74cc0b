r"""The plan of a run, and the ledger that counts what was released: the guarantee that was spent.

**Plan** (public). Everything that decides privacy: the accounting (dimension, slices, records, batch,
sampling, who may differ, radius), the noise, δ, the number of releases it was calibrated for, and the
grid. It is fixed before private data are touched.

**Grid.** Projections are rounded to a power of two g, far below the noise; the accountant is told
(2 + √rows)·g. One g pays for rounding two neighbors (½ each), another for the floating-point error of
the projections: in double precision below d·2^−52·R, at most g/2 or the plan is refused. The rest pays
for the **other** rows of a batch: which rows are multiplied together depends on all labels, and with it
the last bits of every row. Each of their projections may come out one g further, √(rows·k)·g in all.

**Ledger** (the curator's). `spend` comes *before* noise is drawn, and what is on disk is never less
than what was spent: blocks of releases are written down, flushed, and only then handed out. A run
that is killed loses the rest of its block, never its honesty. Of two runs on one ledger (one that seemed
dead, and its resumption) the first that finds a count that it did not write stops: what both have spent
stays counted, and nothing is spent twice. A ledger belongs to one plan; any other is refused. When it is
full, `BudgetExhausted` is raised and nothing leaves the mechanism any more.

Who sees what: counts of releases are public (they depend on no record). The ledger holds nothing else.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

from privot.errors import PrivotError
from privot.files import replacing_file
from privot.privacy import ApproximateDP
from privot.privacy.slicing import SlicedAccounting
from privot.privacy.slicing.accounting import OVERFLOW_SHARE

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]  # stands for "no such module"

Method = Literal["rdp", "pld"]
_GRID_BITS = 19  # of a slice's root mean square of the sensitivity
# Releases are written down in blocks of 16 and a hundredth of the plan: a kill costs one block.
_BLOCK, _BLOCKS = 16, 100


class BudgetExhausted(PrivotError):  # noqa: N818 (an end, not a fault)
    """Every release that the plan was calibrated for has been made."""


@dataclass(frozen=True)
class Plan:
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

    def __post_init__(self) -> None:
        if math.frexp(self.grid)[0] != 0.5 or self.accounting.grid < accounted_grid(
            self.grid, self.rows
        ):
            raise PrivotError(
                f"grid {self.grid} is no power of two, or more than the accounted "
                f"{self.accounting.grid} pays for in {self.rows} rows: use Plan.calibrate"
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
        """The plan with the least noise that keeps (ε, δ); `accounting` makes one of a grid.

        Raises:
            PrivotError: if no noise keeps the promise.
        """
        free = accounting(0.0)
        grid, rows = fine_grid(free), free.batch_capacity(steps, delta * OVERFLOW_SHARE)
        exact = accounting(accounted_grid(grid, rows))
        stddev = exact.calibrate(epsilon, delta, steps, method)
        return cls(exact, stddev, steps, delta, grid, method)

    @property
    def rows(self) -> int:
        """Rows of every release, padding included: public and constant."""
        return self.accounting.batch_capacity(self.steps, self.delta * OVERFLOW_SHARE)

    def guarantee(self, spent: int) -> ApproximateDP:
        """What `spent` releases promise; none promises everything."""
        if spent == 0:
            return ApproximateDP(0.0, 0.0, self.accounting.neighboring, self.accounting.unit)
        return self.accounting.guarantee(self.stddev, spent, self.delta, self.method)

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


def ledger_beside(checkpoint: Path | None, resume: bool) -> Path | None:
    """The file of a checkpoint's ledger.

    Raises:
        PrivotError: if a run is to go on whose ledger is gone: its releases could not be counted.
    """
    if checkpoint is None:
        return None
    path = checkpoint.with_name(checkpoint.name + ".ledger")
    if resume and checkpoint.exists() and not path.exists():
        raise PrivotError(
            f"ledger {path} is gone, and {checkpoint} holds what its releases told: restore it; to "
            "start again without it is another budget, to be added to the plan's"
        )
    return path


class Ledger:
    """How many releases of a plan were made; on disk if it has a path, never behind the truth.

    Arguments:
        plan: What may be released.
        path: File of the ledger; only in memory without one.
        resume: Whether to go on with the ledger at `path`.

    Raises:
        PrivotError: if the file belongs to another plan, or is there and `resume` is not asked for.
    """

    def __init__(self, plan: Plan, path: Path | None = None, resume: bool = False) -> None:
        self.plan, self.path, self.spent = plan, path, 0
        self._written = 0
        self._block = _BLOCK + plan.steps // _BLOCKS
        if path is not None and path.exists():
            self.spent = self._written = self._read(path, resume)

    @property
    def left(self) -> int:
        """Releases that may still be made."""
        return self.plan.steps - self.spent

    @property
    def guarantee(self) -> ApproximateDP:
        """The guarantee of what has been released so far."""
        return self.plan.guarantee(self.spent)

    def spend(self) -> None:
        """Count one release; call before anything of it exists.

        Raises:
            BudgetExhausted: if none is left.
            PrivotError: if another run spends from the same file.
        """
        if self.left < 1:
            raise BudgetExhausted(
                f"all {self.plan.steps:,} releases are spent: "
                "what was released may be used for ever; more data need a new plan and budget"
            )
        if self.spent == self._written and not self._write(
            min(self.plan.steps, self.spent + self._block)
        ):
            raise PrivotError(
                f"ledger {self.path} was written by another run, which goes on spending: let one run "
                "finish, this one has stopped"
            )
        self.spent += 1

    def close(self) -> None:
        """Write the exact count, at the end of a run or of a stage, unless another run has written."""
        self._write(self.spent)

    def _write(self, count: int) -> bool:
        """Whether the file held what this ledger wrote last, and now holds `count`."""
        if self.path is not None:
            with _alone(self.path.parent):
                if self.path.exists() and self._read(self.path, resume=True) != self._written:
                    return False
                with replacing_file(self.path, secret=True) as draft:
                    draft.write_text(json.dumps({"spent": count, "plan": self.plan.to_dict()}))
        self._written = count
        return True

    def _read(self, path: Path, resume: bool) -> int:
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            spent, plan = int(fields["spent"]), fields["plan"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PrivotError(
                f"ledger {path} cannot be read ({error}): what it counted is spent; restore it"
            ) from None
        mine = json.loads(json.dumps(self.plan.to_dict()))
        for key in sorted(mine.keys() | plan.keys()):
            if mine.get(key) != plan.get(key):
                raise PrivotError(
                    f"ledger {path} counted {spent:,} releases with {key} {plan.get(key)!r}, this "
                    f"run has {mine.get(key)!r}: resume with the same settings; another plan is "
                    "another budget, to be added to the first"
                )
        if not resume:
            raise PrivotError(
                f"ledger {path} has counted {spent:,} releases already: go on with resume "
                "(--resume), or take another path and add the two guarantees"
            )
        return spent


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time in a folder, where the file system has locks."""
    handle = None
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
    try:
        if handle is not None and fcntl is not None:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        if handle is not None:
            os.close(handle)
