r"""Ledgers count a plan's declared uses, before each use; accounts compose all runs on the same records.

A plan declares a number of uses (releases of slices, draws of a density) and one guarantee for **all**
of them. `spend` counts before the use exists, so that a kill between the two loses uses, never budget;
the use after the last is refused.

**Storage.** A ledger counts in memory, or in a file: a `Chain` of entries, replaced as a whole and
flushed with its folder. Where a write takes long compared to a use, uses are taken from the file in
blocks (`ahead`); `close` returns the rest, a kill loses it. Outside, in the state folder, a **witness**
holds the head of the chain; file and witness change under one lock of all threads and processes.

*Nobody overspends.* Every block is appended, under the lock, to a chain that contains the witness's
head, and the witness then names the new head. So all blocks lie on **one** chain, whose sum never
exceeds the plan. (A block that a kill leaves between file and witness was never used.) Refused are
therefore

- a file that was **restored** or **copied**, once the other has been spent from: the witness's head is
  not in it; before, all copies share one budget;
- a file from **another account or machine**: there is no witness. `adopt` declares that the original
  will not be used again;
- an entry or a plan that was changed.

A ledger exists **once, in one process**: it is not copied or pickled, nor used by the child of a fork
(`privot.core.processes`). Threads share it.

Not detected are: use on machines that do not share a state folder, after `adopt`; a state folder rolled
back together with the ledger (a snapshot of the machine); someone who rewrites files, hashes and
witness. The curator holds the records, and is trusted: a ledger protects from accidents, not its owner.

**When to stop.** The guarantee is the plan's, fixed in advance, after any number of uses: a part of the
output is a function of the whole, whatever the stopping rule. The (ε, δ) of as many uses as *were* made
would not be a guarantee if that number depends on their output: each number's δ is the probability of
its own bad event, and a reader who stops when the loss is large collects them all.

Who sees what: counts are public, they depend on no record. Times in the file are the curator's.

**Accounts** hold all runs on the same records. A plan's guarantee covers one run; a second run, with the
first one's ledger deleted, in another folder, by another method, is a second budget, and the guarantee
of both is their sum (`privot.privacy.compose`). So each run, before anything of it is released, is
entered in the account of its records with its plan's **whole** guarantee; a resumed run has one entry,
that of its ledger, and is refused on other records. Entries are never removed. Where no rule composes
runs (different units, `zero_out` beside `replace_one`) there is **no guarantee of all of them**, and
each part has its own sum.

**The number of runs** must not depend on their releases, if δ > 0: the sum of the runs that *were* made
is no privacy odometer. Whoever continues until a release shows something spends the δ of every run that
might have followed, too.

**Who sees what.** Which runs share an account is a function of raw data: it reveals whether two sets of
records are equal. Only the curator sees it: by a warning on standard error when a run is entered
(`RepeatedRecords`), a refusal to resume with other records, and `accounts`. It is never written to
a model, a history or a report. Accounts cover runs that share a state folder, on records that are equal
row for row; runs elsewhere, or on records that overlap, the curator must add.

**The fingerprint** that names an account is equal for equal records in any order, and secret: a keyed
hash of a multiset (Clarke et al. 2003, *MSet-Add-Hash*). With a pseudorandom function $F_k$ of one row,
here BLAKE2b keyed by the user account's secret key,

$$ H_k(M) = F_k\Big(|M|,\ \sum_{x ∈ M} F_k(x) \bmod 2^{256}\Big). $$

A sum does not depend on order, and counts repeated rows. Without $k$ the digests are random: they reveal
neither records nor, from one user account to another, whether two sets are equal. **With the key one can
test whether a guessed set is the one that was used**: the digest is a function of raw data and stays in
the state folder, with the curator. A row is the whole record, its label included. Rows are compared in
single precision, flattened, so that it does not matter whether pixels were divided by 255 in single
or in double precision. One record more or fewer, another label, scale or encoding (of the same table as
coordinates of slices and as codes of sums) is another set.

References:
    Clarke, Devadas, van Dijk, Gassend, Suh, *Incremental multiset hash functions and their application
    to memory integrity checking* (2003).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import secrets
import threading
import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Generic, NoReturn, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import MOST_ROWS, PrivotError, require_count
from privot.core.files import holding_state, secret_key, write_down, writing_down
from privot.core.processes import OwnProcess
from privot.privacy import Guarantee, compose, guarantee_from_dict


@dataclass(frozen=True)
class Chain:
    r"""The content of a ledger's file.

    **The chain.** The file names a plan and a random number; together they are the ledger's identity.
    Entry $i$ holds the uses that it took, the uses spent by then, and

    $$ h_i = \mathrm{SHA256}(\text{entry}_i, h_{i-1}),
    \qquad h_0 = \mathrm{SHA256}(\text{id}, \text{plan}). $$

    An entry of a negative number returns unused uses. A changed plan, number or order does not match the
    hashes. They hold no secret: they detect accidents, not forgers.

    **The witness** holds the head of the chain, which an older copy of the file does *not* contain. Both
    are written under one lock, the file first: a kill in between leaves the witness on an earlier entry
    of the chain, which is accepted. The witness's draft is on the disk before: where there is no room
    for it, the file stays as it is.

    Arguments:
        id: Random number of the ledger, 32 hexadecimal digits.
        plan: Plan of the uses, plain values.
        entries: Entries, oldest first.
    """

    id: str
    plan: dict[str, Any]
    entries: tuple[dict[str, Any], ...] = ()

    @property
    def spent(self) -> int:
        """Uses spent."""
        return int(self.entries[-1]["spent"]) if self.entries else 0

    @property
    def head(self) -> str:
        """Hash of the last entry, or of the identity."""
        return str(self.entries[-1]["hash"]) if self.entries else self.hashes[0]

    @property
    def hashes(self) -> list[str]:
        """Hashes of the identity and of every entry."""
        identity = _hash({"id": self.id, "plan": self.plan})
        return [identity, *(entry["hash"] for entry in self.entries)]

    def taking(self, uses: int) -> Self:
        """Return the chain with one more entry."""
        fields = {
            "uses": uses,
            "spent": self.spent + uses,
            "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "previous": self.head,
        }
        entry = fields | {"hash": _hash(fields)}
        return type(self)(self.id, self.plan, (*self.entries, entry))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"id": self.id, "plan": self.plan, "entries": list(self.entries)}

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and verify the chain of a file."""
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


def witnessing(chain: Chain, state: Path) -> AbstractContextManager[None]:
    """Write a chain's head to the witness after the block; only while holding the state folder."""
    return writing_down(_path(chain, state), {"spent": chain.spent, "head": chain.head})


def check_witness(chain: Chain, ledger: Path, state: Path) -> None:
    """Refuse a chain without the witness's head; only while holding the state folder."""
    try:
        seen = json.loads(_path(chain, state).read_text(encoding="utf-8"))
        head, spent = seen["head"], int(seen["spent"])
    except FileNotFoundError:
        raise PrivotError(
            f"ledger {ledger} was never seen by this account, so it is a copy: use it where it was "
            "begun, or say `privot account spent --adopt` if the original will never be used again"
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


def adopt(ledger: Path) -> None:
    """Let this account use a ledger's file that came from elsewhere.

    Only if the original will never be used again: otherwise the budget is spent twice.

    Raises:
        PrivotError: if the file cannot be trusted, or this account has a witness of it.
    """
    chain = Chain.read(ledger)
    with holding_state() as state:
        if _path(chain, state).exists():
            raise PrivotError(f"ledger {ledger} is already known to this account: use it as it is")
        with witnessing(chain, state):
            pass


def _path(chain: Chain, state: Path) -> Path:
    return state / "ledgers" / f"{chain.id}.json"


def _hash(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


class BudgetExhausted(PrivotError):  # noqa: N818 (an end, not a fault)
    """Every use that the plan declared has been made."""


class Countable(Protocol):
    """A plan of a declared number of uses."""

    @property
    def uses(self) -> int:
        """Number of declared uses."""

    @property
    def noun(self) -> str:
        """Name of the uses, in the plural."""

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of all uses together."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything that decides privacy, as plain values."""


P = TypeVar("P", bound=Countable)


class Ledger(OwnProcess, Generic[P]):
    """Counts the uses of one plan, and refuses more than it declares.

    Arguments:
        plan: Plan of the uses.
        path: File to count in, begun with the first use; None counts in memory.
        resume: Whether to go on with a file that is there.
        ahead: Uses taken from the file at once, beyond those requested.

    Raises:
        PrivotError: if the file belongs to another plan, is a copy or cannot be trusted, or is there
            and `resume` is False.

    Examples:
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
        self.path = None if path is None else path.absolute()
        self._ahead, self._begun = ahead, False
        self._alone = threading.Lock()
        # Of `_taken` uses, `_in_hand` are still to be made; in memory, all are taken at once.
        self._taken = self._in_hand = plan.uses if path is None else 0
        if self.path is not None and self.path.exists():
            chain = Chain.read(self.path)
            self._check_plan(chain)
            if not resume:
                raise PrivotError(
                    f"ledger {path} has counted {chain.spent:,} {plan.noun} already: go on with "
                    "resume (--resume), or take another path, whose budget adds to this one"
                )
            self.id, self._begun = chain.id, True
            with holding_state() as state:
                self._taken = self._verified(state).spent

    @property
    def spent(self) -> int:
        """Uses counted so far, by everyone who counts in this file."""
        self._check_process()
        with self._alone:
            if self._begun and not self._in_hand:
                with holding_state() as state:
                    self._taken = self._verified(state).spent
            return self._taken - self._in_hand

    @property
    def left(self) -> int:
        """Uses that may still be made."""
        return self.plan.uses - self.spent

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of all declared uses together, however many are made."""
        return self.plan.guarantee

    def spend(self, uses: int = 1) -> int:
        """Count uses; call before anything of them exists.

        Returns:
            Number of uses counted now, these included. A ledger that takes none ahead returns no number
            twice, in any process.

        Raises:
            BudgetExhausted: if fewer are left; then none is spent.
            PrivotError: if `uses` is not a positive integer, or the ledger cannot be trusted, or belongs
                to another process.
        """
        self._check_process()
        uses = require_count("n", uses, MOST_ROWS, f"how many {self.plan.noun} to make")
        with self._alone:
            if uses > self._in_hand:
                self._take(uses - self._in_hand)
            self._in_hand -= uses
            return self._taken - self._in_hand

    def begin(self, path: Path | None = None) -> None:
        """Start the file, so that it is there before the first use: at `path` if there was none.

        Raises:
            PrivotError: if this ledger counts in a file already, or one is there.
        """
        self._check_process()
        with self._alone:
            if path is not None and self.path is not None:
                raise PrivotError(
                    f"ledger {self.path} counts already: a second file would double the budget"
                )
            target = self.path or path
            if self._begun or target is None:
                return
            self._start(target.absolute())

    def close(self) -> None:
        """Return unused uses to the file, at the end of a run or of a stage."""
        self._check_process()
        with self._alone:
            # Given up first: a failure in between may lose them, but never lets them be used as well.
            rest, self._in_hand = (self._in_hand, 0) if self._begun else (0, self._in_hand)
            if rest:
                with holding_state() as state:
                    self._append(self._verified(state), -rest, state)

    def _take(self, needed: int) -> None:
        """Take so many more uses from the file."""
        if self.path is None:
            self._refuse(needed, 0)
        if not self._begun:
            self._start(self.path)
        with holding_state() as state:
            chain = self._verified(state)
            left = self.plan.uses - chain.spent
            if needed > left:
                self._taken = chain.spent
                self._refuse(needed, left)
            block = min(left, needed + self._ahead)
            self._append(chain, block, state)
        self._in_hand += block

    def _start(self, path: Path) -> None:
        used = self._taken - self._in_hand
        chain = Chain(self.id, _plain(self.plan)).taking(used)
        with holding_state() as state:
            if path.exists():
                raise PrivotError(
                    f"ledger {path} was begun by another run: let it finish, or take another path, "
                    "whose budget adds to that one"
                )
            with witnessing(chain, state):
                write_down(path, chain.to_dict())
        self.path, self._begun = path, True
        self._taken, self._in_hand = used, 0

    def _append(self, chain: Chain, uses: int, state: Path) -> None:
        assert self.path is not None
        longer = chain.taking(uses)
        with witnessing(longer, state):
            write_down(self.path, longer.to_dict())
        self._taken = longer.spent

    def _verified(self, state: Path) -> Chain:
        """Read the file's chain, if it is this ledger's and the witness agrees."""
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
        mine = _plain(self.plan)
        for key in sorted(mine.keys() | chain.plan.keys()):
            if mine.get(key) != chain.plan.get(key):
                raise PrivotError(
                    f"ledger {self.path} counted {chain.spent:,} {self.plan.noun} with {key} "
                    f"{chain.plan.get(key)!r}, this run has {mine.get(key)!r}: go on with the same "
                    "settings; another plan is another budget, which adds to the first"
                )

    def _refuse(self, needed: int, left: int) -> NoReturn:
        uses, noun, left = self.plan.uses, self.plan.noun, left + self._in_hand
        if not left:
            raise BudgetExhausted(
                f"all {uses:,} {noun} are spent: what was released may be used for ever; more need a "
                "plan and a budget of their own, which adds to this one"
            )
        raise BudgetExhausted(
            f"n {needed + self._in_hand:,} is more than the budget leaves, {left:,} of {uses:,} "
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


def _plain(plan: Countable) -> dict[str, Any]:
    """Return a plan as JSON reads it back."""
    return dict(json.loads(json.dumps(plan.to_dict())))


class RepeatedRecords(UserWarning):
    """The records of this run were used before; for the curator alone."""


@dataclass(frozen=True)
class Run:
    """One run on an account's records.

    Arguments:
        ledger: Identity of its ledger.
        uses: Declared uses of its plan, in words.
        begun: Day of its entry.
        guarantee: Guarantee of its whole plan.

    Examples:
        >>> from privot.privacy import ApproximateDP
        >>> Run("a1", "10 draws", "2026-11-01", ApproximateDP(1.0, 1e-6, "replace_one")).uses
        '10 draws'
    """

    ledger: str
    uses: str
    begun: str
    guarantee: Guarantee

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return vars(self) | {"guarantee": self.guarantee.to_dict()}


@dataclass(frozen=True)
class Account:
    """All runs on one set of records; a function of raw data, for the curator alone.

    Arguments:
        digest: Keyed fingerprint of the records.
        runs: Oldest first.

    Examples:
        >>> from privot.privacy import ApproximateDP
        >>> run = Run("a1", "10 releases", "2026-11-01", ApproximateDP(1.0, 1e-6, "replace_one"))
        >>> print(Account("digest", (run, run)))
        2 runs, together ε = 2, δ = 2e-06, replace_one, per person
    """

    digest: str
    runs: tuple[Run, ...]

    @property
    def sums(self) -> tuple[tuple[Guarantee, int], ...]:
        """Return composed guarantees and numbers of runs: one sum of all runs, or several of parts."""
        sums: list[tuple[Guarantee, int]] = []
        for run in self.runs:
            for index, (total, count) in enumerate(sums):
                try:
                    sums[index] = compose(total, run.guarantee), count + 1
                    break
                except PrivotError:
                    continue
            else:
                sums.append((run.guarantee, 1))
        return tuple(sums)

    def __str__(self) -> str:
        runs = f"{len(self.runs)} runs" if len(self.runs) > 1 else "1 run"
        sums = self.sums
        if len(sums) == 1:
            return f"{runs}, together {sums[0][0]}"
        parts = "; ".join(f"of {count} alone {total}" for total, count in sums)
        return f"{runs}, and no promise covers what all of them released: {parts}"


def fingerprint(parts: Iterable[NDArray[Any]]) -> str:
    """Return the digest of whole records (n, …) that come in parts: 64 hexadecimal digits, secret."""
    key, total, count = secret_key(), 0, 0
    for part in parts:
        with np.errstate(over="ignore", invalid="ignore"):
            rows = np.ascontiguousarray(part, np.float32).reshape(len(part), -1) + np.float32(0.0)
        data, width = rows.tobytes(), 4 * rows.shape[1]
        for start in range(0, len(data), width):
            row = blake2b(data[start : start + width], key=key, digest_size=32)
            total += int.from_bytes(row.digest(), "little")
        count += len(rows)
    return blake2b(b"%d,%d" % (count, total % 2**256), key=key, digest_size=32).hexdigest()


def charge(digest: str, ledger: Ledger[Any]) -> Account:
    """Enter the run of a ledger in the account of its records; warn if it is not the first.

    Arguments:
        digest: Fingerprint of the records.
        ledger: Ledger of the run, before anything of it is released.

    Raises:
        PrivotError: if the run has spent already, on other records.
    """
    plan, goes_on = ledger.plan, ledger.spent > 0
    today = dt.datetime.now(dt.UTC).date().isoformat()
    run = Run(ledger.id, f"{plan.uses:,} {plan.noun}", today, plan.guarantee)
    with holding_state() as state:
        path = state / "accounts" / f"{digest}.json"
        account = _read(path) if path.exists() else Account(digest, ())
        if any(known.ledger == run.ledger for known in account.runs):
            return account
        others = map(_read, (state / "accounts").glob("*.json"))
        if goes_on and any(r.ledger == run.ledger for other in others for r in other.runs):
            raise PrivotError(
                f"ledger {ledger.path} counts a run on other records than these: resume it with those, "
                "or give these a run of their own"
            )
        account = Account(digest, (*account.runs, run))
        write_down(path, {"runs": [each.to_dict() for each in account.runs]})
    if len(account.runs) > 1:
        warnings.warn(
            f"these records were used before ({account.runs[-2].begun}), and another run is another "
            f"budget: {account}; this is for the curator alone, `privot account spent` lists the runs",
            RepeatedRecords,
            stacklevel=3,
        )
    return account


def accounts() -> list[Account]:
    """Return every account of this user, by the day of its first run; for the curator alone."""
    with holding_state() as state:
        known = [_read(path) for path in sorted((state / "accounts").glob("*.json"))]
    return sorted(known, key=lambda account: account.runs[0].begun)


def _read(path: Path) -> Account:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))["runs"]
        runs = [Run(**r | {"guarantee": guarantee_from_dict(r["guarantee"])}) for r in known]
        return Account(path.stem, tuple(runs))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PrivotError(
            f"account {path} cannot be read ({error}): restore it, for it knows what was spent"
        ) from None
