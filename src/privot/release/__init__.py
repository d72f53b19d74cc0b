"""From records to reports: the randomizer on the device, the release that leaves it."""

from privot.release.randomizer import Randomizer, Release
from privot.release.tables import as_table, read_table, write_table

__all__ = ["Randomizer", "Release", "as_table", "read_table", "write_table"]
