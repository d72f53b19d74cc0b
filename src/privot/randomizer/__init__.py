"""From records to reports: the randomizer on the device, the release that leaves it."""

from privot.core.errors import naming_extra

with naming_extra("privot.randomizer"):
    from privot.randomizer.overrides import state_noise, weigh_pairs
    from privot.randomizer.plan import Plan, plan_reports
    from privot.randomizer.randomizer import Randomizer, Release

__all__ = [
    "Plan",
    "Randomizer",
    "Release",
    "plan_reports",
    "state_noise",
    "weigh_pairs",
]
