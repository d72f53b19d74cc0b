"""Reports over time: what a person who reports again and again is promised, exactly.

`Panel` puts people into slots by public coins, `PanelGuarantee` is its promise, and `DeviceLedger`
keeps it on a device, for all campaigns together within the `Limit` of its owner. `ChangeTree` follows a
bit that seldom changes, and `TreeLedger` draws each of its answers once. `memoization_loss` says what it
costs to remember answers, for comparison.

A device in a panel needs the standard library alone: names of change trees, whose sums are arrays, load
NumPy when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from privot.core.errors import lazy_names
from privot.waves.ledger import DeviceLedger, Limit, LimitReached, NotDue
from privot.waves.memoization import memoization_loss
from privot.waves.panel import Panel, PanelGuarantee

if TYPE_CHECKING:
    from privot.waves.change_tree import ChangeTree
    from privot.waves.tree_ledger import Answer, TreeLedger, signs_of

_OF_TREES = {
    "Answer": "privot.waves.tree_ledger",
    "ChangeTree": "privot.waves.change_tree",
    "TreeLedger": "privot.waves.tree_ledger",
    "signs_of": "privot.waves.tree_ledger",
}

__all__ = [
    "Answer",
    "ChangeTree",
    "DeviceLedger",
    "Limit",
    "LimitReached",
    "NotDue",
    "Panel",
    "PanelGuarantee",
    "TreeLedger",
    "memoization_loss",
    "signs_of",
]


__getattr__ = lazy_names("privot.waves", _OF_TREES)
