"""Commands of a curator who collects wave after wave. They need PyTorch."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from privot.cli.console import Force, note, tell_quarantined, training_bar
from privot.errors import PrivotError

if TYPE_CHECKING:
    from privot.local import WaveModel
    from privot.release import Release
    from privot.release.collecting.wave_releases import SealedWaves

_DAY = 86_400


def fit_waves(
    context: typer.Context,
    waves: Annotated[
        list[Path],
        Argument(
            help="Releases, one of each wave, in order; or one that says of what wave all is."
        ),
    ],
    times: Annotated[
        str | None,
        Option(help="Numbers or dates, with commas between; 1,2,3 and so on by default."),
    ] = None,
    start: Annotated[
        str | None, Option(help="Instead: the time of the first wave, a number or a date.")
    ] = None,
    every: Annotated[float, Option(help="With --start: from wave to wave, of dates days.")] = 1.0,
    onto: Annotated[
        Path | None, Option(help="A model of earlier waves, to which these are added in seconds.")
    ] = None,
    output: Annotated[Path, Option("-o", "--output", help="Folder of the model.")] = Path("model"),
    seed: Annotated[int, Option(help="Of the fit.")] = 0,
    strict: Annotated[
        bool, Option("--strict", help="Refuse a release with reports that cannot be.")
    ] = False,
    force: Force = False,
) -> None:
    """Learn a population that moves, from waves of reports of one schema.

    How fast it moves is learned from the reports. OUTPUT/report.html shows the trends of all columns
    with their bands, and sudden changes. Of a release of `privot serve --panel` waves and their times
    are read from it, of those that have ended; with --onto, of those after the model's.

    Example: privot fit-waves wave-*.parquet --start 2026-01-05 --every 7 -o model/
    """
    from privot.files import claim_file, claim_folder, require_place
    from privot.local import WaveModel
    from privot.local import fit_waves as fit_model
    from privot.models import load
    from privot.models.files import FILES
    from privot.release.collecting.collect import checked
    from privot.release.collecting.inbox import quarantine_of
    from privot.release.collecting.wave_releases import sealed_waves
    from privot.report.trends import write_wave_report

    require_place(output, waves)
    before = None if onto is None else load(onto)
    if before is not None and not isinstance(before, WaveModel):
        raise PrivotError(
            f"{onto} is no model of waves: give the folder that privot fit-waves wrote"
        )
    claim_folder(output, FILES, inputs=waves, force=force or onto == output)
    sealed = sealed_waves(waves[0]) if len(waves) == 1 else None
    if sealed is None:
        paths, when = waves, _times(times, start, every, len(waves), onto)
    else:
        folder = context.with_resource(TemporaryDirectory(prefix="privot-"))
        paths, when = _of_panel(sealed, before, (times, start), Path(folder))
    releases: list[Release] = []
    for number, path in enumerate(paths):
        aside = quarantine_of(output.with_name(f"{output.name}.{number}"))
        claim_file(aside, inputs=waves, force=force or onto == output)
        release, found = context.with_resource(checked(path, aside, strict))
        releases.append(release)
        if found is not None:
            tell_quarantined(found)
    if before is not None:
        model: WaveModel = before
        for release, after in zip(releases, when or [], strict=True):
            model = model.add(release, after)
    else:
        with training_bar(then="") as progress:
            model = fit_model(releases, when, seed=seed, progress=progress)
    model.save(output)
    write_wave_report(output / "report.html", model)
    print(
        f"{output}: {len(model.times)} waves, {model.times[0]} to {model.times[-1]}, "
        f"{sum(model.people):,} reports, {model.guarantee} for one report"
    )
    print(f"{output / 'report.html'}: trends of all columns, and sudden changes")


def _of_panel(
    sealed: SealedWaves,
    before: WaveModel | None,
    given: tuple[str | None, str | None],
    folder: Path,
) -> tuple[list[Path], list[str | float]]:
    """A release of each wave that has ended, and when it began: its day, or its number."""
    from pyarrow import parquet

    from privot.local.waves.times import in_words, read_time
    from privot.release.reports.rows import shard_name, write_manifest

    if given != (None, None):
        raise PrivotError("the release says the times of its waves: leave out --times and --start")
    panel = sealed.panel
    paths: list[Path] = []
    times: list[str | float] = []
    dated = panel.start % _DAY == panel.length % _DAY == 0
    for wave, shards in sealed.shards.items():
        begins = (panel.start + wave * panel.length) / _DAY
        when = in_words(begins, dated) if dated else float(wave)
        last = None if before is None else read_time(before.times[-1])[0]
        if panel.start + (wave + 1) * panel.length > time.time():
            note(f"wave {wave} has not ended: it is left out")
        elif last is None or read_time(when)[0] > last:
            paths.append(folder / f"wave-{wave}")
            times.append(when)
            paths[-1].mkdir()
            for number, shard in enumerate(shards):
                (paths[-1] / shard_name(number)).symlink_to(shard.resolve())
            write_manifest(paths[-1], [parquet.read_metadata(each).num_rows for each in shards])
    if not paths:
        raise PrivotError("the release has no wave after the model's last: there is nothing to add")
    return paths, times


def _times(
    times: str | None, start: str | None, every: float, count: int, onto: Path | None
) -> list[str | float] | None:
    """Times of the waves, as they were given."""
    from privot.local.waves.times import in_words, read_time

    if times is not None and start is not None:
        raise PrivotError("--times and --start are two answers to one question: give one")
    if times is not None:
        return [part.strip() for part in times.split(",")]
    if start is None:
        if onto is not None:
            raise PrivotError("--onto needs the times of the new waves: give --times or --start")
        return None
    if not every > 0:
        raise PrivotError(f"--every {every:g} is not above 0: give the time from wave to wave")
    first, dated = read_time(start)
    if dated and every != int(every):
        raise PrivotError(f"--every {every:g} is no whole number of days: dates have no hours")
    return [
        in_words(first + every * i, dated) if dated else first + every * i for i in range(count)
    ]


def trend(
    model: Annotated[Path, Argument(help="Folder of a model of waves.")],
    column: Annotated[str, Option(help="Of the table.")],
    value: Annotated[
        str | None, Option(help="Whose share is told; by default the mean of a number.")
    ] = None,
    level: Annotated[float, Option(help="Of the band at each time.")] = 0.95,
    as_json: Annotated[bool, Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """A share or a mean at every wave with its band, and whether it changed suddenly.

    Example: privot trend model/ --column uses --value yes
    """
    from privot.local import WaveModel
    from privot.models import load

    loaded = load(model)
    if not isinstance(loaded, WaveModel):
        raise PrivotError(
            f"{model} is no model of waves: give the folder that privot fit-waves wrote"
        )
    found = loaded.trend(column, value, level=level)
    change = loaded.change_point(column, value) if len(loaded.times) > 2 else None
    if as_json:
        told = asdict(found) | {k: getattr(found, k).tolist() for k in ("estimate", "low", "high")}
        print(json.dumps(told | {"change": None if change is None else asdict(change)}))
        return
    print(f"{found.name}, with bands of {100 * level:g} %")
    for when, estimate, low, high in zip(
        found.times, found.estimate, found.low, found.high, strict=True
    ):
        print(f"  {when:>10}  {estimate:9.4f}   {low:.4f} to {high:.4f}")
    if change is not None:
        print(
            f"a sudden change: most probably at {change.time} ({change.low} to {change.high}), "
            f"p = {change.p_value:.3f} that drift alone shows as much"
        )
