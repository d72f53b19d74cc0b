r"""A chain of entries: what a ledger's file says, and that nobody changed it.

The file names a plan and a random number; together they are the ledger's identity. Entry $i$ says how
many uses it took and how many are spent by then, and carries

$$ h_i = \mathrm{SHA256}(\text{entry}_i, h_{i-1}),
\qquad h_0 = \mathrm{SHA256}(\text{id}, \text{plan}). $$

An entry of a negative number gives back what was taken and not used. A changed plan, number or order
does not fit its hashes. There is no secret in them: they find accidents, not forgers.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

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
        """The chain in a file.

        Raises:
            PrivotError: if it is missing, damaged or changed.
        """
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


def _hash(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
