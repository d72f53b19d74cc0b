"""Commands that check and evaluate models, and plan campaigns: `privot check`, `evaluate`, `plan`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from typer import Argument, Option

import privot
from privot.cli import console
from privot.core.errors import MOST_ROWS, PrivotError, require_choice, require_count, require_seed
from privot.core.files import claim_file, claim_folder, replacing_folder
from privot.privacy.rounding import at_least, at_most, exactly

if TYPE_CHECKING:
    from privot.forecast.fits import FitForecast
    from privot.forecast.simulation import TrustPlan
    from privot.randomizer import Plan
    from privot.randomizer.column_plans import ColumnPlan, Forecast
    from privot.randomizer.plan import ExpectedError, TablePlan
    from privot.schema.schema import Promise


def check(
    model: Path = Argument(help="Folder of the model."),
    release: Path = Argument(help="Reports or counts that it was fitted to, or later ones."),
    held_out: bool = Option(False, "--held-out", help="The model has not seen these reports."),
    target: console.Target = None,
    output: Path | None = Option(None, "-o", "--output", help="HTML file of results, if wanted."),
    seed: int = Option(0, help="Seed of the rehearsals."),
    as_json: bool = Option(False, "--json", help="Print all numbers as JSON."),
    force: console.Force = False,
) -> None:
    """Grade the uses of a table's model by reports alone: no real record is needed.

    The results have the weaker guarantee of model and release: intervals of the population's statistics,
    whether the reports contradict the model, and the errors to expect. A rehearsal (reports of people
    drawn from the model, and a fit to these) takes about half as long as a fit. With --target, the check
    also grades classifiers of that column that are trained on synthetic records.

    Example: privot check model/ release.parquet --target income -o check.html
    """
    from privot.randomizer.reports.counts import is_counts
    from privot.report import write_check_report

    if output is not None:
        claim_file(output, inputs=[model, release], suffixes=(".html",), force=force)
    require_seed(seed)
    loaded = console.load_local(model, "compare it with real records by `privot evaluate`")
    reports = privot.Counts.load(release) if is_counts(release) else privot.Release.load(release)
    with console.step_bar("checking") as progress:
        result = privot.check(
            loaded, reports, held_out=held_out, target=target, seed=seed, progress=progress
        )
    if output is not None:
        write_check_report(result, loaded, output)
    if as_json:
        print(json.dumps({"verdict": [*map(asdict, result.verdict)]} | result.to_dict()))
        return
    print(f"{model}: checked by {result.num_reports:,} reports, {result.guarantee}")
    console.print_verdict(result.verdict, "by the reports alone")
    if output is not None:
        print(f"\n{output}: written")


def evaluate(
    model: Path = Argument(help="Folder of the model."),
    against: Path = Option(help="Real records: csv, csv.gz, parquet, npz, a folder of images."),
    target: console.Target = None,
    output: Path = Option(Path("report.html"), "-o", "--output", help="The report."),
    num_rows: int = Option(50_000, "-n", "--num-rows", help="Number of synthetic records."),
    most_real: int = Option(500_000, help="Maximum number of real records; a sample if more."),
    seed: int = Option(0, help="Seed of the samples."),
    separator: console.Separator = ",",
    ignore: console.Ignore = None,
    as_json: bool = Option(False, "--json", help="Print all numbers as JSON."),
    fail_on: console.FailOn = None,
    force: console.Force = False,
) -> None:
    """Compare a model's samples with real records. The output is not private.

    For images, the target is by default their only categorical column. With --fail-on, the command first
    writes everything, and then fails.

    Example: privot evaluate model/ --against holdout.csv --target income -o report.html
    """
    from privot.tables.record_files import open_records, sample_rows

    claim_file(output, inputs=[model, against], suffixes=(".html",), force=force)
    if fail_on is not None:
        require_choice("--fail-on", fail_on, ("poor", "fair"))
    require_count("num_rows", num_rows, MOST_ROWS)
    require_count("most_real", most_real, MOST_ROWS)
    require_seed(seed)
    remedy = "draw records by `privot integral sample`, and compare the tables by privot.evaluate"
    loaded = console.load_generative(model, remedy)
    records = open_records(against, loaded.schema, console.record_form(separator, ignore))
    real, num_records = sample_rows(records, most_real, seed)
    if num_records > real.num_rows:
        console.note(
            f"{against} holds {num_records:,} records: {real.num_rows:,} drawn uniformly are compared"
        )
    result = privot.evaluate(loaded, real, target=target, num_rows=num_rows, seed=seed)
    if fail_on is not None and not result.verdict:
        raise PrivotError(
            f"--fail-on {fail_on}: places and images alone have distances and no verdict: leave it out, "
            "and read them with --json"
        )
    comparison, prediction, label = result.comparison, result.prediction, result.label
    privot.write_report(result, output, num_held=num_records)
    console.note("what follows, and the report, depend on real records: they are not private")
    if as_json:
        numbers = {
            "verdict": [asdict(finding) for finding in result.verdict],
            "summary": {name: asdict(score) for name, score in comparison.summary.items()},
            "prediction": None if prediction is None else asdict(prediction),
            "label": None if label is None else asdict(label),
            "sdmetrics": result.sdmetrics,
        }
        print(json.dumps(numbers | asdict(comparison)))
    else:
        for name, fact in result.summary().items():
            print(f"{name}: {fact}")
        if result.verdict:
            console.print_verdict(result.verdict, "against real records, not private")
        print(f"\n{output}: written")
    console.fail_by_verdict(result.verdict, fail_on)


# `privot plan`: expected errors before there are reports. Only simulations need PyTorch.

_RECOMMENDED = "<- recommended"
_TABLE_HEADER = ("report", "columns", "cells", "pair seen by", "one-way", "two-way")
_MEASURES = {
    "W1": "W₁, where the bounds are -1 and 1",
    "W2": "W₂, where the bounds are -1 and 1",
    "mean": "length of the mean's error, where no record is longer than 1",
    "class means": "length of the error of each label's mean, where no record is longer than 1",
}


def plan(
    schema: console.SchemaFile,
    epsilon: float | None = Option(None, help="Privacy loss of one whole report."),
    people: int | None = Option(None, help="Number of people (or units) who will report."),
    where: list[str] | None = Option(
        None,
        help="Compare places of trust: all, or some of local, shuffled, aggregated, central. May be "
        "repeated. The schema's [promise] may state epsilon, delta and people.",
    ),
    delta: float | None = Option(None, help="With --where: delta; 0.01 / people by default."),
    target_error: float = Option(0.05, help="Two-way error for which to count the people needed."),
    like: Path | None = Option(
        None,
        help="Folder of a model, such as that of a pilot, from which people are simulated to estimate "
        "the error of a fit. With --simulate and --where, also a public table.",
    ),
    rehearse: bool = Option(False, "--rehearse", help="Simulate made-up people, without --like."),
    simulate: Path | None = Option(
        None,
        help="Folder to write: no plan is made, but the campaign and its results are simulated. Every "
        "line, file and picture is stamped SIMULATED.",
    ),
    rehearsals: int | None = Option(None, help="Simulated campaigns (--simulate: 3; --where: 1)."),
    seed: int = Option(0, help="With --simulate or --where: seed of people and fits."),
    as_json: bool = Option(False, "--json", help="Print the plan as JSON."),
    force: console.Force = False,
) -> None:
    """Compute the expected error of each way to report tables, places, numbers, vectors and images.

    A plan reads the schema only, so it costs no privacy, and with --like a model, which is as private as
    the reports that it was fitted to. A simulation takes as long as several fits. With --like TABLE the
    results contain rows of the table, which must not be private.

    Example: privot plan schema.toml --epsilon 4 --people 50000

    What the answer will look like: privot plan schema.toml --epsilon 2 --people 30000 --simulate
    rehearsal/ --like census.csv

    The same ε where others are trusted: privot plan schema.toml --epsilon 1 --people 200000 --where all
    """
    from privot.evaluation.floors import floor_of_codes, floor_of_points
    from privot.randomizer import plan_reports

    if where is not None:  # errors at places of trust
        if rehearse:
            raise PrivotError("--where rehearses every place of trust: leave out --rehearse")
        simulation = _Simulation(schema, like, rehearsals or 1, seed, simulate, force)
        _plan_trust(simulation, where, epsilon, people, delta, as_json)
        return
    if epsilon is None or people is None or delta is not None:
        raise PrivotError(
            "a plan takes --epsilon and --people, and --delta only with --where: give both, and no delta"
        )
    if simulate is not None:  # a simulated campaign
        if as_json or rehearse:
            raise PrivotError("--simulate makes no plan: leave out --json and --rehearse")
        simulation = _Simulation(schema, like, rehearsals or 3, seed, simulate, force)
        _simulate(simulation, simulate, epsilon, people)
        return
    declared = privot.Schema.load(schema)
    overall = plan_reports(declared, epsilon, people, target_error=target_error)
    command = _calibrate_command(schema, overall)
    fitted = None
    if rehearse or like is not None:
        from privot.forecast.fits import forecast_fit

        model = None if like is None else console.load_local(like, "give a model by `privot fit`")
        with console.step_bar("rehearsing") as progress:
            fitted = forecast_fit(declared, epsilon, people, like=model, progress=progress)
    randomizer = privot.Randomizer.calibrate(declared, epsilon)
    floors = {
        name: floor
        for name, mechanism in randomizer.mechanisms.items()
        if (floor := floor_of_points(mechanism, declared.columns[name], people))
    }
    table_floor = floor_of_codes(randomizer, people)
    if as_json:
        fields: dict[str, Any] = {} if fitted is None else {"fit": asdict(fitted)}
        fields |= {"floors": {name: asdict(floor) for name, floor in floors.items()}}
        fields |= {"table_floor": table_floor, "command": command}
        print(json.dumps(asdict(overall) | fields))
        return
    if overall.table is not None:
        _print_table_plan(overall, overall.table)
        if table_floor is not None:
            print(
                f"From such reports every method errs by {at_least(table_floor, 2)} or more over "
                "columns, on average, for some population."
            )
    for number, column in enumerate(overall.columns):
        if number or overall.table is not None:
            print()
        _print_column(overall, column)
        for name in floors.keys() & {*column.columns}:
            print(f"From such reports {floors[name].words(column.measure, 'the uniform one')}.")
    if fitted is not None:
        print(_fit_text(fitted, like))
    print(f"next: {command}")


class _Simulation(NamedTuple):
    """Options of `privot plan --simulate` and `privot plan --where`."""

    schema: Path
    like: Path | None  # model or table that the simulated people are like; None makes them up
    rehearsals: int  # number of simulated campaigns
    seed: int  # of people and fits
    output: Path | None  # folder to write
    force: bool  # whether to replace the folder

    @property
    def people(self) -> str:
        """The simulated people, in words."""
        return "made-up people" if self.like is None else f"people like those of {self.like}"

    def claim(self, written: Sequence[str]) -> None:
        """Check the seed, and that files of these names can be written to the output."""
        require_seed(self.seed)
        if self.output is not None:
            inputs = [self.schema, *([] if self.like is None else [self.like])]
            claim_folder(self.output, written, inputs=inputs, force=self.force)

    def arguments(self, declared: privot.Schema) -> dict[str, Any]:
        """Read the model or table, and return the arguments of the simulating function."""
        prior: Any = None
        if self.like is not None and self.like.is_dir():
            prior = privot.load(self.like)
        elif self.like is not None:
            prior = privot.read_table(self.like, declared)
            console.note(f"what is written shows records of {self.like}, which must not be private")
        return {"prior": prior, "rehearsals": self.rehearsals, "seed": self.seed}


_FACTORS = (0.1, 0.3, 1.0, 3.0)  # multiples of the requested ε for which the page shows errors


def _plan_trust(
    simulation: _Simulation,
    where: list[str],
    epsilon: float | None,
    people: int | None,
    delta: float | None,
    as_json: bool,
) -> None:
    """Print the errors for each place of trust (who sees raw records), and write a page of them by ε.

    If ε, δ or the number of people is None, the schema's promise states it.
    """
    from privot.forecast.simulation import PLACES, STAMP, forecast_trust, promises_at
    from privot.report.pages import TRUST_FILES, write_trust

    declared, output = privot.Schema.load(simulation.schema), simulation.output
    promise = declared.promise
    for name in where:
        require_choice("--where", name, ("all", *PLACES))
    places = [place for place in PLACES if place in where or "all" in where]
    epsilon = _given_or_promised("epsilon", epsilon, promise)
    people = _given_or_promised("people", people, promise)
    if delta is None and promise is not None and places != ["local"]:  # local reports need no δ
        delta = promise.delta or None
    simulation.claim(TRUST_FILES)
    epsilons = [epsilon] if output is None else [factor * epsilon for factor in _FACTORS]
    floor = promise.floor if promise and "shuffled" in places else None
    if floor:  # no report may spend more, whatever a batch of them does
        epsilons = [candidate for candidate in epsilons if candidate <= floor]
    promises = promises_at(epsilons, people, where=places, delta=delta, floor=floor)
    arguments = simulation.arguments(declared)
    with console.step_bar("rehearsing") as progress:
        forecast = forecast_trust(declared, promises, people, progress=progress, **arguments)
    if output is not None:
        with replacing_folder(output) as folder:
            write_trust(folder, forecast)
    if as_json:
        print(json.dumps(asdict(forecast)))
        return
    _print_trust(forecast, epsilon, simulation)
    if output is not None:
        print(f"{STAMP}: {output / TRUST_FILES[0]}: error against ε")


def _given_or_promised(name: str, given: float | None, promise: Promise | None) -> Any:
    """Return the value of an option, else that of the promise; refuse if both are missing."""
    if given is not None:
        return given
    if promised := getattr(promise, name, None):
        return promised
    raise PrivotError(
        f"{name} is missing, and the schema promises {promise or 'nothing'}: give --{name}, or "
        "declare it in [promise]"
    )


def _print_trust(plan: TrustPlan, epsilon: float, simulation: _Simulation) -> None:
    """Print the error at each place of trust for one ε, and every refusal."""
    from privot.forecast.simulation import SERVERS, STAMP, TRUSTED
    from privot.report.pages import ERROR_NAMES

    print(f"{STAMP}: {plan.people:,} {simulation.people}; error of {ERROR_NAMES[plan.measure]}\n")
    header = ("place", "ε", "δ", "ε₀ alone", "error", "servers", "bytes a report")
    lines = [_Line(header, "trusted")]
    for row in plan.rows:
        if row.epsilon != epsilon:
            continue
        size = "the record" if row.where == "central" else "–"
        cells = (
            row.where,
            at_most(row.epsilon),
            at_most(row.delta, 3) if row.delta else "0",
            "none" if row.epsilon0 is None else at_most(row.epsilon0),
            "refused" if row.refused else f"{row.predicted[plan.measure]:.4f}",
            str(SERVERS[row.where]),
            size if row.report_bytes is None else f"{row.report_bytes:,}",
        )
        lines.append(_Line(cells, TRUSTED[row.where]))
    _print_table(lines)
    print(f"\nwithout noise: {plan.without_noise[plan.measure]:.4f}")
    for row in plan.rows:
        if row.refused:
            print(f"{row.where} at ε = {at_most(row.epsilon)} is refused: {row.refused}")
    if simulation.like is None:
        print(
            "Errors of real people differ: --like takes a public table or a pilot's model instead."
        )


def _simulate(simulation: _Simulation, output: Path, epsilon: float, people: int) -> None:
    """Simulate a campaign, print its errors, and write a page of its answer to `output`."""
    from privot.forecast.simulation import STAMP, simulate_campaign
    from privot.report.pages import ERROR_NAMES, SIMULATED_FILES, write_simulated_campaign

    declared = privot.Schema.load(simulation.schema)
    simulation.claim(SIMULATED_FILES)
    arguments = simulation.arguments(declared)
    with console.step_bar("rehearsing") as progress:
        result = simulate_campaign(declared, epsilon, people, progress=progress, **arguments)
    with replacing_folder(output) as folder:
        write_simulated_campaign(folder, result, epsilon, people)
    print(f"{STAMP}: {people:,} reports of {simulation.people}, ε = {exactly(epsilon)}")
    for measure, error in result.predicted.items():
        low, high = result.low[measure], result.high[measure]
        print(
            f"{STAMP}: {ERROR_NAMES[measure]}: error {error:.4f} "
            f"({low:.4f} to {high:.4f} in {result.rehearsals} rehearsals), "
            f"without noise {result.without_noise[measure]:.4f}"
        )
    print(f"{STAMP}: {output / SIMULATED_FILES[0]}: what the answer will look like")


def _fit_text(forecast: FitForecast, like: Path | None) -> str:
    """Return a sentence on the expected errors of a fit; `like` is the model of simulated people."""
    population = f"simulated people whose columns depend on each other as strongly as {like} allows"
    if forecast.made_up:
        population = "made-up people whose columns depend on each other as in a census"
    pairs = "" if forecast.two_way is None else f", two-way {forecast.two_way:.3f}"
    if forecast.low is not None:
        pairs += f" (eight in ten between {forecast.low:.3f} and {forecast.high:.3f})"
    named = {
        "KS of numbers": forecast.ks,
        "error of correlations": forecast.correlation,
        "of rank correlations": forecast.rank_correlation,
    }
    pairs += "".join(f", {name} {x:.3f}" for name, x in named.items() if x is not None)
    times = "rehearsal" if forecast.rehearsals == 1 else "rehearsals"
    return (
        f"to expect of `privot fit`: one-way {forecast.one_way:.3f}{pairs}, "
        f"by {forecast.rehearsals} {times} of {population}."
    )


def _print_table_plan(overall: Plan, table: TablePlan) -> None:
    """Print the expected errors of all ways to report the columns of a table."""
    sizes = sorted(table.sizes.values())
    columns = f"{len(sizes)} column{'s' if len(sizes) > 1 else ''}"
    spent = f"ε = {exactly(overall.epsilon)} per {overall.unit}"
    values = _range(sizes[0], sizes[-1])
    print(f"{columns} of {values} values, {overall.people:,} reports, {spent}")
    if table.epsilon < overall.epsilon:
        print(f"{at_most(table.epsilon)} of ε for these columns, an equal share for each vector")
    print()
    header = (*_TABLE_HEADER, f"people for {exactly(table.target_error)}")
    _print_table([_Line(header), *(_option_line(option, table) for option in table.options)])
    best = table.recommended
    reported = (
        f"{_range(*best.columns)} column{'s' if best.columns[1] > 1 else ''} per {overall.unit}"
    )
    print(f"\nrecommended: a {best.report} report of {reported}: {table.reason}.")
    error = best.one_way if best.two_way is None else best.two_way
    if error > table.guess:
        print(
            f"That error is larger than that of a guess without any reports ({table.guess:.2f}): "
            "joint structure will be as good as the model's assumptions. More people, a larger ε, or "
            "fewer bins and categories would help."
        )
    pairs = "one-way" if best.two_way is None else "two-way"
    _print_forecasts(f"{pairs} error, people", table.forecasts)
    print(
        "\nErrors are upper bounds of the expected total variation, averaged over columns or pairs, of "
        "an estimate without a model. Latent classes, which `privot fit` uses for tables, do better: "
        "two to six times on a census, the more so the smaller ε; --rehearse or --like MODEL say more."
    )


def _print_column(overall: Plan, plan: ColumnPlan) -> None:
    """Print the expected errors of all ways to report one place, number, vector or image."""
    spent = f"ε = {at_most(plan.epsilon)} per {overall.unit}"
    print(f"{' with '.join(plan.columns)}: {overall.people:,} reports, {spent}")
    print(f"error to expect: {_MEASURES[plan.measure]}\n")
    has_accuracy = plan.recommended.accuracy is not None
    accuracy_header = ("accuracy",) if has_accuracy else ()
    lines = [_Line(("report", *accuracy_header, "error", "as good at ε", "as good from"))]
    for option in plan.options:
        name = option.report
        if name == "gaussian":
            name += f" (δ = {exactly(plan.delta)})"
        accuracy = "–" if option.accuracy is None else f"{option.accuracy:.2f}"
        cells = (name, *((accuracy,) if has_accuracy else ()), f"{option.error:.3g}")
        if option == plan.recommended:
            cells += (at_most(plan.epsilon), f"{overall.people:,} people")
            lines.append(_Line(cells, _RECOMMENDED))
            continue
        same_epsilon, same_people = option.same_epsilon, option.same_people
        cells += (
            "no ε to 1000" if same_epsilon is None else at_most(same_epsilon, 2),
            "nobody" if same_people is None else f"{_round_up(same_people)} people",
        )
        lines.append(_Line(cells))
    _print_table(lines)
    _print_forecasts(f"{plan.recommended.report}, people", plan.forecasts)
    if plan.measure in ("W1", "W2"):
        print("It is the error of the learned distribution; its samples add sampling error.")
    else:
        print("It is the error of an estimate without a model; a fit does better.")
    if has_accuracy:
        print(
            "Accuracy is that of a linear classifier of simulated images, with as many labels as yours."
        )


def _print_forecasts(heading: str, forecasts: Sequence[Forecast]) -> None:
    """Print expected errors, a row for each number of people, and a column for each ε."""
    print()
    epsilons = sorted({forecast.epsilon for forecast in forecasts})
    lines = [_Line((heading, *(f"ε = {at_most(epsilon)}" for epsilon in epsilons)))]
    for people in sorted({forecast.people for forecast in forecasts}):
        row = {forecast.epsilon: forecast for forecast in forecasts if forecast.people == people}
        lines.append(_Line((f"{people:,}", *(_error_text(row[epsilon]) for epsilon in epsilons))))
    _print_table(lines)


def _error_text(forecast: Forecast) -> str:
    """Format the error of a forecast, with the accuracy in parentheses if it has one."""
    error = f"{forecast.error:.3g}" if forecast.error < 1 else "over 1"
    return error if forecast.accuracy is None else f"{error} ({forecast.accuracy:.2f})"


def _calibrate_command(schema: Path, overall: Plan) -> str:
    """Return the command that calibrates the recommended report."""
    parts = ["privot calibrate", str(schema), f"--epsilon {exactly(overall.epsilon)}"]
    if overall.table is not None:
        best = overall.table.recommended
        parts += [] if best.report == "joint" else [f"--report {best.report}"]
        if best.report_columns is not None:
            parts += [f"--report-columns {best.report_columns}"]
    return " ".join([*parts, "-o randomizer.json"])


def _option_line(option: ExpectedError, table: TablePlan) -> _Line:
    """Return a line with the errors of one way to report a table."""
    cells = (
        option.report,
        _range(*option.columns),
        _range(*option.cells),
        f"{option.pair_share:.2%}" if option.pair_share else "nobody",
        _total_variation(option.one_way),
        _total_variation(option.two_way),
        "–" if option.people_needed is None else _round_up(option.people_needed),
    )
    if option == table.recommended:
        return _Line(cells, _RECOMMENDED)
    return _Line(cells, "marginals only" if option.marginals_only else "")


def _total_variation(error: float | None) -> str:
    """Format an error in total variation; estimates without a model can exceed 1."""
    if error is None:
        return "–"
    return f"{error:.4f}" if error < 1 else "over 1"


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _round_up(number: int) -> str:
    """Round up to two significant digits, the accuracy of a forecast."""
    unit = 10 ** max(0, len(str(number)) - 2)
    return f"{-(-number // unit) * unit:,}"


class _Line(NamedTuple):
    """Line of a printed table, with a note after its cells."""

    cells: tuple[str, ...]
    note: str = ""


def _print_table(lines: Sequence[_Line]) -> None:
    """Print a table: the first column aligned to the left, the others to the right, then notes."""
    columns = zip(*(line.cells for line in lines), strict=True)
    widths = [max(map(len, column)) for column in columns]
    for line in lines:
        first, *others = line.cells
        texts = [first.ljust(widths[0])]
        texts += [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        print("  ".join(texts) + (f"   {line.note}" if line.note else ""))
