r"""Witnesses: what the state folder knows of every ledger, so that an older copy of it is found.

A witness holds the head of a ledger's chain. Both are written under one lock, the ledger first: a kill
in between leaves the witness on an earlier entry of the chain, and that is still in order. The witness's
draft is on the disk before: where there is no room for it, the ledger stays as it is. A head that
is *not* in the chain tells that another copy of the ledger went on.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path

from privot.disk.chain import Chain
from privot.disk.state import holding_state, writing_down
from privot.errors import PrivotError


def witnessing(chain: Chain, state: Path) -> AbstractContextManager[None]:
    """Note a chain's head after the block that writes its ledger; while holding the state folder."""
    return writing_down(_path(chain, state), {"spent": chain.spent, "head": chain.head})


def check_witness(chain: Chain, ledger: Path, state: Path) -> None:
    """Refuse a chain that the witness has seen ahead of what it is; while holding the state folder.

    Raises:
        PrivotError: if there is no witness, or its head is not in the chain.
    """
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
