"""Repeated reports: rotating panels, their guarantee over time, and the device's ledger.

`Panel` determines when each person reports, `PanelGuarantee` states the privacy guarantee over several
waves, and `DeviceLedger` enforces it on a device, together with the `Limit` that the device's owner sets
for all campaigns. A device needs only the standard library.
"""

from privot.waves.ledger import DeviceLedger, Limit, LimitReached, NotDue
from privot.waves.panel import Panel, PanelGuarantee

__all__ = ["DeviceLedger", "Limit", "LimitReached", "NotDue", "Panel", "PanelGuarantee"]
