r"""Privacy ledgers of a curator: a `Ledger` counts the uses of one plan, an `Account` lists all runs.

A plan declares a number of uses (releases of slices, draws of a density) and one guarantee for **all**
of them. `Ledger.spend` counts a use before it is made, so a kill may waste uses, but never budget.

**Storage.** A ledger counts in memory, or in a file: a `Chain` of entries, rewritten as a whole and
flushed with its folder. If a write takes long compared to a use, uses are reserved from the file in
blocks (`ahead`). `close` returns unused ones, and a kill loses them. A **witness** in the state folder
(`privot.core.files`) contains the head of the chain, which is the hash of its last entry. File and
witness change under one lock of all threads and processes.

*No overspending.* Every block is appended, under the lock, to a chain that contains the witness's
head, and the new head is then written to the witness. So all blocks are on **one** chain, whose sum
never exceeds the plan. (If a kill leaves a block in the file but not in the witness, the next reader
writes the witness.) Therefore the ledger refuses

- a **restored** or **copied** file, after uses were spent from the other copy, because it does not
  contain the witness's head. Before that, all copies share one budget;
- a file from **another account or machine**, for which there is no witness. `adopt` declares that the
  original was not used after it was copied, and will not be;
- a file with a changed entry or plan.

A ledger belongs to **one process**: it cannot be copied or pickled, nor used by a forked child
(`privot.core.processes`). Threads share it.

A ledger does not detect uses on machines without a common state folder after `adopt`, a state folder
that is restored together with the ledger (a snapshot of the machine), and deliberate changes of files,
hashes and witness. It prevents accidents, not fraud: the curator has the records and is trusted.

**When to stop.** The plan's guarantee, fixed in advance, holds after any number of uses and for any
stopping rule, because a part of the output is a function of the whole. The (ε, δ) of the uses that
*were* made is no guarantee if their number depends on their output: a reader who stops when the loss is
large collects the events of probability δ of all numbers. Only the curator sees the times of uses. Their
counts are public, because they depend on no record.

**Accounts** list all runs on the same records. A plan's guarantee covers one run. A second run on the
same records spends a second budget, even if the first run's ledger was deleted, or the second run uses
another folder or method, and the guarantees add up (`privot.privacy.compose`). So each run is entered in
the account of its records, with its plan's **whole** guarantee, before anything is released. A resumed
run has one entry, under its ledger's id, and must use the same records as before. Entries are never
removed. If no rule composes some runs (different units, `zero_out` and `replace_one`), there is **no
guarantee of all of them**, and the account states one sum for each composable group.

**The number of runs** must not depend on their releases, if δ > 0, because the sum of the runs that
*were* made is no privacy odometer. A curator who repeats runs until a release shows something also
spends the δ of every run that might have followed.

**Who sees what.** Which runs share an account is a function of raw data, which reveals whether two sets
of records are equal. Only the curator sees it: by a warning on standard error when a run is entered
(`RepeatedRecords`), a refusal to resume with other records, and `accounts`. It is never written to
a model, a history or a report. Accounts cover runs with a common state folder, on records that are equal
row for row. The curator must add the guarantees of other runs, or of runs on overlapping records.

**The fingerprint** that names an account is secret, and equal for equal records in any order: a keyed
hash of a multiset (Clarke et al. 2003, *MSet-Add-Hash*). With a pseudorandom function $F_k$ of one row,
here BLAKE2b keyed by the user account's secret key,

$$ H_k(M) = F_k\Big(|M|,\ \sum_{x ∈ M} F_k(x) \bmod 2^{256}\Big). $$

A sum does not depend on order, and counts repeated rows. Without $k$ the digests are random: they reveal
neither records nor whether sets of two user accounts are equal. **With the key one can test whether a
guessed set is the one that was used**, so the digest, a function of raw data, stays in the state folder.
A row is the whole record with its label, flattened, in single precision, so that it does not matter in
which precision pixels were divided by 255. Another number of records, label, scale or encoding gives
another digest. So a table has one digest for slices (of coordinates) and one for sums (of codes).

References:
    Clarke, Devadas, van Dijk, Gassend, Suh, *Incremental multiset hash functions and their application
    to memory integrity checking* (2003).
"""

import datetime as dt
import hashlib
import json
import os
import secrets
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import MOST_ROWS, PrivotError, require_count
from privot.core.files import holding_state, secret_key, write_json, writing_json
from privot.core.processes import OwnProcess
from privot.privacy import Guarantee, compose, guarantee_from_dict


@dataclass(frozen=True)
class Chain:
    r"""Content of a ledger's file: a hash chain of entries.

    A plan and a random number are the ledger's identity. Entry $i$ contains its number of uses, the
    total number of uses so far, and

    $$ h_i = \mathrm{SHA256}(\text{entry}_i, h_{i-1}),
    \qquad h_0 = \mathrm{SHA256}(\text{id}, \text{plan}). $$

    A negative number of uses returns unused ones. A changed plan, number or order does not match the
    hashes. The hashes have no key, so they detect accidents, but not forgery.

    Arguments:
        id: Random number of the ledger, 32 hexadecimal digits.
        plan: Plan of the uses, as plain values.
        entries: Entries, oldest first.
    """

    id: str
    plan: dict[str, Any]
    entries: tuple[dict[str, Any], ...] = ()

    @property
    def spent(self) -> int:
        """Total number of uses."""
        return int(self.entries[-1]["spent"]) if self.entries else 0

    @property
    def head(self) -> str:
        """Hash of the last entry, or of the identity if there are no entries."""
        return str(self.entries[-1]["hash"]) if self.entries else self.hashes[0]

    @property
    def hashes(self) -> list[str]:
        """Hashes of the identity and of every entry."""
        identity = _hash({"id": self.id, "plan": self.plan})
        return [identity, *(entry["hash"] for entry in self.entries)]

    def with_entry(self, uses: int) -> Self:
        """Return the chain with one more entry, of `uses` uses."""
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        fields = {"uses": uses, "spent": self.spent + uses, "at": now, "previous": self.head}
        entry = fields | {"hash": _hash(fields)}
        return type(self)(self.id, self.plan, (*self.entries, entry))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and verify the chain of a file; raise PrivotError if it is missing or damaged."""
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            chain = cls(fields["id"], dict(fields["plan"]), tuple(fields["entries"]))
            chain._verify()
        except FileNotFoundError:
            raise PrivotError(
                f"ledger {path} is gone, and nobody knows how much is spent: restore it; to start "
                "again without it is another budget, which adds to the plan's"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise PrivotError(
                f"ledger {path} cannot be trusted ({type(error).__name__}: {error}): nobody knows how "
                "much is spent, so restore it, or start again with a budget of its own"
            ) from None
        return chain

    def _verify(self) -> None:
        """Raise ValueError if the entries do not match their hashes and totals."""
        if not self.entries:
            raise ValueError("it has no entries")
        previous, spent = self.hashes[0], 0
        for entry in self.entries:
            fields = {name: value for name, value in entry.items() if name != "hash"}
            spent += entry["uses"]
            stated = (entry["previous"], entry["spent"], entry["hash"])
            if stated != (previous, spent, _hash(fields)) or spent < 0:
                raise ValueError("an entry was changed")
            previous = entry["hash"]


def updating_witness(chain: Chain, state: Path) -> AbstractContextManager[None]:
    """Return a context whose block writes the chain's file, and whose end sets the witness to its head.

    Use it with the state folder locked. A kill between the two writes leaves the witness at an earlier
    entry of the chain, until `check_witness` reads both. The draft of the witness is written before the
    block, so that neither changes if the disk is full.
    """
    return writing_json(_witness_path(chain, state), {"spent": chain.spent, "head": chain.head})


def check_witness(chain: Chain, ledger: Path, state: Path) -> None:
    """Set the witness, with the state locked, to a chain's head; PrivotError if it lacks the old one."""
    try:
        witness = json.loads(_witness_path(chain, state).read_text(encoding="utf-8"))
        head, spent = witness["head"], int(witness["spent"])
    except FileNotFoundError:
        raise PrivotError(
            f"ledger {ledger} was never seen by this account, so it is a copy: use it where it was "
            "begun, or say `privot account spent --adopt` if the original was not used since it was "
            "copied, and never will be"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PrivotError(
            f"the witness of ledger {ledger} cannot be read ({error}): restore the state folder"
        ) from None
    if head not in chain.hashes:
        raise PrivotError(
            f"ledger {ledger} was rolled back or copied: {spent:,} are known to be spent, it knows of "
            f"{chain.spent:,}; restore the newest"
        )
    if head != chain.head:  # after a kill; from now on, copies from before it are refused
        with updating_witness(chain, state):
            pass  # the chain's file exists


def adopt(ledger: Path) -> None:
    """Write a witness for a ledger's file from another account or machine, so that it can be used here.

    Call it only if the original was not used after it was copied, and never will be. Otherwise the
    budget is spent twice.

    Raises:
        PrivotError: if the file is missing or damaged, or this account has a witness of it.
    """
    chain = Chain.read(ledger)
    with holding_state() as state:
        if _witness_path(chain, state).exists():
            raise PrivotError(f"ledger {ledger} is already known to this account: use it as it is")
        with updating_witness(chain, state):
            pass  # the chain's file exists


def _witness_path(chain: Chain, state: Path) -> Path:
    return state / "ledgers" / f"{chain.id}.json"


def _hash(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


class BudgetExhausted(PrivotError):  # noqa: N818 (the normal end of a plan, not a fault)
    """Fewer uses are left than requested."""


class Plan(ABC):
    """Plan of a declared number of uses: a dataclass of all settings that determine privacy."""

    noun: ClassVar[str] = "releases"  # name of the uses, in the plural

    @property
    @abstractmethod
    def uses(self) -> int:
        """Number of declared uses."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Guarantee of all declared uses together, made or not."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)  # type: ignore[call-overload]  # all are dataclasses

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Return the plan of `to_dict`."""
        return cls(**fields)


P = TypeVar("P", bound=Plan)


class Ledger(OwnProcess, Generic[P]):
    """Counter of the uses of one plan, which refuses more than the plan declares.

    Arguments:
        plan: Plan of the uses.
        path: File of the counts, written at the first use; None counts in memory.
        resume: Whether to continue an existing file.
        ahead: Number of uses reserved from the file at once, beyond those requested.

    Raises:
        PrivotError: if the file has another plan, is a copy or damaged, or exists without `resume`.

    >>> from privot.integral.model import DrawPlan
    >>> ledger = Ledger(DrawPlan("a model", draws=10, epsilon=0.5, delta=0.0, unit="person"))
    >>> ledger.spent, ledger.left
    (0, 10)
    """

    def __init__(
        self, plan: P, path: Path | None = None, *, resume: bool = False, ahead: int = 0
    ) -> None:
        super().__init__()
        self.plan, self.id = plan, secrets.token_hex(16)
        # The plan's values as they are read back from the file.
        self._plan_values: dict[str, Any] = json.loads(json.dumps(plan.to_dict()))
        self.path = None if path is None else path.absolute()
        self._ahead, self._has_file = ahead, False
        self._lock = threading.Lock()
        # `_unused` is the number of reserved uses not yet made. In memory, all uses are reserved.
        self._reserved = self._unused = plan.uses if path is None else 0
        if self.path is not None and self.path.exists():
            chain = Chain.read(self.path)
            self._check_plan(chain)
            if not resume:
                raise PrivotError(
                    f"ledger {path} has counted {chain.spent:,} {plan.noun} already: go on with "
                    "resume (--resume), or take another path, whose budget adds to this one"
                )
            self.id, self._has_file = chain.id, True
            with holding_state() as state:
                self._reserved = self._verified(state).spent

    @property
    def spent(self) -> int:
        """Number of uses counted so far, by all processes that share this file."""
        self._check_process()
        with self._lock:
            if self._has_file and not self._unused:
                with holding_state() as state:
                    self._reserved = self._verified(state).spent
            return self._reserved - self._unused

    @property
    def left(self) -> int:
        """Number of uses that may still be made."""
        return self.plan.uses - self.spent

    def spend(self, uses: int = 1) -> int:
        """Count uses; call it before they are made.

        Returns:
            Total number of uses counted so far. If `ahead` is 0, no process returns a number twice.

        Raises:
            BudgetExhausted: if fewer uses are left; none is then spent. PrivotError: if `uses` is no
            positive integer, or the ledger is damaged or of another process.
        """
        self._check_process()
        uses = require_count("n", uses, MOST_ROWS, f"how many {self.plan.noun} to make")
        with self._lock:
            if uses > self._unused:
                self._reserve(uses - self._unused)
            self._unused -= uses
            return self._reserved - self._unused

    def begin(self, path: Path | None = None) -> None:
        """Write the ledger's file before the first use, at `path` if the ledger counts in memory.

        Raises:
            PrivotError: if this ledger already counts in a file, or the file exists.
        """
        self._check_process()
        with self._lock:
            if path is not None and self.path is not None:
                raise PrivotError(
                    f"ledger {self.path} counts already: a second file would double the budget"
                )
            target = self.path or path
            if target is not None and not self._has_file:
                self._write_first_entry(target.absolute())

    def close(self) -> None:
        """Return unused uses to the file, at the end of a run or of a stage."""
        self._check_process()
        with self._lock:
            if not self._has_file or not self._unused:
                return
            # Set to 0 before the file is written: a failure may lose uses, but never doubles them.
            rest, self._unused = self._unused, 0
            with holding_state() as state:
                self._append(self._verified(state), -rest, state)

    def _reserve(self, needed: int) -> None:
        """Reserve at least `needed` more uses from the file."""
        if self.path is None:
            self._refuse(needed, 0)
        if not self._has_file:
            self._write_first_entry(self.path)
        with holding_state() as state:
            chain = self._verified(state)
            left = self.plan.uses - chain.spent
            if needed > left:
                self._reserved = chain.spent
                self._refuse(needed, left)
            block = min(left, needed + self._ahead)
            self._append(chain, block, state)
        self._unused += block

    def _write_first_entry(self, path: Path) -> None:
        """Write the file, with the uses made so far, and count in it from now on."""
        used = self._reserved - self._unused
        chain = Chain(self.id, self._plan_values).with_entry(used)
        with holding_state() as state:
            if path.exists():
                raise PrivotError(
                    f"ledger {path} was begun by another run: let it finish, or take another path, "
                    "whose budget adds to that one"
                )
            with updating_witness(chain, state):
                write_json(path, asdict(chain))
        self.path, self._has_file = path, True
        self._reserved, self._unused = used, 0

    def _append(self, chain: Chain, uses: int, state: Path) -> None:
        assert self.path is not None
        longer = chain.with_entry(uses)
        with updating_witness(longer, state):
            write_json(self.path, asdict(longer))
        self._reserved = longer.spent

    def _verified(self, state: Path) -> Chain:
        """Read the file's chain; refuse another ledger's chain, or one without the witness's head."""
        assert self.path is not None
        chain = Chain.read(self.path)
        self._check_plan(chain)
        if chain.id != self.id:
            raise PrivotError(
                f"ledger {self.path} was replaced by another run's: this run has stopped; restore it"
            )
        check_witness(chain, self.path, state)
        return chain

    def _check_plan(self, chain: Chain) -> None:
        """Raise PrivotError if the chain has another plan than this ledger."""
        values = self._plan_values
        for key in sorted(values.keys() | chain.plan.keys()):
            if values.get(key) != chain.plan.get(key):
                raise PrivotError(
                    f"ledger {self.path} counted {chain.spent:,} {self.plan.noun} with {key} "
                    f"{chain.plan.get(key)!r}, this run has {values.get(key)!r}: go on with the same "
                    "settings; another plan is another budget, which adds to the first"
                )

    def _refuse(self, needed: int, left: int) -> NoReturn:
        """Raise BudgetExhausted: `needed` uses beyond the reserved ones, and the file has `left`."""
        uses, noun, left = self.plan.uses, self.plan.noun, left + self._unused
        if not left:
            raise BudgetExhausted(
                f"all {uses:,} {noun} are spent: what was released may be used for ever; more need a "
                "plan and a budget of their own, which adds to this one"
            )
        raise BudgetExhausted(
            f"n {needed + self._unused:,} is more than the budget leaves, {left:,} of {uses:,} "
            f"{noun}: ask for at most {left:,}, or make a plan with a budget of its own"
        )

    def _check_process(self) -> None:
        if self.is_copy:
            raise PrivotError(
                f"this ledger belongs to process {self._process}, and a copy in process {os.getpid()} "
                "would spend its budget twice: make or load it in the process that uses it"
            )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise PrivotError("a ledger is not copied or pickled: a copy would double its budget")


class RepeatedRecords(UserWarning):
    """Warning, for the curator only, that the records of this run were used before."""


@dataclass(frozen=True)
class Run:
    """One entry of an account: a run, with the guarantee of its whole plan.

    Arguments:
        ledger: Identity of the run's ledger.
        uses: Declared uses of the plan, in words.
        begun: Day of the entry, ISO 8601.
        guarantee: Guarantee of the whole plan.
    """

    ledger: str
    uses: str
    begun: str
    guarantee: Guarantee

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return vars(self) | {"guarantee": self.guarantee.to_dict()}


class ComposedRuns(NamedTuple):
    """Guarantee of several runs together, and their number."""

    guarantee: Guarantee
    runs: int


@dataclass(frozen=True)
class Account:
    """All runs on one set of records; a function of raw data, for the curator only.

    Arguments:
        digest: Keyed fingerprint of the records.
        runs: Runs, oldest first.

    >>> from privot.privacy import ApproximateDP
    >>> run = Run("a1", "10 releases", "2026-11-01", ApproximateDP(1.0, 1e-6, "replace_one"))
    >>> print(Account("digest", (run, run)))
    2 runs, together ε = 2, δ = 2e-06, replace_one, per person
    """

    digest: str
    runs: tuple[Run, ...]

    @property
    def sums(self) -> tuple[ComposedRuns, ...]:
        """Guarantee of each group of runs that compose; usually there is one group."""
        sums: list[ComposedRuns] = []
        for run in self.runs:
            for index, (total, count) in enumerate(sums):
                try:
                    sums[index] = ComposedRuns(compose(total, run.guarantee), count + 1)
                    break
                except PrivotError:
                    continue
            else:
                sums.append(ComposedRuns(run.guarantee, 1))
        return tuple(sums)

    def __str__(self) -> str:
        runs = f"{len(self.runs)} runs" if len(self.runs) > 1 else "1 run"
        sums = self.sums
        if len(sums) == 1:
            return f"{runs}, together {sums[0].guarantee}"
        parts = "; ".join(f"of {count} alone {total}" for total, count in sums)
        return f"{runs}, and no promise covers what all of them released: {parts}"


def fingerprint(batches: Iterable[NDArray[Any]]) -> str:
    """Return the secret digest H_k, 64 hexadecimal digits, of the records of all batches (n, …)."""
    key, row_sum, count = secret_key(), 0, 0
    keyed = blake2b(key=key, digest_size=32)
    for batch in batches:
        with np.errstate(over="ignore", invalid="ignore"):
            rows = np.ascontiguousarray(batch, np.float32).reshape(len(batch), -1)
            rows = rows + np.float32(0.0)  # −0 becomes 0
        data, width = rows.tobytes(), 4 * rows.shape[1]
        for start in range(0, len(data), width):
            row = keyed.copy()
            row.update(data[start : start + width])
            row_sum += int.from_bytes(row.digest(), "little")
        count += len(rows)
    return blake2b(b"%d,%d" % (count, row_sum % 2**256), key=key, digest_size=32).hexdigest()


def charge(digest: str, ledger: Ledger[Any]) -> Account:
    """Enter a ledger's run in the account of its records; warn if it is not the first run.

    Arguments:
        digest: Fingerprint of the records.
        ledger: Ledger of the run; call this before anything of the run is released.

    Raises:
        PrivotError: if the run has already spent uses on other records.
    """
    plan, resumed = ledger.plan, ledger.spent > 0
    today = dt.datetime.now(dt.UTC).date().isoformat()
    run = Run(ledger.id, f"{plan.uses:,} {plan.noun}", today, plan.guarantee)
    with holding_state() as state:
        path = state / "accounts" / f"{digest}.json"
        account = _read_account(path) if path.exists() else Account(digest, ())
        if any(earlier.ledger == run.ledger for earlier in account.runs):
            return account
        others = map(_read_account, (state / "accounts").glob("*.json"))
        if resumed and any(r.ledger == run.ledger for other in others for r in other.runs):
            raise PrivotError(
                f"ledger {ledger.path} counts a run on other records than these: resume it with those, "
                "or give these a run of their own"
            )
        account = Account(digest, (*account.runs, run))
        write_json(path, {"runs": [entry.to_dict() for entry in account.runs]})
    if len(account.runs) > 1:
        warnings.warn(
            f"these records were used before ({account.runs[-2].begun}), and another run is another "
            f"budget: {account}; this is for the curator alone, `privot account spent` lists the runs",
            RepeatedRecords,
            stacklevel=3,
        )
    return account


def accounts() -> list[Account]:
    """Return all accounts of this user, sorted by the day of their first run; for the curator only."""
    with holding_state() as state:
        found = [_read_account(path) for path in sorted((state / "accounts").glob("*.json"))]
    return sorted(found, key=lambda account: account.runs[0].begun)


def _read_account(path: Path) -> Account:
    """Return the account of a file; raise PrivotError if it is damaged."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["runs"]
        runs = [Run(**r | {"guarantee": guarantee_from_dict(r["guarantee"])}) for r in entries]
        return Account(path.stem, tuple(runs))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PrivotError(
            f"account {path} cannot be read ({error}): restore it, for it knows what was spent"
        ) from None
