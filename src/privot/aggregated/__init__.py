"""Sums of private records by two servers, of which one is honest; nobody sees a record.

`Encoder` makes the shares on a device, each `Server` sums its shares of a batch with noise that is
enough alone, `open_sums` adds up what both published, and `fit` learns from it. Noisy sums of several
batches, and of several curators (`count`), merge. With `proofs=True` both
servers verify that shares are some record's (`privot.aggregated.prio3`). Without proofs, clients are
assumed honest, and a liar can falsify sums.
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
