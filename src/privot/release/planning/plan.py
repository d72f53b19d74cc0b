"""Planning: the error to expect of what calibration makes, and of what else there is.

A plan has one part for each part of a report: the columns that are reported as codes
(`privot.release.planning.tables`), and each column that is reported as a point: a number or a place
(`privot.release.planning.places`), a longer vector or an image (`privot.release.planning.means`).

Privacy review: a function of the schema, ε and the number of people, all public: no record is seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privot.errors import MOST_PEOPLE, PrivotError, require_count
from privot.mechanisms.planned_error import planned_error
from privot.release.budget.sharing import Budget, share_budget
from privot.release.budget.split_columns import require_budget
from privot.release.planning.columns import ColumnPlan, compare_ways
from privot.release.planning.means import ways_of_means
from privot.release.planning.places import ways_of_places
from privot.release.planning.tables import TablePlan, plan_table
from privot.release.reports.candidates import CANDIDATES
from privot.schema import Schema

_DELTA_TIMES_PEOPLE = 0.01


@dataclass(frozen=True)
class Plan:
    """What to expect of one report a person.

    Arguments:
        epsilon: Privacy loss of the whole report.
        unit: Whom one report belongs to, as the schema says.
        people: Number n of them (people, unless the schema says otherwise).
        table: Of columns that are reported as codes, if there are any.
        columns: Of every column that is reported as a point.

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
    """Say what error to expect of each column, and of each way of reporting it.

    Arguments:
        schema: What a record may be.
        epsilon: Privacy loss of one person's whole report, shared as calibration shares it.
        people: How many report.
        target_error: Two-way error of a table that people are counted for.

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
        ('window', 0.027, 'planar_laplace', 0.091)

    Raises:
        PrivotError: for numbers out of range, or too large alphabets.
    """
    require_budget(epsilon, 0.0)
    people = require_count("people", people, MOST_PEOPLE, "more than ever lived")
    if not 0 < target_error < 1:
        raise PrivotError(f"target_error is {target_error}: give a total variation between 0 and 1")
    budget = share_budget(schema, epsilon, 0.0, "auto", None, None)
    return Plan(
        epsilon=float(epsilon),
        unit=schema.unit,
        people=people,
        table=_table(schema, budget, people, target_error),
        columns=tuple(_columns(schema, budget, people)),
    )


def _table(schema: Schema, budget: Budget, people: int, target_error: float) -> TablePlan | None:
    split = {name: m for name, m in budget.mechanisms.items() if m.takes_codes}
    if budget.joint is None and not split:
        return None
    if budget.joint is not None:
        names, share = budget.joint.asked.columns, budget.joint.epsilon
    else:
        names = list(split)
        share = sum(made.guarantee().epsilon for made in split.values())
    sizes = {name: schema.coded[name].alphabet.size for name in names}
    whole = len(sizes) == len(schema.columns)
    return plan_table(sizes, share, people, target_error, whole=whole)


def _columns(schema: Schema, budget: Budget, people: int) -> list[ColumnPlan]:
    delta = _DELTA_TIMES_PEOPLE / people
    plans = []
    if (seeded := budget.candidates) is not None:
        ways = ways_of_means(schema, seeded.name, seeded.label, delta, candidates=True)
        measure, spent = "mean" if seeded.label is None else "class means", seeded.mechanism.epsilon
        found = compare_ways(ways, CANDIDATES, spent, people)
        plans.append(ColumnPlan(tuple(seeded.columns), measure, spent, delta, *found))
    for name, made in budget.mechanisms.items():
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
        found = compare_ways(ways, made.asked_as, spent, people)
        plans.append(ColumnPlan((name,), measure, spent, delta, *found))
    return plans
