r"""Choice of a mechanism: of points by the least planned error, of codes by the most information.

**Points** (places, numbers, dates): the planned error (`privot.mechanisms.mechanism`) is a distance
that is expected of 100 000 reports at that ε. A mechanism whose reports a curator can learn from only
where they are all that is reported (`Form.alone`) is not considered beside other columns.

**Codes**: for a value $V$ of uniform prior, the mutual information $I(V; Y)$ in bits says how much of a
value a report is expected to reveal to whoever holds the likelihood. Every mechanism works out its own
(`Mechanism.information`). Of those within 2 % of the most informative, the shortest report wins: one
code of $\log_2 k$ bits, $w$ such codes, or $k$ bits.

All inputs are public (ε and the column), so the choice reveals nothing.

References:
    Wang et al., *Mutual information optimally local private discrete distribution estimation* (2016).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from privot.core.errors import PrivotError
from privot.mechanisms.mechanism import Mechanism, mechanism_kinds, planned_error
from privot.privacy.rounding import at_most, percent_at_least, require_finite
from privot.schema import Column

_NEARLY_BEST = 0.98


@dataclass(frozen=True)
class Choice:
    """The chosen mechanism, the reason in one sentence, and what was compared, by kind.

    Of points that is the planned error, of codes the bits of information.

    Examples:
        >>> from privot.mechanisms import RandomizedResponse
        >>> Choice(RandomizedResponse(4, 1.0), "the most bits", {"randomized_response": 0.1}).reason
        'the most bits'
    """

    mechanism: Mechanism
    reason: str
    compared: dict[str, float]


def takes_points(column: Column) -> bool:
    """Return True if a column is reported as a point, unless a mechanism is named.

    Not a number that may be missing, where the schema says what its codes are: one of them says so.
    """
    if column.is_number and column.nullable and column.declares_codes:
        return False
    return any(not c.takes_codes and c.among_auto for c in mechanism_kinds(column).values())


def choose_mechanism(
    column: Column, epsilon: float, *, alone: bool = True, among: Sequence[str] | None = None
) -> Choice:
    """Choose for a column.

    Arguments:
        column: What values may be.
        epsilon: Privacy loss of one report; > 0.
        alone: Whether it is all that is reported.
        among: Kinds to choose from; by default all that are for points, if the column takes points, or
            for codes, if it does not.

    >>> from privot.schema import Schema
    >>> columns = Schema.from_toml('''
    ... columns.grade = {kind = "categorical", categories = ["A", "B", "C", "D"]}
    ... columns.age = {kind = "numeric", bounds = [0, 100]}
    ... ''').columns
    >>> choose_mechanism(columns["grade"], epsilon=2.0).mechanism
    RandomizedResponse(num_categories=4, epsilon=2.0)
    >>> print(choose_mechanism(columns["age"], epsilon=1.0).reason)
    window: at ε = 1 its planned error is 1% of the range, the least; laplace 3.2%

    Raises:
        PrivotError: if epsilon is not positive, or `among` names a kind that is not for the column.
    """
    require_finite("epsilon", epsilon, positive=True)
    codes, fitting = not takes_points(column), mechanism_kinds(column)
    if among is None:
        kinds = [k for k, c in fitting.items() if c.among_auto and c.takes_codes == codes]
    elif not among or set(among) - set(fitting):
        raise PrivotError(
            f"among is {list(among)}: choose one or more of {', '.join(sorted(fitting))}"
        )
    else:
        kinds = list(among)
    candidates, refusals = dict[str, Mechanism](), list[PrivotError]()
    for kind in kinds:
        try:
            made = fitting[kind].for_column(column, epsilon)
        except PrivotError as refusal:  # of this ε
            refusals.append(refusal)
            continue
        if alone or not made.form(column).alone:
            candidates[kind] = made
    if not candidates:
        raise refusals[0]
    if codes:
        return _choose_codes(candidates, column, epsilon)
    return _choose_points(candidates, column, epsilon, alone)


def compare_mechanisms(column: Column, own: Mechanism, epsilon: float, *, alone: bool) -> str:
    """The planned error of a mechanism of points, and of the others that there are at ε, in words.

    Examples:
        >>> from privot import Randomizer, Schema
        >>> schema = Schema.from_dict({"columns": {"age": {"kind": "numeric", "bounds": [0, 100]}}})
        >>> noise = Randomizer.calibrate(schema, 1.0, mechanism="laplace").mechanisms["age"]
        >>> compare_mechanisms(schema.columns["age"], noise, 1.0, alone=True)
        'laplace: at ε = 1 its planned error is 3.2% of the range, window 1%'
    """
    assert column.domain is not None
    errors = dict(choose_mechanism(column, epsilon, alone=alone).compared)
    errors[own.requested_kind] = planned_error(own, column.domain)
    return _reason_of_points(own.requested_kind, errors, epsilon, alone)


def _choose_points(
    candidates: Mapping[str, Mechanism], column: Column, epsilon: float, alone: bool
) -> Choice:
    assert column.domain is not None
    errors = {kind: planned_error(made, column.domain) for kind, made in candidates.items()}
    kind = min(errors, key=lambda k: (math.isnan(errors[k]), errors[k]))
    return Choice(candidates[kind], _reason_of_points(kind, errors, epsilon, alone), errors)


def _reason_of_points(kind: str, errors: Mapping[str, float], epsilon: float, alone: bool) -> str:
    at, others = f"{kind}: at ε = {at_most(epsilon)}", [k for k in errors if k != kind]
    if not others:
        return f"{at} no other kind is for it" + ", beside other columns" * (not alone)
    rest = [f"{k} {_percent(errors[k])}" for k in sorted(others, key=errors.__getitem__)]
    least = "the least; " if errors[kind] <= min(errors.values()) else ""
    return (
        f"{at} its planned error is {_percent(errors[kind])} of the range, {least}{', '.join(rest)}"
    )


def _percent(error: float) -> str:
    """Write an error in percent of a range, which is 2 in unit coordinates."""
    return percent_at_least(error / 2, 2)


def _choose_codes(candidates: Mapping[str, Mechanism], column: Column, epsilon: float) -> Choice:
    assert column.alphabet is not None
    information = {kind: made.information(column) for kind, made in candidates.items()}
    most = max(information.values())
    best = min(
        (k for k in candidates if information[k] >= _NEARLY_BEST * most or len(candidates) == 1),
        key=lambda kind: (candidates[kind].report_bits(column), -information[kind]),
    )
    what = f"of {column.alphabet.size} categories"
    return Choice(candidates[best], _reason(best, what, epsilon, information), information)


def _reason(kind: str, what: str, epsilon: float, information: dict[str, float]) -> str:
    own = information[kind]
    others = sorted((k for k in information if k != kind), key=lambda k: -information[k])
    rest = ", ".join(
        f"{other} {'tells ' if i == 0 else ''}{information[other]:.3g}"
        for i, other in enumerate(others)
    )
    if not others:
        why = "and no other kind fits"
    elif any(information[other] >= _NEARLY_BEST * own for other in others):
        why = f"as much as any but for 2 %, in the shortest report; {rest}"
    else:
        why = f"the most; {rest}"
    return f"{kind}: {what} at ε = {at_most(epsilon)}, its report tells {own:.3g} bits, {why}"
