"""A collector of reports over HTTP: what it acknowledged is on its disk, once.

A request's body is read into records (`arrivals`), which wait for one writer (`committing`); what
waits is written and flushed together by a store (`folder`, or `postgres` beyond one machine), which
tells new reports from copies, and only then is the sender answered (`app`). Now
and then records become shards of a release, in random order (`sealing`), which `privot fit` reads.

**Privacy review.** A collector receives reports, each of which keeps its ε whoever reads it:
nothing here touches a record. What a collector learns beyond reports (addresses, exact times, who
takes part) is in no guarantee; it is neither logged nor stored here, and `docs/sharp_edges.md` says
what remains.
"""

from privot.core.errors import naming_extra

with naming_extra("privot.collector"):
    from privot.collector.arrivals import Campaign
    from privot.collector.collecting import Collected, Collection, collect_files
    from privot.collector.payloads import WaveReleases, collect, releases_by_wave
    from privot.collector.sealing import seal

__all__ = [
    "Campaign",
    "Collected",
    "Collection",
    "WaveReleases",
    "collect",
    "collect_files",
    "releases_by_wave",
    "seal",
]
