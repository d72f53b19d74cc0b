"""Collector of reports over HTTP: every acknowledged report is on its disk and counted once.

A request's body is parsed into records, which wait for one writer (`arrivals`). A store (`folder` for
one machine, `postgres` for several) separates new reports from copies, and writes and flushes the new
ones together; only then does the collector answer the senders (`app`). At intervals, records become
shards of a release in random order (`sealing`, by `waves` of a panel), which `privot fit` reads.
`collecting` collects reports in files or in memory, without a server. Where reports are shuffled, the
server is a shuffler: it receives reports that are encrypted to an analyst's key, and writes them in
batches, which the analyst opens (`analyst`).

**Privacy review.** A collector receives reports, each of which is ε-private against every reader: no
private value is processed here. No guarantee covers what a collector learns beyond reports (addresses,
exact times, who takes part); it is neither logged nor stored here, and `docs/sharp_edges.md` lists
what remains.
"""

from typing import TYPE_CHECKING

from privot.core.errors import lazy_names, naming_extra

with naming_extra("privot.collector"):
    from privot.collector.collecting import Collected, Collection, collect, collect_files

if TYPE_CHECKING:
    from privot.collector.analyst import open_batch, seal_report
    from privot.collector.arrivals import Campaign
    from privot.collector.sealing import seal

# Imported when they are used: files are collected without the extra `serve`, and without keys.
_MODULES = {
    "analyst": ("open_batch", "seal_report"),
    "arrivals": ("Campaign",),
    "sealing": ("seal",),
}
__getattr__ = lazy_names(__name__, _MODULES)

__all__ = [
    "Campaign",
    "Collected",
    "Collection",
    "collect",
    "collect_files",
    "open_batch",
    "seal",
    "seal_report",
]
