"""Reports over time: what a person who reports again and again is promised, exactly.

`Panel` puts people into slots by public coins (`privot.device.panel`), `PanelGuarantee` is its promise,
and a device keeps it by a ledger (`privot.device.ledger`).
"""

from privot.device.panel import Panel
from privot.waves.promise import PanelGuarantee

__all__ = ["Panel", "PanelGuarantee"]
