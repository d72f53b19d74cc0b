"""What a collector counts, as Prometheus reads it: numbers of all, and nothing of anybody.

**Privacy review.** Counts of reports and times that answers took, summed over everybody since the
start. They say how many people take part, to whoever may read them: let a proxy keep `/metrics` and
`/healthz` to those who run the collector.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Counters of one campaign."""

    def __init__(self) -> None:
        self.received = self.accepted = self.duplicates = 0
        self.refused: Counter[str] = Counter()
        self._times = [0] * (len(_BOUNDS) + 1)
        self._seconds = 0.0

    def answered(self, seconds: float) -> None:
        """A request took so long, by a clock that never goes back."""
        self._times[bisect_left(_BOUNDS, seconds)] += 1
        self._seconds += seconds

    def lines(self, labels: str) -> list[tuple[str, str, str]]:
        """Name, labels and value of each."""
        found = [
            ("privot_reports_received_total", labels, str(self.received)),
            ("privot_reports_accepted_total", labels, str(self.accepted)),
            ("privot_reports_duplicate_total", labels, str(self.duplicates)),
        ]
        for reason in sorted(self.refused):
            told = f'{labels},reason="{reason}"'
            found.append(("privot_refused_total", told, str(self.refused[reason])))
        below = 0
        for bound, count in zip((*_BOUNDS, "+Inf"), self._times, strict=True):
            below += count
            found.append(("privot_request_seconds_bucket", f'{labels},le="{bound}"', str(below)))
        found.append(("privot_request_seconds_sum", labels, f"{self._seconds:.6f}"))
        found.append(("privot_request_seconds_count", labels, str(below)))
        return found


_KINDS = {
    "privot_reports_received_total": ("counter", "Reports in batches that could be read."),
    "privot_reports_accepted_total": ("counter", "Reports stored."),
    "privot_reports_duplicate_total": ("counter", "Reports that were stored already."),
    "privot_refused_total": ("counter", "Reports and whole requests refused."),
    "privot_request_seconds": ("histogram", "From a request's head to its answer."),
    "privot_stored_reports": ("gauge", "Reports that the store knows."),
    "privot_disk_bytes": ("gauge", "What the store takes on its disk."),
    "privot_waiting_reports": ("gauge", "Reports that wait for the writer."),
    "privot_held_bytes": ("gauge", "Memory claimed by requests."),
}


def exposition(lines: list[tuple[str, str, str]]) -> str:
    """Prometheus's text format, version 0.0.4."""
    text = []
    for name, (kind, words) in _KINDS.items():
        suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        mine = [line for line in lines if line[0] in {name + suffix for suffix in suffixes}]
        if mine:
            text += [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
        for each, labels, value in mine:
            text.append(f"{each}{{{labels}}} {value}" if labels else f"{each} {value}")
    return "\n".join(text) + "\n"
