r"""Expected errors of a calibrated randomizer and of its alternatives, before reports are collected.

A plan has one part for all columns that are reported as codes, and one for each column that is reported
as a point: a number, a place, a long vector or an image (`privot.randomizer.column_plans`).

**Columns of codes.** By default, a report has a random form, that is a set of columns, of one of several
lengths; `privot.randomizer.information` computes the errors. They are compared with the errors of
reports of k columns drawn uniformly. With k = 1 only marginals can be learned.

**Uniform tables are the worst case**, so the plan makes no assumption about the population. For a given
number of reports, the variance of the estimate in a cell is a linear function of the pair's true table
minus the square of a linear function, hence concave. Its root is concave, too, and so is the sum of the
roots over cells, which is invariant under permutations of the codes. The average of a table over all
permutations is uniform, so by Jensen's inequality no table has larger expected (normal) errors.

**Limits.** The expected errors are those of an estimate without a model. A model such as latent classes
errs less, above all if reports are noisy: on ten columns of a census (40 000 people) by a factor of 2 at
ε = 8, 3 at ε = 4 and 6 at ε = 2, with the same order of the options. The factor for other data is not
known in advance; `privot.forecast.fits` simulates the errors for given populations.

**Privacy review.** Inputs are public (schema, randomizer, ε, number of people); no record is seen.

References:
    Ye, Barg, *Optimal schemes for discrete distribution estimation under locally differential privacy*
    (2018); Kairouz, Bonawitz, Ramage, *Discrete distribution estimation under local privacy* (2016).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from privot.core.errors import PrivotError, require_people
from privot.mechanisms.choice import planned_error
from privot.randomizer.column_plans import (
    ColumnPlan,
    Forecast,
    Way,
    compare_ways,
    forecast_epsilons,
    forecast_people,
    forecast_way,
    ways_of_means,
    ways_of_places,
)
from privot.randomizer.information import (
    Errors,
    choose_forms,
    guess_error,
    joint_errors,
    pair_share,
    split_errors,
)
from privot.randomizer.randomizer import Randomizer
from privot.randomizer.reports.candidates import CANDIDATES
from privot.randomizer.reports.joint import FormDesign, largest_fitting
from privot.schema import Schema

_MAX_PLANNED = 4  # largest k that is compared
_DELTA_TIMES_PEOPLE = 0.01  # δ n, for the comparison with Gaussian noise
_NOTABLE = 0.9  # an error below this share of the recommended option's is mentioned
Codings = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class ExpectedError:
    """Expected errors (total variation) of one way of reporting, in the worst case and without a model.

    Arguments:
        report: `"joint"` (subset selection over cells) or `"split"` (randomized response per column).
        report_columns: Number k of columns in every report; None for the forms that calibration chooses.
        columns: Fewest and most columns of a report.
        cells: Fewest and most values of one answer.
        pair_share: Mean share of people who report a given pair of columns.
        one_way: Mean error over columns.
        two_way: Mean error over pairs of columns; None if some pair is never reported.
        people_needed: Number of people at which the two-way error (with one column, the one-way error)
            is the target; None if there is none.
        marginals_only: Whether every report has one of several columns, so that no pair is learned.
    """

    report: str
    report_columns: int | None
    columns: tuple[int, int]
    cells: tuple[int, int]
    pair_share: float
    one_way: float
    two_way: float | None
    people_needed: int | None
    marginals_only: bool


@dataclass(frozen=True)
class TablePlan:
    """Expected errors of all ways to report a table, and a recommendation.

    Arguments:
        epsilon: Privacy loss of one report of these columns.
        sizes: Number of values of every column, by name.
        target_error: Error to which `people_needed` refers.
        guess: Mean two-way error (with one column, one-way) of a uniform guess (`guess_error`).
            Estimates without a model that have larger errors are useless.
        options: All options that were compared.
        recommended: Option that calibration chooses; if it lacks a pair, that of least two-way error.
        reason: Reason for the recommendation, in one sentence.
        forecasts: Two-way error (with one column, one-way) of the forms that calibration chooses, for
            a tenth to ten times the people, and half to twice the ε.
    """

    epsilon: float
    sizes: Mapping[str, int]
    target_error: float
    guess: float
    options: tuple[ExpectedError, ...]
    recommended: ExpectedError
    reason: str
    forecasts: tuple[Forecast, ...]


def _plan_table(randomizer: Randomizer, people: int, target_error: float) -> TablePlan | None:
    """Compare the default forms, and joint and split reports of one to four columns of codes.

    Returns None if there are none. Split reports are compared only if all columns are codes.
    """
    schema, joint = randomizer.schema, randomizer.joint
    split = {name: m for name, m in randomizer.mechanisms.items() if m.takes_codes}
    if joint is None and not split:
        return None
    if joint is not None:
        names, epsilon = joint.design.columns, joint.epsilon
    else:
        names = list(split)
        epsilon = sum(mechanism.guarantee().epsilon for mechanism in split.values())
    sizes = {name: schema.coded[name].alphabet.size for name in names}
    codings = {name: (size,) for name, size in sizes.items()}
    most = min(_MAX_PLANNED, len(sizes))
    design = _chosen_design(codings, epsilon)
    options = [_expected_joint(design, None, epsilon, people, target_error)]
    if len(sizes) > 1:
        for k in range(1, min(most, largest_fitting(sizes.values())) + 1):
            design = FormDesign.uniform(codings, k)
            options.append(_expected_joint(design, k, epsilon, people, target_error))
    if len(sizes) == len(schema.columns):
        for k in range(1, most + 1):
            options.append(_expected_split(list(sizes.values()), k, epsilon, people, target_error))
    recommended = _least_error(options) if options[0].two_way is None else options[0]
    pair_cells = [first * second for first, second in combinations(sizes.values(), 2)]
    return TablePlan(
        epsilon=epsilon,
        sizes=sizes,
        target_error=target_error,
        guess=guess_error(pair_cells or list(sizes.values())),
        options=tuple(options),
        recommended=recommended,
        reason=_reason(options, recommended, len(sizes)),
        forecasts=_forecasts(codings, options[0], epsilon, people),
    )


def _chosen_design(codings: Codings, epsilon: float) -> FormDesign:
    """Return the forms that calibration chooses."""
    return FormDesign(codings, *choose_forms([size for (size,) in codings.values()], epsilon))


def _forecasts(
    codings: Codings, chosen: ExpectedError, epsilon: float, people: int
) -> tuple[Forecast, ...]:
    """Forecast errors for other ε, with the forms chosen for them, and other numbers of people."""
    forecasts = []
    for loss in forecast_epsilons(epsilon):
        expected = chosen
        if loss != epsilon:
            design = _chosen_design(codings, loss)
            # The target only determines `people_needed`, which a forecast does not contain.
            expected = _expected_joint(design, None, loss, people, target=1.0)
        error = expected.one_way if expected.two_way is None else expected.two_way
        for count in forecast_people(people):
            forecasts.append(Forecast(count, loss, error * math.sqrt(people / count), None))
    return tuple(forecasts)


def _expected_split(
    sizes: list[int], k: int, epsilon: float, people: int, target: float
) -> ExpectedError:
    """Return the expected error of randomized response with ε/k on each of k columns."""
    return ExpectedError(
        report="split",
        report_columns=k,
        columns=(k, k),
        cells=(min(sizes), max(sizes)),
        pair_share=pair_share(k, len(sizes)),
        marginals_only=k == 1 < len(sizes),
        **_mean_errors(split_errors(sizes, k, epsilon, people), people, target),
    )


def _expected_joint(
    design: FormDesign, k: int | None, epsilon: float, people: int, target: float
) -> ExpectedError:
    """Return the expected error of joint reports with the forms of a design."""
    weights, total = np.array(design.weights, np.float64), len(design.columns)
    pairs = np.array([len(form) * (len(form) - 1) for form in design.forms])
    return ExpectedError(
        report="joint",
        report_columns=k,
        columns=design.lengths,
        cells=(int(design.num_cells.min()), int(design.num_cells.max())),
        pair_share=float(weights @ pairs / weights.sum()) / max(1, total * (total - 1)),
        marginals_only=design.lengths[1] == 1 < total,
        **_mean_errors(joint_errors(design, epsilon, people), people, target),
    )


def _mean_errors(errors: Errors, people: int, target: float) -> dict[str, Any]:
    """Return the fields of `ExpectedError` that follow from the errors of columns and pairs."""
    pairs = errors.two_way[np.triu_indices(len(errors.one_way), 1)]
    mean_one_way = float(errors.one_way.mean())
    mean_two_way = float(pairs.mean()) if pairs.size and np.isfinite(pairs).all() else None
    error, people_needed = mean_two_way if pairs.size else mean_one_way, None
    if error is not None and math.isfinite(error):  # decreases like 1/√people
        people_needed = math.ceil(people * (error / target) ** 2)
    return {"one_way": mean_one_way, "two_way": mean_two_way, "people_needed": people_needed}


def _least_error(options: Sequence[ExpectedError]) -> ExpectedError:
    """Return the option of least two-way error, or of least one-way error if none reports all pairs."""
    return min(options, key=lambda o: (o.two_way is None, o.two_way or 0.0, o.one_way))


def _reason(options: Sequence[ExpectedError], best: ExpectedError, total: int) -> str:
    """State the reason for recommending the option `best`."""
    if best.two_way is None:
        more = "no report holds two columns" if total > 1 else "there is one column"
        return f"{more}, and a {best.report} report has the least one-way error"
    if best.report_columns is None:
        reason = "a model learns most from these forms; without one, their two-way error is "
        reason += f"{best.two_way:.3g}"
    else:
        reason = f"its two-way error is the least, {best.two_way:.3g}"
    rivals = [option for option in options if option.two_way is not None and option != best]
    if rivals:
        next_best = _least_error(rivals)
        reason += f" ({next_best.report} with {next_best.report_columns}: {next_best.two_way:.3g})"
    one_column = min(option.one_way for option in options if option.marginals_only)
    if one_column < _NOTABLE * best.one_way:
        reason += "; where marginals are all you want, one column a report has "
        reason += f"{one_column:.3g} instead of {best.one_way:.3g}"
    return reason


@dataclass(frozen=True)
class Plan:
    """Expected quality of one report from each person.

    Arguments:
        epsilon: Privacy loss of the whole report.
        unit: Unit of privacy, which owns one report, as the schema declares it.
        people: Number n of units, and of reports.
        table: Plan of the columns that are reported as codes; None if there are none.
        columns: Plans of the columns that are reported as points.

    Examples:
        >>> schema = Schema.from_toml('columns.sick = {kind = "boolean"}')
        >>> [round(plan_reports(schema, 1.0, n).table.recommended.one_way, 3) for n in (1000, 4000)]
        [0.027, 0.014]
    """

    epsilon: float
    unit: str
    people: int
    table: TablePlan | None
    columns: tuple[ColumnPlan, ...]


def plan_reports(
    schema: Schema, epsilon: float, people: int, *, target_error: float = 0.05
) -> Plan:
    """Compute the expected error of each column, for each way of reporting it.

    Arguments:
        schema: Declaration of the columns.
        epsilon: Privacy loss of one whole report, divided among columns as calibration divides it.
        people: Number of reports, at least 1.
        target_error: Two-way error of a table, between 0 and 1, to which `people_needed` refers.

    Examples:
        >>> plan = plan_reports(Schema.from_toml('''
        ... columns.a = {kind = "boolean"}
        ... columns.b = {kind = "boolean"}
        ... columns.c = {kind = "categorical", categories = ["x", "y", "z"]}
        ... '''), epsilon=2.0, people=10_000)
        >>> best = plan.table.recommended
        >>> best.report, best.columns, round(best.one_way, 4), round(best.two_way, 4)
        ('joint', (1, 2), 0.0103, 0.023)
        >>> plan = plan_reports(Schema.from_toml('''
        ... columns.home = {kind = "vector", columns = ["x", "y"], bounds = [[0, 1], [0, 1]]}
        ... '''), epsilon=4.0, people=200_000)
        >>> window, rival, *_ = plan.columns[0].options
        >>> window.report, round(window.error, 3), rival.report, round(rival.error, 3)
        ('window', 0.027, 'laplace', 0.102)

    Raises:
        PrivotError: for numbers out of range, or too large alphabets.
    """
    people = require_people(people)
    if not 0 < target_error < 1:
        raise PrivotError(f"target_error is {target_error}: give a total variation between 0 and 1")
    randomizer = Randomizer.calibrate(schema, epsilon)
    return Plan(
        epsilon=float(epsilon),
        unit=schema.unit,
        people=people,
        table=_plan_table(randomizer, people, target_error),
        columns=tuple(_plan_points(randomizer, people)),
    )


def _plan_points(randomizer: Randomizer, people: int) -> list[ColumnPlan]:
    """Plan each column that is reported as a point, an image or a long vector."""
    schema, delta = randomizer.schema, _DELTA_TIMES_PEOPLE / people
    plans = []

    def add_plan(
        columns: Sequence[str], measure: str, epsilon: float, ways: Mapping[str, Way], chosen: str
    ) -> None:
        options = compare_ways(ways, chosen, epsilon, people)
        forecasts = forecast_way(ways[chosen], epsilon, people)
        plans.append(ColumnPlan(tuple(columns), measure, epsilon, delta, options, forecasts))

    report = randomizer.candidates
    if report is not None:
        ways = ways_of_means(schema, report.name, report.label, delta, candidates=True)
        measure = "mean" if report.label is None else "class means"
        add_plan(report.columns, measure, report.mechanism.epsilon, ways, CANDIDATES)
    for name, mechanism in randomizer.mechanisms.items():
        column = schema.columns[name]
        if mechanism.takes_codes or column.domain is None:
            continue
        epsilon = mechanism.guarantee(column.domain).epsilon
        if math.isnan(planned_error(mechanism, column.domain, people)):  # over three coordinates
            measure = "mean"
            ways = ways_of_means(schema, name, None, delta, candidates=False)
        else:
            measure = "W1" if column.is_number else "W2"
            ways = ways_of_places(column, delta, alone=len(schema.columns) == 1)
        add_plan([name], measure, epsilon, ways, mechanism.requested_kind)
    return plans
