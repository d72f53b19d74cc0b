"""Commands for repeated surveys: `privot waves`, and models of waves for `privot fit`."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from typer import Argument, Option

import privot
from privot.cli.console import Force, note, open_releases, training_bar
from privot.core.errors import PrivotError, printable
from privot.core.files import claim_file, claim_folder, read_text, require_place
from privot.waves import DeviceLedger, Limit, Panel

if TYPE_CHECKING:
    from privot.collector.waves import SealedWaves
    from privot.device.device import Record
    from privot.local import WaveModel

PublicKey = Annotated[
    str | None,
    Option(help="Organizer's public key in base64: only files signed by it are accepted."),
]

_DAY = 86_400  # seconds
_MAX_DAYS = 2**20  # maximum length of a wave, some 2 900 years


def new(
    name: str = Argument(help="Name of the campaign; each panel needs a different one."),
    window: int = Option(help="Number of consecutive waves in which a person reports once."),
    start: str = Option(help="Start of wave 0, in UTC: 2026-01-05."),
    waves: int | None = Option(None, help="Number of waves; without end by default."),
    days: float = Option(7.0, help="Length of a wave, in days."),
    seed: str | None = Option(None, help="Public seed of the slots; drawn if none is given."),
    keys: Path | None = Option(None, help="Shuffled reports: new folder of keys, one per wave."),
    output: Path = Option(Path("panel.json"), "-o", "--output", help="File to write."),
    force: Force = False,
) -> None:
    """Make a rotating panel: a public hash assigns each person to one of --window slots of waves.

    Example: privot waves new commute --window 6 --waves 52 --start 2026-01-05 -o panel.json
    """
    try:
        begin = datetime.fromisoformat(start)
        begin = begin if begin.tzinfo else begin.replace(tzinfo=UTC)
    except ValueError:
        raise PrivotError(f"--start {start!r} is no date: write it as 2026-01-05") from None
    length = round(days * _DAY) if 0 < days < _MAX_DAYS else 0  # seconds
    if length < 1:
        raise PrivotError(f"--days {days!r} cannot be: give the length of a wave, such as 7")
    seed = secrets.token_hex(16) if seed is None else seed
    panel = Panel(name, window, int(begin.timestamp()), length, seed, waves)
    claim_file(output, suffixes=(".json",), force=force)
    if keys is not None:
        _make_keys(keys, waves)
    panel.save(output)
    print(f"{output}: {_span(panel)}, one report of a person in any {window} consecutive waves")


def _make_keys(folder: Path, waves: int | None) -> None:
    """Make the analyst's key of each wave of shuffled reports, and print the public ones."""
    from privot.collector.analyst import new_analyst_key
    from privot.core.files import replacing_folder

    if waves is None or folder.exists():
        raise PrivotError(f"--keys {folder} needs the number of --waves, and a name that is free")
    with replacing_folder(folder) as draft:
        for wave in range(waves):
            print(f"wave {wave}: devices seal to {new_analyst_key(draft / f'wave-{wave}.key')}")


def show(
    panel: Path = Argument(help="The panel, panel.json; with --column, a model of waves."),
    randomizer: Path | None = Option(
        None, "-r", "--randomizer", help="randomizer.json, whose guarantee in the panel to show."
    ),
    reports: int | None = Option(None, help="Number of shuffled reports in a wave, at least."),
    person: str | None = Option(None, help="Public id of a person, whose next wave to show."),
    column: str | None = Option(None, help="Column whose trend to show."),
    value: str | None = Option(None, help="With --column: its value whose share to show."),
    level: float = Option(0.95, help="With --column: level of the band at each time."),
    as_json: bool = Option(False, "--json", help="Print the trend as JSON."),
) -> None:
    """Show a panel's guarantee and when a person reports; or a trend by a model of waves.

    A trend is a share or a mean at every wave with its band, and a test for a sudden change.

    Example: privot waves show panel.json --randomizer randomizer.json --person "device 7"

    For a model: privot waves show model/ --column uses --value yes
    """
    if column is not None:
        if (randomizer, reports, person) != (None, None, None):
            raise PrivotError("--column is of a model: leave out -r, --reports and --person")
        _show_trend(panel, column, value, level, as_json)
        return
    if value is not None or as_json or panel.is_dir():
        raise PrivotError("--column is missing: name the column of the model whose trend to show")
    shown = Panel.load(panel)
    made_by = None if randomizer is None else privot.Randomizer.load(randomizer)
    if reports is not None and not (made_by and made_by.schema.shuffled_promise):
        raise PrivotError("--reports is of waves of shuffled reports: give -r their randomizer")
    guarantee = None if made_by is None else made_by.panel_guarantee(shown, reports)
    print(f"{shown.name}: {_span(shown)}, one report in any {shown.window} consecutive waves")
    if guarantee is not None:
        print(guarantee)
        print(guarantee.describe())
    if person is not None:
        current_wave = max(0, int((time.time() - shown.start) // shown.length))
        due = shown.next_wave(person, current_wave)
        next_wave = "no more"
        if due is not None:
            next_wave = f"next in wave {due}, from {_date(shown, due)} (UTC) on"
        print(f"{person!r} is in slot {shown.slot(person)}: {next_wave}")


def _show_trend(path: Path, column: str, value: str | None, level: float, as_json: bool) -> None:
    """Print the trend of a column, or of one of its values, by a model of waves."""
    model = _load_wave_model(path)
    trend = model.trend(column, value, level=level)
    change = model.change_point(column, value) if len(model.times) > 2 else None
    if as_json:
        arrays = {name: getattr(trend, name).tolist() for name in ("estimate", "low", "high")}
        change_fields = {"change": None if change is None else asdict(change)}
        print(json.dumps(asdict(trend) | arrays | change_fields))
        return
    print(f"{trend.name}, with bands of {100 * level:g} %")
    rows = zip(trend.times, trend.estimate, trend.low, trend.high, strict=True)
    for when, estimate, low, high in rows:
        print(f"  {when:>10}  {estimate:9.4f}   {low:.4f} to {high:.4f}")
    if change is not None:
        print(
            f"a sudden change: most probably at {change.time} ({change.low} to {change.high}), "
            f"p = {change.p_value:.3f} that drift alone shows as much"
        )


def _load_wave_model(path: Path) -> WaveModel:
    """Load a model of waves; refuse any other."""
    from privot.local import WaveModel

    if not isinstance(model := privot.load(path), WaveModel):
        raise PrivotError(f"{path} is no model of waves: give the folder of privot fit --waves")
    return model


def report(
    record: Path = Argument(help="The person's values of today: a file with a JSON object."),
    randomizer: Path = Option(..., "-r", "--randomizer", help="randomizer.json."),
    panel: Path = Option(help="The campaign's panel.json."),
    ledger: Path = Option(help="The device's ledger; created if it does not exist."),
    person: str | None = Option(None, help="The person's public id; drawn if none is given."),
    limit: float | None = Option(None, help="Largest ε that the ledger's campaigns may spend."),
    limit_days: float | None = Option(None, help="Period of the limit in days; default: all time."),
    first: bool = Option(False, "--first", help="The person had no ledger before: do not wait."),
    public_key: PublicKey = None,
    analyst_key: str | None = Option(None, help="Public key of the analyst of a shuffled wave."),
) -> None:
    """Draw this wave's report once, store it in the ledger, and print it in a collector's form.

    Called again in the same wave, the command prints the same report. It refuses to report in waves
    that are not the person's, too soon after another report, and beyond the limit. With --public-key,
    the key's holder must have signed both randomizer and panel; if one of them is signed, the key must
    be given. A shuffled report is sealed once, to its wave's --analyst-key; the ledger counts its own
    ε, as if it were not shuffled.

    Example: privot waves report today.json -r randomizer.json --panel panel.json --ledger my.ledger
    """
    from privot.device import Device

    if limit is None and limit_days is not None:
        raise PrivotError("--limit-days limits nothing without --limit: give both")
    _require_signed(public_key, randomizer, panel)
    device, seal = Device.from_json(read_text(randomizer, "randomizer")), None
    if device.shuffled != (analyst_key is not None):
        raise PrivotError("--analyst-key is for shuffled reports, and each of those needs it")
    if analyst_key is not None:
        from privot.collector.analyst import seal_report

        seal = partial(seal_report, public_key=analyst_key)
    schedule, values = Panel.load(panel), _read_record(record)
    schedule.wave_at(time.time())  # refuses a panel that does not run, before a ledger exists
    spending_limit = None if limit is None else Limit(limit, limit_days)
    device_ledger = DeviceLedger(ledger, person, limit=spending_limit, wait=not first)
    drawn = device_ledger.report(device, values, schedule, seal=seal)
    print(json.dumps({"version": 1, "reports": [drawn.to_json()]}))
    note(f"{printable(str(ledger))}: {device_ledger.spent()} so far, in all campaigns")


def _require_signed(key: str | None, *files: Path) -> None:
    """Refuse files without a valid signature by `key`; if there is no key, refuse signed files."""
    from privot.randomizer.integrity import require_signature, signature_path

    for file in files:
        if key is not None:
            require_signature(file, key)
        elif signature_path(file).exists():
            raise PrivotError(f"{printable(str(file))} is signed: give --public-key of its holder")


def _read_record(path: Path) -> Record:
    """Read a person's values, a JSON object."""
    text = read_text(path, "record")
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise PrivotError(
            f'{printable(str(path))} is no record: write one JSON object, {{"age": 40}}'
        )
    return values


def _span(panel: Panel) -> str:
    """Return the number, the length and the beginning of a panel's waves in words."""
    waves = "waves without end" if panel.waves is None else f"{panel.waves:,} waves"
    return f"{waves} of {panel.length / _DAY:g} days from {_date(panel, 0)} (UTC) on"


def _date(panel: Panel, wave: int) -> str:
    """Return the beginning of a wave in UTC, without the hour if that is midnight."""
    seconds = panel.start + wave * panel.length
    try:
        begin = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"second {seconds:,}"
    return begin.strftime("%Y-%m-%d" if begin.timestamp() % _DAY == 0 else "%Y-%m-%d %H:%M")


# `privot fit --waves`: models over time. They need PyTorch.


class WaveTimes(NamedTuple):
    """Options of `privot fit` on the times of waves; the command's help describes them."""

    times: str | None
    start: str | None
    every: float
    onto: Path | None
    panel: Path | None

    @property
    def given(self) -> bool:
        """Whether any of the options that imply `--waves` was given."""
        return any(option is not None for option in (self.times, self.start, self.onto, self.panel))


def learn_waves(
    context: typer.Context,
    waves: list[Path],
    settings: privot.FitSettings,
    output: Path,
    times: WaveTimes,
    *,
    strict: bool,
    force: bool,
) -> None:
    """Fit a model of waves to reports of one schema, and write it with its trends."""
    from privot.collector.waves import sealed_waves
    from privot.local import fit_waves
    from privot.report.pages import write_wave_report

    onto = times.onto
    require_place(output, waves)
    replaced = force or onto == output
    before = None if onto is None else _load_wave_model(onto)
    panel = None if times.panel is None else Panel.load(times.panel)
    claim_folder(output, privot.models.FILES, inputs=waves, force=replaced)
    sealed = sealed_waves(waves[0]) if len(waves) == 1 else None
    if sealed is None:
        paths, model_times = waves, _times(times, len(waves))
    elif (times.times, times.start, times.panel) != (None, None, None):
        raise PrivotError("the release states them: leave out --times, --start and --panel")
    else:
        panel = sealed.panel
        new_waves = _new_waves(sealed, before)
        folder = Path(context.with_resource(TemporaryDirectory(prefix="privot-")))
        paths = [folder / f"wave-{number}" for number in range(len(new_waves))]
        for path, shards in zip(paths, new_waves.values(), strict=True):
            _link_release(path, shards)
        model_times = [*new_waves]
    beside = [output.with_name(f"{output.name}.{number}") for number in range(len(paths))]
    releases = open_releases(context, paths, beside, strict=strict, replace=replaced, inputs=waves)
    if before is not None:
        if panel not in (None, before.panel):  # times of earlier waves may be no waves of it
            raise PrivotError("the panel is not the model's: give waves of one panel, or fit anew")
        model = before
        for release, after in zip(releases, model_times or [], strict=True):
            model = model.add(release, after)
    else:
        with training_bar(then="") as progress:
            model = fit_waves(releases, model_times, settings, panel=panel, progress=progress)
    model.save(output)
    write_wave_report(output / "report.html", model)
    print(
        f"{output}: {len(model.times)} waves, {model.times[0]} to {model.times[-1]}, "
        f"{sum(model.people):,} reports, {model.wave_guarantee} for one wave"
    )
    print(f"  all waves together: {model.guarantee}")
    print(f"{output / 'report.html'}: trends of all columns, and sudden changes")


def _new_waves(sealed: SealedWaves, before: WaveModel | None) -> dict[str | float, list[Path]]:
    """Return the shards of each wave that has ended and is later than a model's last, by its time.

    The time of a wave is its first day if all waves begin at midnight, otherwise its number.
    """
    from privot.local.waves.wave_model import format_time, read_time

    panel = sealed.panel
    dated = panel.start % _DAY == panel.length % _DAY == 0
    last = None if before is None else read_time(before.times[-1])[0]
    new: dict[str | float, list[Path]] = {}
    for wave, shards in sealed.shards.items():
        begin = panel.start + wave * panel.length
        wave_time = format_time(begin / _DAY, dated) if dated else float(wave)
        if begin + panel.length > time.time():
            note(f"wave {wave} has not ended: it is left out")
        elif last is None or read_time(wave_time)[0] > last:
            new[wave_time] = shards
    if not new:
        raise PrivotError("the release has no wave after the model's last: there is nothing to add")
    return new


def _link_release(folder: Path, shards: Sequence[Path]) -> None:
    """Make a release in a new folder from links to shards."""
    from pyarrow import parquet

    from privot.randomizer.reports.rows import shard_name, write_manifest

    folder.mkdir()
    for number, shard in enumerate(shards):
        (folder / shard_name(number)).symlink_to(shard.resolve())
    write_manifest(folder, [parquet.read_metadata(shard).num_rows for shard in shards])


def _times(options: WaveTimes, count: int) -> list[str | float] | None:
    """Return the times of `count` waves by the options; None if no option gives them."""
    from privot.local.waves.wave_model import format_time, read_time

    start, every = options.start, options.every
    if options.times is not None and start is not None:
        raise PrivotError("--times and --start exclude each other: give one")
    if options.times is not None:
        return [part.strip() for part in options.times.split(",")]
    if start is None:
        if options.onto is not None:
            raise PrivotError("--onto needs the times of the new waves: give --times or --start")
        return None
    if not every > 0:
        raise PrivotError(f"--every {every:g} is not above 0: give the time from wave to wave")
    first, dated = read_time(start)
    if dated and every != int(every):
        raise PrivotError(f"--every {every:g} is no whole number of days: dates have no hours")
    numbers = [first + every * wave for wave in range(count)]
    return [format_time(number, dated) for number in numbers] if dated else [*numbers]
