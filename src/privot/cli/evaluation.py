"""Commands that check models by reports, evaluate them against real records, and plan campaigns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from privot.cli.console import (
    FailOn,
    Force,
    Ignore,
    SchemaFile,
    Separator,
    Target,
    fail_by_verdict,
    load_generative,
    load_local,
    note,
    print_verdict,
    record_form,
    require_fail_on,
    step_bar,
)
from privot.core.errors import (
    MOST_ROWS,
    PrivotError,
    require_choice,
    require_count,
    require_seed,
)
from privot.core.files import claim_file, claim_folder, replacing_folder
from privot.privacy.rounding import at_most, exactly

if TYPE_CHECKING:
    from privot.forecast.fits import FitForecast
    from privot.forecast.simulation import TrustPlan
    from privot.randomizer import Plan
    from privot.randomizer.column_plans import ColumnPlan, Forecast
    from privot.randomizer.plan import ExpectedError, TablePlan
    from privot.schema import Schema


def check(
    model: Path = Argument(help="Folder of the model."),
    release: Path = Argument(help="The reports that it learned from, or later ones."),
    held_out: bool = Option(False, "--held-out", help="The model has not seen these reports."),
    target: Target = None,
    output: Path | None = Option(None, "-o", "--output", help="A page of it; none by default."),
    seed: int = Option(0, help="Seed of the rehearsals."),
    as_json: bool = Option(False, "--json", help="Print all numbers as JSON."),
    force: Force = False,
) -> None:
    """Say what a table's model may be used for, by reports alone: no real record is needed.

    It is as private as the release: intervals of the population's statistics, whether the reports
    contradict the model, the errors to expect. A rehearsal (people drawn from the model report, and a
    model is fitted to their reports) takes about half as long as a fit. With --target it says, too,
    whether to trust a classifier of that column that learns from synthetic records.

    Example: privot check model/ release.parquet --target income -o check.html
    """
    from privot.evaluation import check as checked
    from privot.randomizer import Release
    from privot.report import write_check_report

    if output is not None:
        claim_file(output, inputs=[model, release], suffixes=(".html",), force=force)
    require_seed(seed)
    loaded = load_local(model, "only such a model has any to check")
    reports = Release.load(release)
    with step_bar("checking") as progress:
        found = checked(
            loaded, reports, held_out=held_out, target=target, seed=seed, progress=progress
        )
    if output is not None:
        write_check_report(found, loaded, output)
    if as_json:
        verdict = [asdict(finding) for finding in found.verdict]
        print(json.dumps({"verdict": verdict} | found.to_dict()))
        return
    print(f"{model}: checked by {found.num_reports:,} reports, {found.guarantee}")
    print_verdict(found.verdict, "by the reports alone")
    if output is not None:
        print(f"\n{output}: written")


def evaluate(
    model: Path = Argument(help="Folder of the model."),
    against: Path = Option(help="Real records: csv, csv.gz, parquet, npz, a folder of images."),
    target: str | None = Option(
        None,
        help="Column that classifiers (of numbers: regressions) are to predict from the others; of "
        "images, their one category by default.",
    ),
    output: Path = Option(Path("report.html"), "-o", "--output", help="The report."),
    num_rows: int = Option(50_000, "-n", "--num-rows", help="Synthetic records to compare."),
    most_real: int = Option(
        500_000, help="Real records to compare at most, drawn uniformly from more."
    ),
    seed: int = Option(0, help="Seed of the samples compared."),
    separator: Separator = ",",
    ignore: Ignore = None,
    as_json: bool = Option(False, "--json", help="Print all numbers as JSON."),
    fail_on: FailOn = None,
    force: Force = False,
) -> None:
    """Compare a model's samples with real records. The output is not private.

    With --fail-on poor a verdict with a poor finding ends with exit code 3, after everything is written.

    Example: privot evaluate model/ --against holdout.csv --target income -o report.html
    """
    from privot.evaluation import evaluate as compared
    from privot.report import write_report
    from privot.tables.record_files import open_records, sample_rows

    claim_file(output, inputs=[model, against], suffixes=(".html",), force=force)
    require_fail_on(fail_on)
    require_count("num_rows", num_rows, MOST_ROWS)
    require_count("most_real", most_real, MOST_ROWS)
    require_seed(seed)
    remedy = "draw records by `privot integral sample`, and compare the tables by privot.evaluate"
    loaded = load_generative(model, remedy)
    records = open_records(against, loaded.schema, record_form(separator, ignore))
    real, num_held = sample_rows(records, most_real, seed)
    if num_held > real.num_rows:
        note(
            f"{against} holds {num_held:,} records: {real.num_rows:,} drawn uniformly are compared"
        )
    found = compared(loaded, real, target=target, num_rows=num_rows, seed=seed)
    if fail_on is not None and not found.verdict:
        raise PrivotError(
            f"--fail-on {fail_on}: places and images alone have distances and no verdict: leave it out, "
            "and read them with --json"
        )
    comparison, prediction, label = found.comparison, found.prediction, found.label
    write_report(found, output, num_held=num_held)
    note("what follows, and the report, depend on real records: they are not private")
    if as_json:
        numbers = {
            "verdict": [asdict(finding) for finding in found.verdict],
            "summary": {name: asdict(score) for name, score in comparison.summary.items()},
            "prediction": None if prediction is None else asdict(prediction),
            "label": None if label is None else asdict(label),
        }
        print(json.dumps(numbers | asdict(comparison)))
    else:
        for name, fact in found.summary().items():
            print(f"{name}: {fact}")
        if found.verdict:
            print_verdict(found.verdict, "against real records, not private")
        print(f"\n{output}: written")
    fail_by_verdict(found.verdict, fail_on)


# `privot plan`: expected errors before there are reports. Only simulations need PyTorch.

_HEADER = ("report", "columns", "cells", "pair seen by", "one-way", "two-way")
_MEASURES = {
    "W1": "W₁, where the bounds are -1 and 1",
    "W2": "W₂, where the bounds are -1 and 1",
    "mean": "length of the mean's error, where no record is longer than 1",
    "class means": "length of the error of each label's mean, where no record is longer than 1",
}
_CAVEATS = {
    "W1": "It is the error of the law that is learned: a sample of it errs by its own size as well.",
    "W2": "It is the error of the law that is learned: a sample of it errs by its own size as well.",
    "mean": "It is the error of an estimate without a model; a fit does better.",
    "class means": "It is the error of an estimate without a model; a fit does better.",
}


def plan(
    schema: SchemaFile,
    epsilon: float | None = Option(None, help="Privacy loss of one whole report."),
    people: int | None = Option(None, help="How many people (or units of the schema) will report."),
    where: list[str] | None = Option(
        None,
        help="Compare places of trust instead: all, or some of local, shuffled, aggregated, central. "
        "May be repeated. Epsilon, delta and people may be left to the schema's [promise].",
    ),
    delta: float | None = Option(
        None, help="With --where: delta wherever somebody is trusted; 0.01 / people by default."
    ),
    target_error: float = Option(0.05, help="Two-way error of a table to count the people for."),
    like: Path | None = Option(
        None,
        help="Folder of a model, a pilot's say, whose people are simulated to estimate the error of "
        "a fit. With --simulate also a table that is like people and not private.",
    ),
    rehearse: bool = Option(
        False, "--rehearse", help="The same by made-up people, where there is no model."
    ),
    simulate: Path | None = Option(
        None,
        help="Instead of a plan: simulate the campaign, and write what the answer will look like to "
        "this folder. Every line, file and picture is stamped SIMULATED.",
    ),
    rehearsals: int | None = Option(
        None, help="With --simulate: how many fits (3); with --where: for each place (1)."
    ),
    seed: int = Option(0, help="With --simulate or --where: of people and fits."),
    as_json: bool = Option(False, "--json", help="Print the plan as JSON."),
    force: Force = False,
) -> None:
    """Expected error of each way of reporting: of tables, places, numbers, vectors and images.

    Reads the schema only, so it costs no privacy; and a model, if it is given one, which is as private
    as the reports that it was learned from. A simulation takes as long as some fits; one like a table
    shows rows drawn from it: give no table of private people.

    Example: privot plan schema.toml --epsilon 4 --people 50000

    What the answer will look like: privot plan schema.toml --epsilon 2 --people 30000 --simulate
    rehearsal/ --like census.csv

    The same ε where others are trusted: privot plan schema.toml --epsilon 1 --people 200000 --where all
    """
    from privot.randomizer import plan_reports
    from privot.schema import Schema

    if where is not None:
        if rehearse:
            raise PrivotError("--where rehearses every place of trust: leave out --rehearse")
        given = {"epsilon": epsilon, "people": people, "delta": delta}
        how = rehearsals or 1, seed
        _compare_trust(schema, where, given, (like, *how), simulate, as_json=as_json, force=force)
        return
    if epsilon is None or people is None or delta is not None:
        raise PrivotError(
            "a plan takes --epsilon and --people, and --delta only with --where: give both, and no delta"
        )
    if simulate is not None:
        if as_json or rehearse:
            raise PrivotError("--simulate makes no plan: leave out --json and --rehearse")
        _simulate(schema, epsilon, people, (like, rehearsals or 3, seed), simulate, force)
        return
    declared = Schema.load(schema)
    overall = plan_reports(declared, epsilon, people, target_error=target_error)
    command = _command(schema, overall)
    fitted = _rehearsed(declared, overall, like) if rehearse or like is not None else None
    if as_json:
        more = {} if fitted is None else {"fit": asdict(fitted)}
        print(json.dumps(asdict(overall) | more | {"command": command}))
        return
    if overall.table is not None:
        _print_table_plan(overall, overall.table)
    for number, column in enumerate(overall.columns):
        if number or overall.table is not None:
            print()
        _print_column(overall, column)
    if fitted is not None:
        print(_fit_in_words(fitted, like))
    print(f"next: {command}")


_FACTORS = (0.1, 0.3, 1.0, 3.0)  # of ε, in a picture


def _compare_trust(
    schema: Path,
    where: list[str],
    given: dict[str, Any],
    how: tuple[Path | None, int, int],
    output: Path | None,
    *,
    as_json: bool,
    force: bool,
) -> None:
    """Print errors by place of trust, and write a page of them; `how` are as in `_simulate`.

    What is not `given` of ε, people and δ is read in the schema's promise.
    """
    from privot.forecast.simulation import PLACES, STAMP, forecast_trust, promises_at
    from privot.report.pages import TRUST_WRITTEN, write_trust
    from privot.schema import Schema

    (like, rehearsals, seed), declared = how, Schema.load(schema)
    for name in where:
        require_choice("--where", name, ("all", *PLACES))
    places = [each for each in PLACES if {"all", each} & {*where}]
    promised = declared.promise
    for name in ("epsilon", "people", *(("delta",) if places != ["local"] else ())):
        if given[name] is None:
            given[name] = getattr(promised, name, None) or None
        if given[name] is None and name != "delta":
            raise PrivotError(
                f"{name} is missing, and the schema promises {promised or 'nothing'}: give --{name}, or "
                "declare it in [promise]"
            )
    require_seed(seed)
    if output is not None:
        claim_folder(output, TRUST_WRITTEN, inputs=[schema, *([like] if like else [])], force=force)
    epsilon, people = given["epsilon"], given["people"]
    epsilons = [epsilon] if output is None else [factor * epsilon for factor in _FACTORS]
    floor = promised.floor if promised and "shuffled" in places else None
    epsilons = [each for each in epsilons if each <= (floor or each)]
    promises = promises_at(epsilons, people, where=places, delta=given["delta"], floor=floor)
    prior = None if like is None else _prior(like, declared)
    how_often: dict[str, Any] = {"rehearsals": rehearsals, "seed": seed}
    with step_bar("rehearsing") as bar:
        found = forecast_trust(declared, promises, people, prior=prior, progress=bar, **how_often)
    if output is not None:
        with replacing_folder(output) as folder:
            write_trust(folder, found)
    if as_json:
        print(json.dumps(asdict(found)))
        return
    _print_trust(found, epsilon, like)
    if output is not None:
        print(f"{STAMP}: {output / TRUST_WRITTEN[0]}: error against ε")


def _prior(like: Path, declared: Schema) -> Any:
    """Read a prior: the folder of a model, or a table."""
    from privot.models import load
    from privot.tables.files import read_table

    return load(like) if like.is_dir() else read_table(like, declared)


def _print_trust(plan: TrustPlan, epsilon: float, like: Path | None) -> None:
    from privot.forecast.simulation import SERVERS, STAMP, TRUSTED
    from privot.report.pages import NAMES

    who = "made-up people" if like is None else f"people like those of {like}"
    print(f"{STAMP}: {plan.people:,} {who}; error of {NAMES[plan.measure]}\n")
    head = ("place", "ε", "δ", "ε₀ alone", "error", "servers", "bytes a report   trusted")
    rows = [head]
    for row in (each for each in plan.rows if each.epsilon == epsilon):
        alone = "none" if row.epsilon0 is None else at_most(row.epsilon0)
        size = "the record" if row.where == "central" else "–"
        if row.report_bytes is not None:
            size = f"{row.report_bytes:,}"
        error = "refused" if row.refused else f"{row.predicted[plan.measure]:.4f}"
        last = f"{size}   {TRUSTED[row.where]}"
        delta = at_most(row.delta, 3) if row.delta else "0"
        loss = at_most(row.epsilon)
        rows.append((row.where, loss, delta, alone, error, str(SERVERS[row.where]), last))
    _print_table(rows)
    print(f"\nwithout noise: {plan.floor[plan.measure]:.4f}")
    for row in plan.rows:
        if row.refused:
            print(f"{row.where} at ε = {at_most(row.epsilon)} is refused: {row.refused}")
    if like is None:
        print(
            "Errors of real people differ: --like takes a public table or a pilot's model instead."
        )


def _simulate(
    schema: Path,
    epsilon: float,
    people: int,
    how: tuple[Path | None, int, int],
    output: Path,
    force: bool,
) -> None:
    """Simulate a campaign; `how` are the path of a prior (or None), the number of fits, and the seed."""
    from privot.forecast.simulation import STAMP, simulate_campaign
    from privot.report.pages import NAMES, WRITTEN, write_rehearsal
    from privot.schema import Schema

    like, rehearsals, seed = how
    declared, inputs = Schema.load(schema), [schema, *([] if like is None else [like])]
    require_seed(seed)
    claim_folder(output, WRITTEN, inputs=inputs, force=force)
    prior = None if like is None else _prior(like, declared)
    with step_bar("rehearsing") as progress:
        found = simulate_campaign(
            declared,
            epsilon,
            people,
            prior=prior,
            rehearsals=rehearsals,
            seed=seed,
            progress=progress,
        )
    with replacing_folder(output) as folder:
        write_rehearsal(folder, found, epsilon, people)
    who = "made-up people" if like is None else f"people like those of {like}"
    print(f"{STAMP}: {people:,} reports of {who}, ε = {exactly(epsilon)}")
    for key, error in found.predicted.items():
        interval = f"{found.low[key]:.4f} to {found.high[key]:.4f} in {found.rehearsals} rehearsals"
        print(
            f"{STAMP}: {NAMES[key]}: error {error:.4f} ({interval}), "
            f"without noise {found.without_noise[key]:.4f}"
        )
    print(f"{STAMP}: {output / WRITTEN[0]}: what the answer will look like")


def _rehearsed(declared: Schema, overall: Plan, like: Path | None) -> FitForecast:
    from privot.forecast.fits import forecast_fit

    model = None if like is None else load_local(like, "give a model by `privot fit`")
    with step_bar("rehearsing") as progress:
        return forecast_fit(
            declared, overall.epsilon, overall.people, like=model, progress=progress
        )


def _fit_in_words(forecast: FitForecast, like: Path | None) -> str:
    who = f"people with the columns of {like} who depend as strongly as it leaves possible"
    if forecast.made_up:
        who = "made-up people whose pairs of columns depend as a census's do"
    pairs = "" if forecast.two_way is None else f", two-way {forecast.two_way:.3f}"
    if forecast.low is not None:
        pairs += f" (eight in ten between {forecast.low:.3f} and {forecast.high:.3f})"
    times = "rehearsal" if forecast.rehearsals == 1 else "rehearsals"
    return (
        f"to expect of `privot fit`: one-way {forecast.one_way:.3f}{pairs}, "
        f"by {forecast.rehearsals} {times} of {who}."
    )


def _print_table_plan(overall: Plan, table: TablePlan) -> None:
    sizes = sorted(table.sizes.values())
    columns = f"{len(sizes)} column{'s' if len(sizes) > 1 else ''}"
    values = f"{columns} of {_range(sizes[0], sizes[-1])} values"
    print(
        f"{values}, {overall.people:,} reports, ε = {exactly(overall.epsilon)} per {overall.unit}"
    )
    if table.epsilon < overall.epsilon:
        print(f"{at_most(table.epsilon)} of ε for these columns, an equal share for each vector")
    print()
    header = (*_HEADER, f"people for {exactly(table.target_error)}")
    _print_table([header, *(_row(option, table) for option in table.options)])
    print()
    best = table.recommended
    k = f"{_range(*best.columns)} column{'s' if best.columns[1] > 1 else ''}"
    print(f"recommended: a {best.report} report of {k} per {overall.unit}: {table.reason}.")
    shown = best.two_way if best.two_way is not None else best.one_way
    if shown > table.guess:
        print(
            f"That error is larger than of a guess without any reports ({table.guess:.2f}): "
            "joint structure will be as good as the model's assumptions. More people, a larger ε, or "
            "fewer bins and categories would help."
        )
    pairs = "one-way" if best.two_way is None else "two-way"
    print()
    _print_forecasts(f"{pairs} error, people", table.forecasts)
    print()
    print(
        "Errors are expected total variation, averaged over columns and pairs, at most, of an "
        "estimate without a model. Latent classes, which `privot fit` uses for tables, do better: "
        "two to six times on a census, the more so the smaller ε; --rehearse or --like MODEL say more."
    )


def _print_column(overall: Plan, plan: ColumnPlan) -> None:
    spent = f"ε = {at_most(plan.epsilon)} per {overall.unit}"
    print(f"{' with '.join(plan.columns)}: {overall.people:,} reports, {spent}")
    print(f"error to expect: {_MEASURES[plan.measure]}\n")
    pictures = plan.recommended.accuracy is not None
    rows: list[tuple[str, ...]] = [
        ("report", *(("accuracy",) if pictures else ()), "error", "as good at ε", "as good from")
    ]
    for option in plan.options:
        name = option.report
        if name == "gaussian":
            name += f" (δ = {exactly(plan.delta)})"
        accuracy = (_share(option.accuracy),) if pictures else ()
        needs = (
            "no ε to 1000" if option.same_epsilon is None else at_most(option.same_epsilon, 2),
            "nobody" if option.same_people is None else f"{_rounded(option.same_people)} people",
        )
        if option == plan.recommended:
            needs = (at_most(plan.epsilon), f"{overall.people:,} people   <- recommended")
        rows.append((name, *accuracy, f"{option.error:.3g}", *needs))
    _print_table(rows)
    print()
    _print_forecasts(f"{plan.recommended.report}, people", plan.forecasts)
    print(_CAVEATS[plan.measure])
    if pictures:
        print(
            "Accuracy is a linear classifier's among stand-ins, with as many labels, for your images."
        )


def _print_forecasts(heading: str, forecasts: Sequence[Forecast]) -> None:
    """Print expected errors, with a row for each number of people and a column for each ε."""
    losses = sorted({cast.epsilon for cast in forecasts})
    grid = [(heading, *(f"ε = {at_most(e)}" for e in losses))]
    for people in sorted({cast.people for cast in forecasts}):
        found = {c.epsilon: c for c in forecasts if c.people == people}
        grid.append((f"{people:,}", *(_forecast(found[e]) for e in losses)))
    _print_table(grid)


def _forecast(cast: Forecast) -> str:
    error = f"{cast.error:.3g}" if cast.error < 1 else "over 1"
    return error if cast.accuracy is None else f"{error} ({_share(cast.accuracy)})"


def _share(accuracy: float | None) -> str:
    return "–" if accuracy is None else f"{accuracy:.2f}"


def _command(schema: Path, overall: Plan) -> str:
    """Return the command that calibrates the recommended report."""
    words = ["privot calibrate", str(schema), f"--epsilon {exactly(overall.epsilon)}"]
    if overall.table is not None:
        best = overall.table.recommended
        words += [] if best.report == "joint" else [f"--report {best.report}"]
        if best.report_columns is not None:
            words += [f"--report-columns {best.report_columns}"]
    return " ".join([*words, "-o randomizer.json"])


def _row(option: ExpectedError, table: TablePlan) -> tuple[str, ...]:
    needed = "–" if option.people_needed is None else _rounded(option.people_needed)
    note = "   marginals only" if option.marginals_only else ""
    note = "   <- recommended" if option == table.recommended else note
    return (
        option.report,
        _range(*option.columns),
        _range(*option.cells),
        f"{option.pair_share:.2%}" if option.pair_share else "nobody",
        _error(option.one_way),
        _error(option.two_way),
        needed + note,
    )


def _error(error: float | None) -> str:
    """Format an error in total variation; estimates without a model can exceed 1."""
    if error is None:
        return "–"
    return f"{error:.4f}" if error < 1 else "over 1"


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _rounded(number: int) -> str:
    """Round up to two significant digits, the accuracy of a forecast."""
    digits = max(0, len(str(number)) - 2)
    return f"{-(-number // 10**digits) * 10**digits:,}"


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table, names left-aligned and numbers right-aligned; a note may follow the last one."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    last = max(len(row[-1].partition("   ")[0]) for row in rows)
    for row in rows:
        cells = [
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=False))
        ]
        number, gap, note = row[-1].partition("   ")
        print("  ".join([*cells, number.rjust(last)]) + gap + note)
