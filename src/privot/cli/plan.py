"""The command that plans reports before there are any. No PyTorch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from privot.cli.console import SchemaFile, step_bar
from privot.privacy.rounding import at_most, exactly

if TYPE_CHECKING:
    from privot.evaluation.forecast import FitForecast
    from privot.release import Plan
    from privot.release.planning.columns import ColumnPlan, Forecast
    from privot.release.planning.tables import ExpectedError, TablePlan
    from privot.schema import Schema

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
    epsilon: Annotated[float, Option(help="Privacy loss of one whole report.")],
    people: Annotated[int, Option(help="How many people (or units of the schema) will report.")],
    target_error: Annotated[
        float, Option(help="Two-way error of a table to count the people for.")
    ] = 0.05,
    like: Annotated[
        Path | None,
        Option(
            help="Folder of a model, a pilot's say, whose people rehearse what a fit will err by."
        ),
    ] = None,
    rehearse: Annotated[
        bool, Option("--rehearse", help="The same by made-up people, where there is no model.")
    ] = False,
    as_json: Annotated[bool, Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Expected error of each way of reporting: of tables, places, numbers, vectors and images.

    Reads the schema only, so it costs no privacy; and a model, if it is given one, which is as private
    as the reports that it was learned from. A rehearsal takes as long as some fits.

    Example: privot plan schema.toml --epsilon 4 --people 50000
    """
    from privot.release import plan_reports
    from privot.schema import Schema

    declared = Schema.load(schema)
    made = plan_reports(declared, epsilon, people, target_error=target_error)
    command = _command(schema, made)
    fitted = _rehearsed(declared, made, like) if rehearse or like is not None else None
    if as_json:
        told = {} if fitted is None else {"fit": asdict(fitted)}
        print(json.dumps(asdict(made) | told | {"command": command}))
        return
    if made.table is not None:
        _print_table_plan(made, made.table)
    for number, column in enumerate(made.columns):
        if number or made.table is not None:
            print()
        _print_column(made, column)
    if fitted is not None:
        print(_fit_in_words(fitted, like))
    print(f"next: {command}")


def _rehearsed(declared: Schema, made: Plan, like: Path | None) -> FitForecast:
    from privot.errors import PrivotError
    from privot.evaluation.forecast import forecast_fit
    from privot.local import LocalModel
    from privot.models import load

    model = None if like is None else load(like)
    if model is not None and not isinstance(model, LocalModel):
        raise PrivotError(f"{like} was not learned from reports: give a model by `privot fit`")
    with step_bar("rehearsing") as progress:
        return forecast_fit(declared, made.epsilon, made.people, like=model, progress=progress)


def _fit_in_words(told: FitForecast, like: Path | None) -> str:
    who = f"people with the columns of {like} who depend as strongly as it leaves possible"
    if told.made_up:
        who = "made-up people whose pairs of columns depend as a census's do"
    pairs = "" if told.two_way is None else f", two-way {told.two_way:.3f}"
    if told.low is not None:
        pairs += f" (eight in ten between {told.low:.3f} and {told.high:.3f})"
    times = "rehearsal" if told.rehearsals == 1 else "rehearsals"
    return (
        f"to expect of `privot fit`: one-way {told.one_way:.3f}{pairs}, "
        f"by {told.rehearsals} {times} of {who}."
    )


def _print_table_plan(made: Plan, table: TablePlan) -> None:
    sizes = sorted(table.sizes.values())
    columns = f"{len(sizes)} column{'s' if len(sizes) > 1 else ''}"
    values = f"{columns} of {_range(sizes[0], sizes[-1])} values"
    print(f"{values}, {made.people:,} reports, ε = {exactly(made.epsilon)} per {made.unit}")
    if table.epsilon < made.epsilon:
        print(f"{at_most(table.epsilon)} of ε for these columns, an equal share for each vector")
    print()
    header = (*_HEADER, f"people for {exactly(table.target_error)}")
    _print_table([header, *(_row(option, table) for option in table.options)])
    print()
    best = table.recommended
    k = f"{_range(*best.columns)} column{'s' if best.columns[1] > 1 else ''}"
    print(f"recommended: a {best.report} report of {k} per {made.unit}: {table.reason}.")
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


def _print_column(made: Plan, plan: ColumnPlan) -> None:
    spent = f"ε = {at_most(plan.epsilon)} per {made.unit}"
    print(f"{' with '.join(plan.columns)}: {made.people:,} reports, {spent}")
    print(f"error to expect: {_MEASURES[plan.measure]}\n")
    pictures = plan.recommended.accuracy is not None
    rows: list[tuple[str, ...]] = [
        ("report", *(("accuracy",) if pictures else ()), "error", "as good at ε", "as good from")
    ]
    for option in plan.options:
        name = option.report
        if name == "gaussian":
            name += f" (δ = {exactly(plan.delta)})"
        told = (_share(option.accuracy),) if pictures else ()
        needs = (_needed(option.same_epsilon), _people(option.same_people))
        if option == plan.recommended:
            needs = (at_most(plan.epsilon), f"{made.people:,} people   <- recommended")
        rows.append((name, *told, f"{option.error:.3g}", *needs))
    _print_table(rows)
    print()
    _print_forecasts(f"{plan.recommended.report}, people", plan.forecasts)
    print(_CAVEATS[plan.measure])
    if pictures:
        print(
            "Accuracy is a linear classifier's among stand-ins, with as many labels, for your images."
        )


def _print_forecasts(heading: str, forecasts: Sequence[Forecast]) -> None:
    """A row for each number of people, a column for each ε."""
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


def _needed(epsilon: float | None) -> str:
    if epsilon is None:
        return "no ε to 1000"
    return at_most(epsilon, 2)


def _people(number: int | None) -> str:
    return "nobody" if number is None else f"{_rounded(number)} people"


def _command(schema: Path, made: Plan) -> str:
    """The command that calibrates what is recommended."""
    words = ["privot calibrate", str(schema), f"--epsilon {exactly(made.epsilon)}"]
    if made.table is not None:
        best = made.table.recommended
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
    """Distributions differ by 1 at most; estimates without a model can miss by more."""
    if error is None:
        return "–"
    return f"{error:.4f}" if error < 1 else "over 1"


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _rounded(number: int) -> str:
    """Two digits are known at best."""
    digits = max(0, len(str(number)) - 2)
    return f"{-(-number // 10**digits) * 10**digits:,}"


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Names to the left, numbers to the right; what follows the last number is not aligned."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    last = max(len(row[-1].partition("   ")[0]) for row in rows)
    for row in rows:
        cells = [
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=False))
        ]
        number, gap, note = row[-1].partition("   ")
        print("  ".join([*cells, number.rjust(last)]) + gap + note)
