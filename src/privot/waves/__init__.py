"""Reports over time: what a person who reports again and again is promised, exactly.

`Panel` puts people into slots by public coins, `PanelGuarantee` is its promise, and `DeviceLedger`
holds a device to it, for all campaigns together within the `Limit` of its owner. A device needs the
standard library alone.
"""

from privot.waves.ledger import DeviceLedger, Limit, LimitReached, NotDue
from privot.waves.panel import Panel, PanelGuarantee

__all__ = ["DeviceLedger", "Limit", "LimitReached", "NotDue", "Panel", "PanelGuarantee"]
