r"""Planning: the error to expect for each way of reporting, before anyone reports.

Public inputs only: alphabet sizes, ε, and the number n of people. Of m columns each person reports k,
drawn uniformly, so a combination C is asked of $n_C = n / \binom{m}{k}$ people, and a pair of columns
is seen by a share $k(k−1)/(m(m−1))$ of all. With k = 1 no pair is seen: marginals only.

What a report tells of columns and pairs, and the error that follows, is in
`privot.release.budget.information`.

**Uniform is the worst case.** Given the number of reports, the variance of this estimate in a cell is a
linear function of the pair's true table less the square of one, so concave; so is its root, and so
is the sum over cells, which does not change if the codes of a column are renamed. Averaged over all
renamings any table is uniform, hence (Jensen) no population has a larger expected error, as far as
errors are normal. The plan needs to assume nothing about the population.

**What it leaves out.** Probabilities are no less than 0, and columns depend on each other in a few ways
rather than in all: a model that shares strength among cells and pairs, such as latent classes, does
better than this, the more so the noisier the reports. On ten columns of a census (40 000 people)
by a factor of 2 at ε = 8, 3 at ε = 4 and 6 at ε = 2. How much, on other data, nobody can know before
the reports are in, so it is no part of the plan; the order of the choices was the same.

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

from privot.errors import PrivotError
from privot.limits import MOST_PEOPLE, require_count
from privot.release.budget.information import (
    MOST_PLANNED,
    choose_report_columns,
    expected_errors,
    pair_share,
)
from privot.release.budget.split_columns import require_budget
from privot.release.reports.joint import largest_fitting
from privot.schema import Schema


@dataclass(frozen=True)
class ExpectedError:
    """Expected total variation of an estimate without a model, at most, for one way of reporting.

    Arguments:
        report: `"joint"` (subset selection over cells) or `"split"` (randomized response a column).
        report_columns: Number k of columns in one report.
        cells: Fewest and most values that one answer can have.
        pair_share: Share of all people who report a given pair of columns.
        one_way: Mean over columns.
        two_way: Mean over pairs of columns; None where no pair is seen.
        people_needed: People who bring the two-way error (with one column, the one-way error) to the
            target; None where no number can.
        marginals_only: Whether reports hold one column of several.
    """

    report: str
    report_columns: int
    cells: tuple[int, int]
    pair_share: float
    one_way: float
    two_way: float | None
    people_needed: int | None
    marginals_only: bool


@dataclass(frozen=True)
class Plan:
    """Every way of reporting with its expected error, and the one to take.

    Arguments:
        epsilon: Privacy loss of what is planned: one report of all columns but vectors.
        unit: Whom one report belongs to, as the schema says.
        people: Number n of them (people, unless the schema says otherwise).
        target_error: The error that `people_needed` is for.
        guess: Mean two-way error (with one column, one-way) of the uniform guess, if every
            distribution is equally likely: $(1 − 1/K)^K$ for K cells. A larger expected error means
            that reports without a model are worth less than no reports.
        options: All that was considered.
        recommended: The option of least two-way error.
        reason: Why, in one sentence.
    """

    epsilon: float
    unit: str
    people: int
    target_error: float
    guess: float
    options: tuple[ExpectedError, ...]
    recommended: ExpectedError
    reason: str


def plan_reports(
    schema: Schema, epsilon: float, people: int, *, target_error: float = 0.05
) -> Plan:
    """Compare joint and split reports of one to four columns, and recommend one.

    Vectors count with their cells, numbers and dates with their bins, in a split report too. Vectors
    without cells are left to their own mechanisms: beside v of them the joint report has the share
    ε/(v+1) that calibration gives it, and is planned for that; split reports are not planned then.

    Examples:
        >>> schema = Schema.from_toml('''
        ... columns.a = {kind = "boolean"}
        ... columns.b = {kind = "boolean"}
        ... columns.c = {kind = "categorical", categories = ["x", "y", "z"]}
        ... ''')
        >>> plan = plan_reports(schema, epsilon=2.0, people=10_000)
        >>> plan.recommended.report, plan.recommended.report_columns
        ('joint', 2)
        >>> round(plan.recommended.one_way, 4), round(plan.recommended.two_way, 4)
        (0.0102, 0.022)

    Raises:
        PrivotError: for numbers out of range, a schema of vectors only, or too large alphabets.
    """
    require_budget(epsilon, 0.0)
    people = require_count("people", people, MOST_PEOPLE, "more than ever lived")
    if not 0 < target_error < 1:
        raise PrivotError(f"target_error is {target_error}: give a total variation between 0 and 1")
    sizes = {name: column.alphabet.size for name, column in schema.coded.items()}
    if sizes.keys() <= schema.vectors.keys():
        raise PrivotError("the schema has vectors only: a plan needs columns of a table")
    vectors = len(schema.columns) - len(sizes)
    share = math.nextafter(epsilon / (vectors + 1), 0.0) if vectors else epsilon
    choose_report_columns(sizes.values(), share)  # refuses alphabets that no report can hold
    most = min(MOST_PLANNED, len(sizes))
    options = [
        _expected("joint", sizes, k, share, people, target_error)
        for k in range(1, min(most, largest_fitting(sizes.values())) + 1)
    ]
    if not vectors:
        splits = range(1, most + 1)
        options += [_expected("split", sizes, k, share, people, target_error) for k in splits]
    recommended = _least(options)
    return Plan(
        epsilon=share,
        unit=schema.unit,
        people=people,
        target_error=target_error,
        guess=_guess(list(sizes.values())),
        options=tuple(options),
        recommended=recommended,
        reason=_reason(options, recommended, len(sizes)),
    )


def _expected(
    report: str, sizes: Mapping[str, int], k: int, epsilon: float, people: int, target: float
) -> ExpectedError:
    one_way, two_way = expected_errors(sizes, report, k, epsilon, people)
    in_order = sorted(sizes.values())
    fewest, most = in_order[0], in_order[-1]
    if report == "joint":
        fewest, most = math.prod(in_order[:k]), math.prod(in_order[-k:])
    pairs = float(two_way[np.triu_indices(len(sizes), 1)].mean()) if k > 1 else None
    goal = float(one_way.mean()) if len(sizes) == 1 else pairs
    return ExpectedError(
        report=report,
        report_columns=k,
        cells=(fewest, most),
        pair_share=pair_share(k, len(sizes)),
        one_way=float(one_way.mean()),
        two_way=pairs,
        people_needed=_people_needed(people, goal, target),
        marginals_only=k == 1 < len(sizes),
    )


def _people_needed(people: int, error: float | None, target: float) -> int | None:
    """Errors fall like the root of the number of people."""
    if error is None or not math.isfinite(error):
        return None
    return math.ceil(people * (error / target) ** 2)


def _least(options: Sequence[ExpectedError]) -> ExpectedError:
    """The least two-way error; where no option sees pairs, the least one-way error."""
    return min(options, key=lambda o: (o.two_way is None, o.two_way or 0.0, o.one_way))


def _guess(sizes: Sequence[int]) -> float:
    cells = [a * b for a, b in combinations(sizes, 2)] or list(sizes)
    return float(np.mean([(1 - 1 / size) ** size for size in cells]))


def _reason(options: Sequence[ExpectedError], best: ExpectedError, total: int) -> str:
    if best.two_way is None:
        more = "no report holds two columns" if total > 1 else "there is one column"
        return f"{more}, and a {best.report} report has the least one-way error"
    words = f"its two-way error is the least, {best.two_way:.3g}"
    rivals = [o for o in options if o.two_way is not None and o != best]
    if rivals:
        next_best = _least(rivals)
        words += f" (next: {next_best.report} with {next_best.report_columns}, "
        words += f"{next_best.two_way:.3g})"
    alone = min(o.one_way for o in options if o.marginals_only)
    if alone < 0.9 * best.one_way:
        words += f"; where marginals are all you want, one column a report has {alone:.3g} instead "
        words += f"of {best.one_way:.3g}"
    return words
