r"""The error to expect of a table, for each way of reporting its columns.

Public inputs only: alphabet sizes, ε, and the number n of people. By default, forms of several lengths
are asked (`privot.release.budget.forms`). Beside them stand reports of k of m columns, drawn uniformly,
which see a pair of columns in a share $k(k−1)/(m(m−1))$ of all. With k = 1 no pair is seen: marginals
only.

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
the reports are in; the order of the choices was the same. A rehearsal tells more, of people whom a
pilot's model or chance makes up: `privot.evaluation.forecast`.

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

from privot.errors import MOST_PEOPLE
from privot.privacy.rounding import LARGEST_EPSILON
from privot.release.budget.forms import choose_forms
from privot.release.budget.information import joint_errors, pair_share, split_errors
from privot.release.planning.columns import Forecast
from privot.release.reports.questionnaire import Questionnaire, largest_fitting
from privot.schema import Array

_MOST_PLANNED = 4
Codings = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class ExpectedError:
    """Expected total variation of an estimate without a model, at most, for one way of reporting.

    Arguments:
        report: `"joint"` (subset selection over cells) or `"split"` (randomized response a column).
        report_columns: Number k of columns in every report; None where forms of several lengths are
            asked, as calibration chooses them.
        columns: Fewest and most columns of a report.
        cells: Fewest and most values that one answer can have.
        pair_share: Share of all people who report a given pair of columns, the mean over pairs.
        one_way: Mean over columns.
        two_way: Mean over pairs of columns; None where some pair is not seen.
        people_needed: People who bring the two-way error (with one column, the one-way error) to the
            target; None where no number can.
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
        epsilon: Privacy loss of what is planned: one report of these columns.
        sizes: Values of every column, by name.
        target_error: The error that `people_needed` is for.
        guess: Mean two-way error (with one column, one-way) of the uniform guess, if every
            distribution is equally likely: $(1 − 1/K)^K$ for K cells. A larger expected error means
            that reports without a model are worth less than no reports.
        options: All that was considered.
        recommended: The forms that calibration chooses; where they cannot hold every pair, the option of
            least two-way error.
        reason: Why, in one sentence.
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
        sizes: Values of every column; numbers and dates count with their bins, vectors with cells.
        epsilon: Privacy loss of one report of these columns.
        people: Who report.
        target_error: For which people are counted.
        whole: Whether these are all columns; beside others, no split reports are planned.
    """
    codings = {name: (size,) for name, size in sizes.items()}
    most = min(_MOST_PLANNED, len(sizes))
    options = [_chosen(codings, epsilon, people, target_error)]
    if len(sizes) > 1:
        for k in range(1, min(most, largest_fitting(sizes.values())) + 1):
            asked = Questionnaire.uniform(codings, k)
            options.append(_joint(asked, k, epsilon, people, target_error))
    if whole:
        splits = range(1, most + 1)
        options += [_split(sizes, k, epsilon, people, target_error) for k in splits]
    recommended = _least(options) if options[0].two_way is None else options[0]
    return TablePlan(
        epsilon=epsilon,
        sizes=dict(sizes),
        target_error=target_error,
        guess=_guess(list(sizes.values())),
        options=tuple(options),
        recommended=recommended,
        reason=_reason(options, recommended, len(sizes)),
        forecasts=_forecasts(codings, options[0], epsilon, people),
    )


def _chosen(codings: Codings, epsilon: float, people: int, target: float) -> ExpectedError:
    """The forms that calibration chooses."""
    sizes = [size for (size,) in codings.values()]
    asked = Questionnaire(codings, *choose_forms(sizes, epsilon))
    return _joint(asked, None, epsilon, people, target)


def _forecasts(
    codings: Codings, here: ExpectedError, epsilon: float, people: int
) -> tuple[Forecast, ...]:
    """Errors fall like the root of the number of people; forms change with ε."""
    found = []
    for loss in (each for each in (epsilon / 2, epsilon, epsilon * 2) if each <= LARGEST_EPSILON):
        there = here if loss == epsilon else _chosen(codings, loss, people, 0.5)
        error = there.one_way if there.two_way is None else there.two_way
        for several in (people // 10, people, people * 10):
            if 1 <= several <= MOST_PEOPLE:
                found.append(Forecast(several, loss, error * math.sqrt(people / several), None))
    return tuple(found)


def _joint(
    asked: Questionnaire, k: int | None, epsilon: float, people: int, target: float
) -> ExpectedError:
    errors = joint_errors(asked, epsilon, people)
    weights, total = np.array(asked.weights, np.float64), len(asked.columns)
    pairs = np.array([len(form) * (len(form) - 1) for form in asked.forms])
    share = float(weights @ pairs / weights.sum()) / max(1, total * (total - 1))
    cells = (int(asked.num_cells.min()), int(asked.num_cells.max()))
    return _expected("joint", k, asked.lengths, cells, share, errors, people, target)


def _split(
    sizes: Mapping[str, int], k: int, epsilon: float, people: int, target: float
) -> ExpectedError:
    errors = split_errors(list(sizes.values()), k, epsilon, people)
    cells = (min(sizes.values()), max(sizes.values()))
    share = pair_share(k, len(sizes))
    return _expected("split", k, (k, k), cells, share, errors, people, target)


def _expected(
    report: str,
    k: int | None,
    columns: tuple[int, int],
    cells: tuple[int, int],
    share: float,
    errors: tuple[Array, Array],
    people: int,
    target: float,
) -> ExpectedError:
    one_way, two_way = errors
    above = two_way[np.triu_indices(len(one_way), 1)]
    pairs = float(above.mean()) if above.size and np.isfinite(above).all() else None
    goal = float(one_way.mean()) if not above.size else pairs
    return ExpectedError(
        report=report,
        report_columns=k,
        columns=columns,
        cells=cells,
        pair_share=share,
        one_way=float(one_way.mean()),
        two_way=pairs,
        people_needed=_people_needed(people, goal, target),
        marginals_only=columns[1] == 1 < len(one_way),
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
