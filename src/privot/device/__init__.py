"""The device: one person's record in, one report's bytes out, by the integers of a randomizer.

A randomizer's JSON holds a **program**: how each value becomes an integer, and which integers decide
what is drawn. Whoever can add, multiply, divide and compare whole numbers can run it, without a
logarithm or an exponential: a browser, a telephone, or this package, which needs the standard library
alone. `docs/reference/wire.md` specifies programs and bytes; the conformance suite holds every
implementation to them, word by word.
"""

from privot.device.device import Device
from privot.wire.report import Report, read_batch, write_batch

__all__ = ["Device", "Report", "read_batch", "write_batch"]
