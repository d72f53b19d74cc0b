r"""Choice of a mechanism: least planned error for points, most information for codes.

**Points** (places, numbers, dates): `planned_error` approximates the expected Wasserstein distance
between a distribution and its fit to 100 000 reports. A mechanism whose reports can be fitted only if no
other column is reported (`Form.alone`) is considered only for a single column.

**Codes**: the mutual information $I(V; Y)$ in bits of a report and a uniform value $V$
(`Mechanism.information`). Among mechanisms within 2 % of the most informative, the one with the shortest
report is chosen: one code of $\log_2 k$ bits, or $w$ such codes.

All inputs are public (ε and the column), so the choice reveals nothing.

References:
    Wang et al., *Mutual information optimally local private discrete distribution estimation* (2016).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from privot.core.errors import PrivotError, require_finite
from privot.mechanisms.mechanism import Mechanism, mechanism_kinds
from privot.privacy.rounding import at_most, percent_at_least
from privot.schema import Column, Domain

_NEARLY_BEST = 0.98  # share of the most information that a shorter report must have
# (Prior s, factor κ, number of frequencies along each axis) of `planned_error`, by dimension.
_ERROR_MODELS = {1: (0.3, 3.0, 256), 2: (0.3, 6.0, 48), 3: (0.15, 6.0, 16)}


def planned_error(mechanism: Mechanism, domain: Domain, people: int = 100_000) -> float:
    r"""Return the expected error of a fit to `people` reports, in unit coordinates.

    The error is NaN for more than three coordinates. On a curve, its unit is half of the curve's length.

    For records $x$ in $[−1, 1]^d$, noise multiplies the mean of a wave $\cos ⟨ω, x⟩$ by $g(ω)$
    (`Mechanism.attenuation`). So n reports estimate this mean with a variance of about
    $κ / (2 n g(ω)^2)$. Its prior variance $s/(1 + ‖ω‖^2)$ is that of clustered places, with s = .3, or
    s = .15 in three dimensions. An estimate has the smaller variance of the two. In the dual Sobolev
    norm, which approximates the Wasserstein distance for small differences of densities,

    $$ \mathrm{error}^2 = \sum_ω \min\Big( \frac{s}{1 + ‖ω‖^2}, \frac{κ}{2 n g(ω)^2} \Big)
       \frac1{‖ω‖^2} $$

    over the waves $ω ∈ \frac π2 ℤ_{≥0}^d$, ω ≠ 0, of the box.

    **κ** is 1 for the best linear estimate, and larger for a fit, which does not know which waves exceed
    the noise. Measured for `privot.fit` on public synthetic data (clusters and filaments, `python -m
    studies reports.windows`), it is 6 in two and three dimensions, for W₂, and 3 in one, for W₁. With
    this κ the planned error is within 20 % of a fit's error in two dimensions, from ε = 1 to 8 and 10⁴
    to 2·10⁵ people, and within 40 % elsewhere (docs/results/best_report.md).

    >>> from privot.mechanisms import Laplace, Window
    >>> from privot.schema import Box
    >>> place = Box((0.0, 0.0), (1.0, 1.0))
    >>> laplace, window = Laplace.calibrate(place, 4.0), Window.for_domain(place, 4.0)
    >>> planned_error(window, place) < planned_error(laplace, place) / 2
    True
    """
    dimension = 1 if domain.area == "curve" else domain.dimension
    if dimension not in _ERROR_MODELS:
        return math.nan
    prior_scale, variance_factor, per_axis = _ERROR_MODELS[dimension]
    axis = np.arange(per_axis) * math.pi / 2
    grid = np.stack(np.meshgrid(*[axis] * dimension, indexing="ij"), axis=-1)
    frequencies = grid.reshape(-1, dimension)[1:]  # without ω = 0
    square = (frequencies**2).sum(axis=1)
    extra = mechanism.report_domain(domain).dimension - dimension
    if extra > 0:
        # Noise is added to all coordinates of a point of the curve. A wave along the curve is treated as
        # a wave along the first coordinate, at the scale of the curve's diameter.
        half_diameter = float(domain.unit.diameter(2)) / 2
        frequencies = np.pad(frequencies / half_diameter, ((0, 0), (0, extra)))
    gain = mechanism.attenuation(frequencies)
    variance = variance_factor / (2 * people * np.maximum(gain**2, 1e-30))
    prior = prior_scale / (1 + square)
    return math.sqrt(float((np.minimum(prior, variance) / square).sum()))


@dataclass(frozen=True)
class Choice:
    """The chosen mechanism, the reason in one sentence, and the score of each kind.

    Scores are planned errors for points, and bits of information for codes.

    Examples:
        >>> from privot.mechanisms import RandomizedResponse
        >>> Choice(RandomizedResponse(4, 1.0), "the most bits", {"randomized_response": 0.1}).reason
        'the most bits'
    """

    mechanism: Mechanism
    reason: str
    compared: dict[str, float]


def takes_points(column: Column) -> bool:
    """Return whether a column is reported as a point by default."""
    if column.is_number and column.nullable and column.declares_codes:
        return False  # one of the codes is "missing"
    kinds = mechanism_kinds(column).values()
    return any(kind.among_auto and not kind.takes_codes for kind in kinds)


def choose_mechanism(
    column: Column, epsilon: float, *, alone: bool = True, among: Sequence[str] | None = None
) -> Choice:
    """Choose the mechanism for a column.

    Arguments:
        column: Column of the schema.
        epsilon: Privacy loss of one report; > 0.
        alone: Whether no other column is reported.
        among: Kinds to choose from; by default all that report points, or codes, as `takes_points` says.

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
    by_codes, fitting = not takes_points(column), mechanism_kinds(column)
    if among is None:
        automatic = [kind for kind, cls in fitting.items() if cls.among_auto]
        kinds = [kind for kind in automatic if fitting[kind].takes_codes == by_codes]
    elif not among or set(among) - set(fitting):
        raise PrivotError(
            f"among is {list(among)}: choose one or more of {', '.join(sorted(fitting))}"
        )
    else:
        kinds = list(among)
    candidates, refusals = dict[str, Mechanism](), list[PrivotError]()
    for kind in kinds:
        try:
            mechanism = fitting[kind].for_column(column, epsilon)
        except PrivotError as refusal:  # ε is outside the range of this kind
            refusals.append(refusal)
            continue
        if alone or not mechanism.form(column).alone:
            candidates[kind] = mechanism
    if not candidates:
        raise refusals[0]
    if by_codes:
        return _choose_codes(candidates, column, epsilon)
    assert column.domain is not None
    errors = {kind: planned_error(candidates[kind], column.domain) for kind in candidates}
    best = min(errors, key=lambda kind: (math.isnan(errors[kind]), errors[kind]))
    return Choice(candidates[best], _reason_of_points(best, errors, epsilon, alone), errors)


def compare_mechanisms(column: Column, mechanism: Mechanism, epsilon: float, *, alone: bool) -> str:
    """Return a sentence with the planned errors of a mechanism of points and its alternatives at ε.

    `alone` states whether no other column is reported.

    Examples:
        >>> from privot import Randomizer, Schema
        >>> schema = Schema.from_dict({"columns": {"age": {"kind": "numeric", "bounds": [0, 100]}}})
        >>> noise = Randomizer.calibrate(schema, 1.0, mechanism="laplace").mechanisms["age"]
        >>> compare_mechanisms(schema.columns["age"], noise, 1.0, alone=True)
        'laplace: at ε = 1 its planned error is 3.2% of the range, window 1%'
    """
    assert column.domain is not None
    errors = dict(choose_mechanism(column, epsilon, alone=alone).compared)
    errors[mechanism.requested_kind] = planned_error(mechanism, column.domain)
    return _reason_of_points(mechanism.requested_kind, errors, epsilon, alone)


def _reason_of_points(kind: str, errors: Mapping[str, float], epsilon: float, alone: bool) -> str:
    """Return the sentence that compares the planned error of a kind with those of the other kinds."""
    start = f"{kind}: at ε = {at_most(epsilon)}"
    others = sorted((other for other in errors if other != kind), key=errors.__getitem__)
    if not others:
        beside = "" if alone else ", beside other columns"
        return f"{start} no other kind is for it{beside}"
    # The range is 2 in unit coordinates.
    percent = {name: percent_at_least(error / 2, 2) for name, error in errors.items()}
    rest = ", ".join(f"{other} {percent[other]}" for other in others)
    least = "the least; " if errors[kind] <= min(errors.values()) else ""
    return f"{start} its planned error is {percent[kind]} of the range, {least}{rest}"


def _choose_codes(candidates: Mapping[str, Mechanism], column: Column, epsilon: float) -> Choice:
    """Choose the shortest report among the mechanisms with nearly the most information."""
    assert column.alphabet is not None
    information = {kind: candidates[kind].information(column) for kind in candidates}
    most = max(information.values())
    nearly_best = [kind for kind in candidates if information[kind] >= _NEARLY_BEST * most]
    best = min(
        nearly_best or candidates,  # a single candidate may have NaN bits
        key=lambda kind: (candidates[kind].report_bits(column), -information[kind]),
    )
    bits = information[best]
    others = sorted((kind for kind in information if kind != best), key=lambda k: -information[k])
    if not others:
        why = "and no other kind fits"
    else:
        first, *more = others
        compared = [f"{first} tells {information[first]:.3g}"]
        compared += [f"{other} {information[other]:.3g}" for other in more]
        tied = any(information[other] >= _NEARLY_BEST * bits for other in others)
        claim = "within 2 % of the most, in the shortest report" if tied else "the most"
        why = f"{claim}; {', '.join(compared)}"
    start = f"{best}: of {column.alphabet.size} categories at ε = {at_most(epsilon)}"
    reason = f"{start}, its report tells {bits:.3g} bits, {why}"
    return Choice(candidates[best], reason, information)
