r"""A ledger's file, a chain of entries, and the witness of it that the state folder keeps.

**The chain.** The file names a plan and a random number; together they are the ledger's identity. Entry
$i$ says how many uses it took and how many are spent by then, and carries

$$ h_i = \mathrm{SHA256}(\text{entry}_i, h_{i-1}),
\qquad h_0 = \mathrm{SHA256}(\text{id}, \text{plan}). $$

An entry of a negative number gives back what was taken and not used. A changed plan, number or order
does not fit its hashes. There is no secret in them: they find accidents, not forgers.

**The witness** holds the head of the chain, so that an older copy of the file is found: its head is
*not* in that chain. Both are written under one lock, the file first: a kill in between leaves the
witness on an earlier entry of the chain, and that is still in order. The witness's draft is on the disk
before: where there is no room for it, the file stays as it is.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from privot.disk.state import holding_state, writing_down
from privot.errors import PrivotError


@dataclass(frozen=True)
class Chain:
    """The content of a ledger's file.

    Arguments:
        id: Random number of the ledger, 32 hexadecimal digits.
        plan: What it counts the uses of, plain values.
        entries: What was taken, oldest first.
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
        """The identity's, and every entry's."""
        identity = _hash({"id": self.id, "plan": self.plan})
        return [identity, *(entry["hash"] for entry in self.entries)]

    def taking(self, uses: int) -> Self:
        """The chain with one more entry."""
        fields = {
            "uses": uses,
            "spent": self.spent + uses,
            "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "previous": self.head,
        }
        entry = fields | {"hash": _hash(fields)}
        return type(self)(self.id, self.plan, (*self.entries, entry))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"id": self.id, "plan": self.plan, "entries": list(self.entries)}

    @classmethod
    def read(cls, path: Path) -> Self:
        """The chain in a file."""
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            chain = cls(fields["id"], dict(fields["plan"]), tuple(fields["entries"]))
            chain._check()
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

    def _check(self) -> None:
        if not self.entries:
            raise ValueError("it has no entries")
        previous, spent = self.hashes[0], 0
        for entry in self.entries:
            fields = {name: value for name, value in entry.items() if name != "hash"}
            spent += entry["uses"]
            told = (entry["previous"], entry["spent"], entry["hash"])
            if told != (previous, spent, _hash(fields)) or spent < 0:
                raise ValueError("an entry was changed")
            previous = entry["hash"]


def witnessing(chain: Chain, state: Path) -> AbstractContextManager[None]:
    """Note a chain's head after the block that writes its ledger; while holding the state folder."""
    return writing_down(_path(chain, state), {"spent": chain.spent, "head": chain.head})


def check_witness(chain: Chain, ledger: Path, state: Path) -> None:
    """Refuse a chain that the witness has seen ahead of what it is; while holding the state folder."""
    try:
        seen = json.loads(_path(chain, state).read_text(encoding="utf-8"))
        head, spent = seen["head"], int(seen["spent"])
    except FileNotFoundError:
        raise PrivotError(
            f"ledger {ledger} was never seen by this account, so it is a copy: use it where it was "
            "begun, or say `privot account adopt` if the original will never be used again"
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
        PrivotError: if it cannot be trusted, or this account knows it, and so better.
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
