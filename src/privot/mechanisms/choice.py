r"""Which mechanism: the one whose report tells most about the value, at the same ε.

For a value $V$ of uniform prior, the **mutual information** $I(V; Y)$ in bits says how much of a
value a report is expected to reveal to whoever holds the likelihood. It needs no data, treats
densities with and without a slope alike (Fisher information is 0 for a flat one, however good), and
adds up over people at best. Every mechanism works out its own (`Mechanism.information`).

Of those within 2 % of the most informative, the shortest report wins: one code of $\log_2 k$ bits,
$w$ such codes, $k$ bits, or one number. All inputs are public (ε and the column), so the choice
reveals nothing.

References:
    Wang et al., *Mutual information optimally local private discrete distribution estimation* (2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from privot.errors import PrivotError
from privot.mechanisms.additive.laplace import Laplace
from privot.mechanisms.mechanism import Mechanism, mechanism_kinds
from privot.privacy.rounding import at_most, require_finite
from privot.schema import Column

_AS_GOOD = 0.98


@dataclass(frozen=True)
class Choice:
    """The chosen mechanism, the reason in one sentence, and bits of information by kind."""

    mechanism: Mechanism
    reason: str
    information: dict[str, float]


def takes_points(column: Column) -> bool:
    """Whether a column is reported as a point, with noise, unless a mechanism is named."""
    return not Laplace.unfit(column)


def choose_mechanism(
    column: Column, epsilon: float, *, among: Sequence[str] | None = None
) -> Choice:
    """Choose for a column.

    Arguments:
        column: What values may be.
        epsilon: Privacy loss of one report; > 0.
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
    square_wave: of a number between its bounds at ε = 1, its report tells 0.152 bits, the most;
    laplace tells 0.0494

    Raises:
        PrivotError: if epsilon is not positive, or `among` names a kind that is not for the column.
    """
    require_finite("epsilon", epsilon, positive=True)
    codes, fitting = not takes_points(column), mechanism_kinds(column)
    if among is None:
        kinds = [k for k, c in fitting.items() if c.among_auto and c.takes_codes == codes]
    elif not among or set(among) - set(fitting):
        raise PrivotError(f"among is {list(among)}: choose one or more of {', '.join(fitting)}")
    else:
        kinds = list(among)
    candidates, refusals = dict[str, Mechanism](), list[PrivotError]()
    for kind in kinds:
        try:
            candidates[kind] = fitting[kind].for_column(column, epsilon)
        except PrivotError as refusal:  # of this ε
            refusals.append(refusal)
    if not candidates:
        raise refusals[0]
    information = {kind: made.information(column) for kind, made in candidates.items()}
    most = max(information.values())
    best = min(
        (
            kind
            for kind in candidates
            if information[kind] >= _AS_GOOD * most or len(candidates) == 1
        ),
        key=lambda kind: (candidates[kind].report_bits(column), -information[kind]),
    )
    what = "of a number between its bounds"
    if codes:
        assert column.alphabet is not None
        what = f"of {column.alphabet.size} categories"
    return Choice(candidates[best], _reason(best, what, epsilon, information), information)


def _reason(kind: str, what: str, epsilon: float, information: dict[str, float]) -> str:
    own = information[kind]
    others = sorted((k for k in information if k != kind), key=lambda k: -information[k])
    told = ", ".join(
        f"{other} {'tells ' if i == 0 else ''}{information[other]:.3g}"
        for i, other in enumerate(others)
    )
    if not others:
        why = "and no other kind fits"
    elif any(information[other] >= _AS_GOOD * own for other in others):
        why = f"as much as any but for 2 %, in the shortest report; {told}"
    else:
        why = f"the most; {told}"
    return f"{kind}: {what} at ε = {at_most(epsilon)}, its report tells {own:.3g} bits, {why}"
