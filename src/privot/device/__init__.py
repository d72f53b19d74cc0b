"""Devices: draw the report of one record by a randomizer's program, with the standard library alone.

A randomizer's JSON contains a **program**: how each value becomes an integer, and the integers by which
reports are drawn. It needs only integer arithmetic, no logarithms or exponentials, so that browsers,
telephones and this package can run it. `docs/reference/wire.md` specifies programs and bytes; the
conformance suite compares every implementation with them, word by word.
"""

from privot.device.device import Device
from privot.wire.report import Report, read_batch, write_batch

__all__ = ["Device", "Report", "read_batch", "write_batch"]
