"""Noisy sums of private records by two servers, of which one is trusted, or by several curators.

A device splits its record into two shares (`Encoder`), each of which reveals nothing by itself. Each
`Server` adds up its shares of a batch with enough noise for the promise, `open_sums` adds the servers'
sums, and `fit` learns from the result. Sums of several batches merge, and so do those of several
curators (`count`). With `proofs=True` the servers verify that shares are those of some record
(`privot.aggregated.prio3`); without proofs, a dishonest client can falsify sums.
"""

from privot.core.errors import naming_extra

with naming_extra("privot.aggregated", "learn"):
    from privot.aggregated.releases import AggregatedModel, SumRelease, count, fit, open_sums
    from privot.aggregated.server import Server
    from privot.aggregated.shares import Encoder, SumRule

__all__ = [
    "AggregatedModel",
    "Encoder",
    "Server",
    "SumRelease",
    "SumRule",
    "count",
    "fit",
    "open_sums",
]
