r"""Accounts: all runs on the same records, and the composition of their guarantees.

A plan's guarantee covers one run. A second run on the same records spends a second budget, also if the
first run's ledger was deleted or the second uses another folder or method: the guarantees add up. So
each run is entered in the account of its records, with its plan's **whole** guarantee, before anything
is released. A resumed run has one entry, that of its ledger. Entries are never removed.

**Composition** is `privot.privacy.compose`: epsilons and deltas add up, also for runs whose settings
depend on earlier releases. Where no rule composes runs (different units, `zero_out` and `replace_one`)
there is **no guarantee of all of them**, and the account states one sum for each composable group.

**The number of runs** must not depend on their releases, if δ > 0: the sum of the runs that *were* made
is no privacy odometer (`privot.privacy.ledger`). A curator who repeats runs until a release shows
something also spends the δ of every run that might have followed.

**A resumed run** must use the records that it began with: another account refuses a ledger with spent
uses.

**Who sees what.** Which runs share an account is a function of raw data: it reveals whether two sets of
records are equal. Only the curator sees it: by a warning on standard error when a run is entered
(`RepeatedRecords`), a refusal to resume with other records, and `accounts`. It is never written to
a model, a history or a report. Accounts cover runs that share a state folder, on records that are equal
row for row; the curator must add the guarantees of runs elsewhere or on overlapping records.

**The fingerprint** that names an account is equal for equal records in any order, and secret: a keyed
hash of a multiset (Clarke et al. 2003, *MSet-Add-Hash*). With a pseudorandom function $F_k$ of one row,
here BLAKE2b keyed by the user account's secret key,

$$ H_k(M) = F_k\Big(|M|,\ \sum_{x ∈ M} F_k(x) \bmod 2^{256}\Big). $$

A sum does not depend on order, and counts repeated rows. Without $k$ the digests are random: they reveal
neither records nor, from one user account to another, whether two sets are equal. **With the key one can
test whether a guessed set is the one that was used**: the digest is a function of raw data and stays in
the state folder, with the curator. A row is the whole record, its label included. Rows are compared in
single precision, flattened, so that it does not matter whether pixels were divided by 255 in single
or in double precision. One more or fewer record, another label, scale or encoding makes another set; for
example, one table encoded as coordinates for slices and as codes for sums gives two digests.

References:
    Clarke, Devadas, van Dijk, Gassend, Suh, *Incremental multiset hash functions and their application
    to memory integrity checking* (2003).
"""

from __future__ import annotations

import datetime as dt
import json
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.core.state import holding_state, secret_key, write_down
from privot.privacy import Guarantee, compose, guarantee_from_dict
from privot.privacy.ledger import Ledger


class RepeatedRecords(UserWarning):
    """Warning, for the curator alone, that the records of this run were used before."""


@dataclass(frozen=True)
class Run:
    """One run on an account's records.

    Arguments:
        ledger: Identity of the run's ledger.
        uses: Declared uses of the plan, in words.
        begun: Day of the entry, ISO 8601.
        guarantee: Guarantee of the whole plan.

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
        runs: Runs, oldest first.

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
        """Return (guarantee, number of runs) of each group of runs that compose; usually one group."""
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


def fingerprint(batches: Iterable[NDArray[Any]]) -> str:
    """Return the secret digest, 64 hexadecimal digits, of records in batches (n, …)."""
    key, total, count = secret_key(), 0, 0
    for batch in batches:
        with np.errstate(over="ignore", invalid="ignore"):
            rows = np.ascontiguousarray(batch, np.float32).reshape(len(batch), -1)
            rows = rows + np.float32(0.0)  # −0 becomes 0
        data, width = rows.tobytes(), 4 * rows.shape[1]
        for start in range(0, len(data), width):
            row = blake2b(data[start : start + width], key=key, digest_size=32)
            total += int.from_bytes(row.digest(), "little")
        count += len(rows)
    return blake2b(b"%d,%d" % (count, total % 2**256), key=key, digest_size=32).hexdigest()


def charge(digest: str, ledger: Ledger[Any]) -> Account:
    """Enter a ledger's run in the account of its records; warn if it is not the first run.

    Arguments:
        digest: Fingerprint of the records.
        ledger: Ledger of the run, before anything of it is released.

    Raises:
        PrivotError: if the run has already spent uses on other records.
    """
    plan, resumed = ledger.plan, ledger.spent > 0
    today = dt.datetime.now(dt.UTC).date().isoformat()
    run = Run(ledger.id, f"{plan.uses:,} {plan.noun}", today, plan.guarantee)
    with holding_state() as state:
        path = state / "accounts" / f"{digest}.json"
        account = _read(path) if path.exists() else Account(digest, ())
        if any(known.ledger == run.ledger for known in account.runs):
            return account
        others = map(_read, (state / "accounts").glob("*.json"))
        if resumed and any(r.ledger == run.ledger for other in others for r in other.runs):
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
    """Return all accounts of this user, sorted by the day of their first run; for the curator alone."""
    with holding_state() as state:
        found = [_read(path) for path in sorted((state / "accounts").glob("*.json"))]
    return sorted(found, key=lambda account: account.runs[0].begun)


def _read(path: Path) -> Account:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["runs"]
        runs = [Run(**r | {"guarantee": guarantee_from_dict(r["guarantee"])}) for r in entries]
        return Account(path.stem, tuple(runs))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PrivotError(
            f"account {path} cannot be read ({error}): restore it, for it knows what was spent"
        ) from None
