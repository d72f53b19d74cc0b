r"""Expected errors of a calibrated randomizer and its alternatives, before any report is collected.

A plan has one part for the columns that are reported as codes, and one for each column that is reported
as a point: a number, a place, a longer vector or an image (`privot.randomizer.column_plans`).

**Columns of codes.** By default, forms of several lengths are drawn (`privot.randomizer.information`,
which has the information of reports and the errors that follow). Beside them stand reports of k of m
columns, drawn uniformly, which hold a pair of columns in a share $k(k−1)/(m(m−1))$ of all. With k = 1
no pair is reported: marginals only.

**Uniform is the worst case.** Given the number of reports, the variance of this estimate in a cell is a
linear function of the pair's true table less the square of one, so concave; so is its root, and so is
the sum over cells, which does not change if the codes of a column are renamed. Averaged over all
renamings any table is uniform, hence (Jensen) no population has a larger expected error, as far as
errors are normal. The plan needs to assume nothing about the population.

**What it leaves out.** Probabilities are no less than 0, and columns depend on each other in a few ways
rather than in all: a model that shares strength among cells and pairs, such as latent classes, does
better than this, the more so the noisier the reports. On ten columns of a census (40 000 people) by a
factor of 2 at ε = 8, 3 at ε = 4 and 6 at ε = 2. The factor on other data is unknown before the reports
are in; the order of the choices was the same. Simulations of populations from a pilot's model or at
random say more: `privot.evaluation.forecast`.

**Least informative number of reports.** Without reports the best guess of a column of codes is uniform:
if every distribution on K values is equally likely, its total variation is $(1 − 1/K)^K$ on average.
That of n reports falls like $1/\sqrt n$, so they are informative from
$n\,(\mathrm{error}_n / \mathrm{guess})^2$ reports on. Reports of points of few coordinates improve on
what is known of a wave without them once their variance is below it (`privot.mechanisms.mechanism`):
they are informative once any wave improves.

**Privacy review.** A function of the schema, the randomizer, ε and the number of people, all public: no
record is seen.

References:
    Ye, Barg, *Optimal schemes for discrete distribution estimation under locally differential
    privacy* (2018); Kairouz, Bonawitz, Ramage, *Discrete distribution estimation under local
    privacy* (2016).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from privot.core.errors import MOST_PEOPLE, PrivotError, require_count
from privot.mechanisms.choice import planned_error
from privot.privacy.rounding import LARGEST_EPSILON
from privot.randomizer.column_plans import (
    ColumnPlan,
    Forecast,
    compare_ways,
    ways_of_means,
    ways_of_places,
)
from privot.randomizer.information import (
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
from privot.schema.domains import Array

_MAX_PLANNED = 4  # columns of a report
_DELTA_TIMES_PEOPLE = 0.01
Codings = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class ExpectedError:
    """Expected total variation of an estimate without a model, at most, for one way of reporting.

    Arguments:
        report: `"joint"` (subset selection over cells) or `"split"` (randomized response a column).
        report_columns: Number k of columns in every report; None for forms of several lengths, as
            calibration chooses them.
        columns: Fewest and most columns of a report.
        cells: Fewest and most values that one answer can have.
        pair_share: Share of all people who report a given pair of columns, the mean over pairs.
        one_way: Mean over columns.
        two_way: Mean over pairs of columns; None where some pair is never reported.
        people_needed: Number of people at which the two-way error (with one column, the one-way error)
            is the target; None where there is none.
        marginals_only: Whether reports hold one column of several.
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
    """Every way of reporting a table with its expected error, and the one to take.

    Arguments:
        epsilon: Privacy loss of one report of these columns.
        sizes: Number of values of every column, by name.
        target_error: The error that `people_needed` refers to.
        guess: Mean two-way error (with one column, one-way) of the uniform guess, if every
            distribution is equally likely: $(1 − 1/K)^K$ for K cells. A larger expected error means
            that reports without a model are worth less than no reports.
        options: All options that were compared.
        recommended: The forms that calibration chooses; where they cannot hold every pair, the option of
            least two-way error.
        reason: Reason of the recommendation, in one sentence.
        forecasts: The two-way error (with one column, one-way) of the forms that calibration chooses,
            for a tenth and ten times the people, half and twice the ε.
    """

    epsilon: float
    sizes: Mapping[str, int]
    target_error: float
    guess: float
    options: tuple[ExpectedError, ...]
    recommended: ExpectedError
    reason: str
    forecasts: tuple[Forecast, ...]


def plan_table(
    sizes: Mapping[str, int], epsilon: float, people: int, target_error: float, *, whole: bool
) -> TablePlan:
    """Compare the default forms, and joint and split reports of one to four columns.

    Arguments:
        sizes: Number of values of every column; bins of numbers and dates, cells of vectors.
        epsilon: Privacy loss of one report of these columns.
        people: Number of reports.
        target_error: The error that `people_needed` refers to.
        whole: Whether these are all columns; beside others, no split reports are planned.
    """
    codings = {name: (size,) for name, size in sizes.items()}
    most = min(_MAX_PLANNED, len(sizes))
    options = [_expected_joint(_chosen(codings, epsilon), None, epsilon, people, target_error)]
    if len(sizes) > 1:
        for k in range(1, min(most, largest_fitting(sizes.values())) + 1):
            design = FormDesign.uniform(codings, k)
            options.append(_expected_joint(design, k, epsilon, people, target_error))
    if whole:
        for k in range(1, most + 1):
            errors = split_errors(list(sizes.values()), k, epsilon, people)
            cells = (min(sizes.values()), max(sizes.values()))
            share = pair_share(k, len(sizes))
            way = ("split", k, (k, k), cells, share)
            options.append(_expected(way, errors, people, target_error))
    recommended = _least(options) if options[0].two_way is None else options[0]
    return TablePlan(
        epsilon=epsilon,
        sizes=dict(sizes),
        target_error=target_error,
        guess=guess_error([a * b for a, b in combinations(sizes.values(), 2)] or [*sizes.values()]),
        options=tuple(options),
        recommended=recommended,
        reason=_reason(options, recommended, len(sizes)),
        forecasts=_forecasts(codings, options[0], epsilon, people),
    )


def _chosen(codings: Codings, epsilon: float) -> FormDesign:
    return FormDesign(codings, *choose_forms([size for (size,) in codings.values()], epsilon))


def _forecasts(
    codings: Codings, here: ExpectedError, epsilon: float, people: int
) -> tuple[Forecast, ...]:
    """Errors fall like the root of the number of people; forms change with ε."""
    found = []
    for loss in (each for each in (epsilon / 2, epsilon, epsilon * 2) if each <= LARGEST_EPSILON):
        there = here
        if loss != epsilon:
            there = _expected_joint(_chosen(codings, loss), None, loss, people, 0.5)
        error = there.one_way if there.two_way is None else there.two_way
        for several in (people // 10, people, people * 10):
            if 1 <= several <= MOST_PEOPLE:
                found.append(Forecast(several, loss, error * math.sqrt(people / several), None))
    return tuple(found)


def _expected_joint(
    design: FormDesign, k: int | None, epsilon: float, people: int, target: float
) -> ExpectedError:
    weights, total = np.array(design.weights, np.float64), len(design.columns)
    pairs = np.array([len(form) * (len(form) - 1) for form in design.forms])
    share = float(weights @ pairs / weights.sum()) / max(1, total * (total - 1))
    cells = (int(design.num_cells.min()), int(design.num_cells.max()))
    errors = joint_errors(design, epsilon, people)
    return _expected(("joint", k, design.lengths, cells, share), errors, people, target)


def _expected(
    way: tuple[str, int | None, tuple[int, int], tuple[int, int], float],
    errors: tuple[Array, Array],
    people: int,
    target: float,
) -> ExpectedError:
    """Return the first five fields of `ExpectedError`, `way`, with means of the errors."""
    one_way, two_way = errors
    above = two_way[np.triu_indices(len(one_way), 1)]
    one = float(one_way.mean())
    two = float(above.mean()) if above.size and np.isfinite(above).all() else None
    goal, needed = two if above.size else one, None
    if goal is not None and math.isfinite(goal):  # falls like the root of the number of people
        needed = math.ceil(people * (goal / target) ** 2)
    marginals_only = way[2][1] == 1 < len(one_way)
    return ExpectedError(*way, one, two, needed, marginals_only)


def _least(options: Sequence[ExpectedError]) -> ExpectedError:
    """Return the option of least two-way error; where none holds pairs, of least one-way error."""
    return min(options, key=lambda o: (o.two_way is None, o.two_way or 0.0, o.one_way))


def _reason(options: Sequence[ExpectedError], best: ExpectedError, total: int) -> str:
    if best.two_way is None:
        more = "no report holds two columns" if total > 1 else "there is one column"
        return f"{more}, and a {best.report} report has the least one-way error"
    words = "a model learns most from these forms; without one, their two-way error is "
    words += f"{best.two_way:.3g}"
    if best.report_columns is not None:
        words = f"its two-way error is the least, {best.two_way:.3g}"
    rivals = [o for o in options if o.two_way is not None and o != best]
    if rivals:
        next_best = _least(rivals)
        words += f" ({next_best.report} with {next_best.report_columns}: {next_best.two_way:.3g})"
    alone = min(o.one_way for o in options if o.marginals_only)
    if alone < 0.9 * best.one_way:
        words += f"; where marginals are all you want, one column a report has {alone:.3g} instead "
        words += f"of {best.one_way:.3g}"
    return words


@dataclass(frozen=True)
class Plan:
    """Expected quality of one report from each person.

    Arguments:
        epsilon: Privacy loss of the whole report.
        unit: Owner of one report, as the schema says.
        people: Number n of them (people, unless the schema says otherwise).
        table: Plan of the columns that are reported as codes, if there are any.
        columns: Plan of every column that is reported as a point.

    Examples:
        >>> Plan(epsilon=1.0, unit="person", people=1000, table=None, columns=()).people
        1000
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
        epsilon: Privacy loss of one person's whole report, shared as calibration shares it.
        people: Number of reports.
        target_error: Two-way error of a table that `people_needed` refers to.

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
    people = require_count("people", people, MOST_PEOPLE, "more than ever lived")
    if not 0 < target_error < 1:
        raise PrivotError(f"target_error is {target_error}: give a total variation between 0 and 1")
    randomizer = Randomizer.calibrate(schema, epsilon)
    return Plan(
        epsilon=float(epsilon),
        unit=schema.unit,
        people=people,
        table=_table(randomizer, people, target_error),
        columns=tuple(_columns(randomizer, people)),
    )


def _table(randomizer: Randomizer, people: int, target_error: float) -> TablePlan | None:
    schema, joint = randomizer.schema, randomizer.joint
    split = {name: m for name, m in randomizer.mechanisms.items() if m.takes_codes}
    if joint is None and not split:
        return None
    if joint is not None:
        names, share = joint.design.columns, joint.epsilon
    else:
        names = list(split)
        share = sum(made.guarantee().epsilon for made in split.values())
    sizes = {name: schema.coded[name].alphabet.size for name in names}
    whole = len(sizes) == len(schema.columns)
    return plan_table(sizes, share, people, target_error, whole=whole)


def _columns(randomizer: Randomizer, people: int) -> list[ColumnPlan]:
    schema, delta = randomizer.schema, _DELTA_TIMES_PEOPLE / people
    plans = []
    if (seeded := randomizer.candidates) is not None:
        ways = ways_of_means(schema, seeded.name, seeded.label, delta, candidates=True)
        measure, spent = "mean" if seeded.label is None else "class means", seeded.mechanism.epsilon
        found = compare_ways(ways, CANDIDATES, spent, people)
        plans.append(ColumnPlan(tuple(seeded.columns), measure, spent, delta, *found))
    for name, made in randomizer.mechanisms.items():
        column = schema.columns[name]
        if made.takes_codes or column.domain is None:
            continue
        spent = made.guarantee(column.domain).epsilon
        if math.isnan(planned_error(made, column.domain, people)):
            measure = "mean"
            ways = ways_of_means(schema, name, None, delta, candidates=False)
        else:
            measure = "W1" if column.is_number else "W2"
            ways = ways_of_places(column, delta, alone=len(schema.columns) == 1)
        found = compare_ways(ways, made.requested_kind, spent, people)
        plans.append(ColumnPlan((name,), measure, spent, delta, *found))
    return plans
