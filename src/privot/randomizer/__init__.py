"""Randomizers, which turn records into noisy reports, and releases and counts of the reports."""

from privot.core.errors import naming_extra

with naming_extra("privot.randomizer"):
    from privot.randomizer.engines import EngineRun, count_batches, merge_counts
    from privot.randomizer.overrides import randomizer_from_noise, weight_pairs
    from privot.randomizer.plan import Plan, plan_reports
    from privot.randomizer.randomizer import Randomizer, Release
    from privot.randomizer.reports.counts import Counts, count

__all__ = [
    "Counts", "EngineRun", "Plan", "Randomizer", "Release", "count", "count_batches",
    "merge_counts", "plan_reports", "randomizer_from_noise", "weight_pairs",
]  # fmt: skip
