"""Reports over time: what a person who reports again and again is promised, exactly.

`Panel` puts people into slots by public coins, `PanelGuarantee` is its promise, and `DeviceLedger`
keeps it on a device, for all campaigns together within the `Limit` of its owner. `ChangeTree` follows a
bit that seldom changes, and `TreeLedger` draws each of its answers once. `memoization_loss` says what it
costs to remember answers, for comparison.
"""

from privot.waves.change_tree import ChangeTree
from privot.waves.ledger import DeviceLedger, Limit, LimitReached, NotDue
from privot.waves.memoization import memoization_loss
from privot.waves.panel import Panel
from privot.waves.promise import PanelGuarantee
from privot.waves.tree_ledger import Answer, TreeLedger, signs_of

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
