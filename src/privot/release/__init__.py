"""From records to reports: the randomizer on the device, the release that leaves it."""

from privot.errors import naming_extra

with naming_extra("privot.release"):
    from privot.release.budget.stated_noise import state_noise
    from privot.release.budget.weighing import weigh_pairs
    from privot.release.collecting.collect import Collected, Collection, collect, collect_files
    from privot.release.collecting.payloads import from_reports
    from privot.release.collecting.wave_releases import WaveReleases, releases_by_wave
    from privot.release.planning.plan import Plan, plan_reports
    from privot.release.randomizer import Randomizer, Release
    from privot.tables.files import as_table, read_table, write_table

__all__ = [
    "Collected",
    "Collection",
    "Plan",
    "Randomizer",
    "Release",
    "WaveReleases",
    "as_table",
    "collect",
    "collect_files",
    "from_reports",
    "plan_reports",
    "read_table",
    "releases_by_wave",
    "state_noise",
    "weigh_pairs",
    "write_table",
]
