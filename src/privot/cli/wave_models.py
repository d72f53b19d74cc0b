"""Commands of a curator who collects wave after wave. They need PyTorch."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from privot.cli.console import Force, tell_quarantined, training_bar
from privot.errors import PrivotError

if TYPE_CHECKING:
    from privot.local import WaveModel
    from privot.release import Release


def fit_waves(
    context: typer.Context,
    waves: Annotated[list[Path], Argument(help="Releases, one of each wave, in order.")],
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
    with their bands, and sudden changes.

    Example: privot fit-waves wave-*.parquet --start 2026-01-05 --every 7 -o model/
    """
    from privot.files import claim_file, claim_folder, require_place
    from privot.local import WaveModel
    from privot.local import fit_waves as fit_model
    from privot.models import load
    from privot.models.files import FILES
    from privot.release.collecting.collect import checked
    from privot.release.collecting.inbox import quarantine_of
    from privot.report.trends import write_wave_report

    when = _times(times, start, every, len(waves), onto)
    require_place(output, waves)
    before = None if onto is None else load(onto)
    if before is not None and not isinstance(before, WaveModel):
        raise PrivotError(
            f"{onto} is no model of waves: give the folder that privot fit-waves wrote"
        )
    claim_folder(output, FILES, inputs=waves, force=force or onto == output)
    releases: list[Release] = []
    for number, path in enumerate(waves):
        aside = quarantine_of(output.with_name(f"{output.name}.{number}"))
        claim_file(aside, inputs=waves, force=force or onto == output)
        release, found = context.with_resource(checked(path, aside, strict))
        releases.append(release)
        if found is not None:
            tell_quarantined(found)
    if before is not None:
        model: WaveModel = before
        for release, time in zip(releases, when or [], strict=True):
            model = model.add(release, time)
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
    for time, estimate, low, high in zip(
        found.times, found.estimate, found.low, found.high, strict=True
    ):
        print(f"  {time:>10}  {estimate:9.4f}   {low:.4f} to {high:.4f}")
    if change is not None:
        print(
            f"a sudden change: most probably at {change.time} ({change.low} to {change.high}), "
            f"p = {change.p_value:.3f} that drift alone shows as much"
        )
