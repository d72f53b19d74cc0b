r"""Sharing one person's budget among the columns that are reported one by one.

With k of the columns in a report, each pure mechanism gets $ε/k$: the reported columns are drawn
independently of the record, so whichever k they are, their losses add up to at most ε.

Gaussian columns are one joint Gaussian mechanism. Column i alone has the privacy parameter
$μ_i = Δ_i/σ_i$; j of them together have $(\sum μ_i^2)^{1/2}$, so with equal shares $μ$ a report of j
Gaussian and k−j pure columns is $(ε, δ)$-private if

$$ \sqrt{j}\, μ ≤ μ(jε/k, δ), $$

where $μ(ε, δ)$ solves the exact formula of Balle and Wang (2018). The column's noise satisfies this
for every j that can occur.

**Shares.** Where all columns are reported, some may be given an ε of their own, and the others share
what is left as above. Losses of different mechanisms add up all the same: with an (ε_1, δ)-private
Gaussian image and an ε_2-private label, the report is (ε_1 + ε_2, δ)-private (basic composition).

References:
    Balle, Wang, *Improving the Gaussian mechanism for differential privacy* (2018).
    Dong, Roth, Su, *Gaussian differential privacy* (2022), for the composition of Gaussians.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate

from privot.errors import PrivotError
from privot.mechanisms import (
    FrequencyOracle,
    Gaussian,
    Laplace,
    Mechanism,
    NullableNoise,
    PlanarLaplace,
    RandomizedResponse,
    SquareWave,
    choose_mechanism,
)
from privot.mechanisms.additive.additive_noise import (
    AdditiveNoise,
    choose_grid,
    rounded_sensitivity,
)
from privot.mechanisms.mechanism import LARGEST_EPSILON
from privot.privacy import (
    ApproximateDP,
    Guarantee,
    PureDP,
    calibrate_gaussian,
    gaussian_delta,
    gaussian_epsilon,
)
from privot.privacy.rounding import check_delta, round_up, sum_up
from privot.release.budget.stated_shares import check_shares
from privot.schema import (
    ArrayColumn,
    Domain,
    NumericColumn,
    PointColumn,
    Schema,
    VectorColumn,
)

MECHANISMS = ("laplace", "gaussian", "planar_laplace", "square_wave", "auto")
_HAIR = 1 + 2.0**-38


def require_budget(epsilon: float, delta: float) -> None:
    """Refuse an ε or δ that is out of range.

    Raises:
        PrivotError: naming the argument, the value and the remedy.
    """
    if not isinstance(epsilon, int | float) or not 0 < epsilon <= LARGEST_EPSILON:
        raise PrivotError(
            f"epsilon {epsilon} promises nothing: give a number > 0, at most {LARGEST_EPSILON:g}"
        )
    check_delta(delta)


def calibrate_columns(
    schema: Schema,
    names: Sequence[str],
    epsilon: float,
    delta: float,
    mechanism: str,
    num_reported: int,
    shares: Mapping[str, float] | None = None,
) -> dict[str, Mechanism]:
    """One mechanism for each of the columns `names`, such that any k are (ε, δ)-private together.

    `shares` are the ε of some pure columns; then all columns must be reported. Columns that may be
    missing are reported as codes, by randomized response, as categories are; vectors with a noised flag
    beside the noised point (`mechanisms.nullable_noise`).

    Raises:
        PrivotError: if ε ≤ 0, δ is outside [0, 1), or δ does not fit the mechanism.
    """
    if mechanism not in MECHANISMS:
        raise PrivotError(
            f"mechanism {mechanism!r} is not known: use one of {', '.join(MECHANISMS)}"
        )
    require_budget(epsilon, delta)
    if mechanism == "gaussian" and delta == 0:
        raise PrivotError(
            "delta 0 cannot be had with mechanism 'gaussian': give delta > 0, or use 'laplace'"
        )
    if mechanism != "gaussian" and delta > 0:
        raise PrivotError(
            f"delta {delta} is not needed by mechanism {mechanism!r}, which is pure: leave it out, "
            "or use 'gaussian'"
        )
    points = [name for name in names if _is_point(schema, name)]
    shares = shares or {}
    if shares:
        own_noise = [name for name in names if mechanism == "gaussian" and name in points]
        check_shares(shares, names, own_noise, epsilon, num_reported)
    # Rounded down, so that shares, each rounded (by as much as large ones are), stay within ε.
    left, sharing = epsilon - math.fsum(shares.values()), num_reported - len(shares)
    share = math.nextafter((left - epsilon * 2.0**-50 * bool(shares)) / sharing, 0.0)
    epsilons = dict.fromkeys(names, share) | dict(shares)
    mechanisms: dict[str, Mechanism] = {}
    for name in names:
        own = epsilons[name]
        if name not in points:
            size = schema.coded[name].alphabet.size
            mechanisms[name] = (
                choose_mechanism(size, own).mechanism
                if mechanism == "auto"
                else RandomizedResponse(size, own)
            )
        elif mechanism != "gaussian":
            mechanisms[name] = _pure(schema, name, own, mechanism)
    if mechanism != "gaussian" or not points:
        return {name: mechanisms[name] for name in names}
    for name in points:
        if schema.point_column(name).nullable:
            raise PrivotError(
                f"mechanism 'gaussian' is not for column {name!r}, which may be missing: use "
                "'laplace' or 'planar_laplace'"
            )
    # The roundings of many columns may add up: a hair more noise settles it, as is checked.
    pure = len(names) - len(points) - len(shares)
    multiplier = _shared_multiplier(len(points), pure, share, delta, sharing) * _HAIR
    while True:
        for name in points:
            mechanisms[name] = _gaussian(schema.point_column(name).domain, multiplier)
        if split_guarantee(schema, mechanisms, num_reported, delta).epsilon <= epsilon:
            return {name: mechanisms[name] for name in names}
        multiplier *= _HAIR


def _is_point(schema: Schema, name: str) -> bool:
    """Whether a column can be reported as a point: it has a domain, and a code if it is missing."""
    column = schema.columns[name]
    return isinstance(column, VectorColumn | ArrayColumn) or (
        isinstance(column, PointColumn) and not column.nullable
    )


def _serves(mechanism: str, column: PointColumn) -> str:
    """What serves a column that the mechanism does not; nothing where it does."""
    plain = not column.nullable and not isinstance(column, VectorColumn | ArrayColumn)
    if mechanism == "square_wave" and not (plain and not getattr(column, "spikes", ())):
        return "it is for numbers and dates without spikes that are never missing: use 'laplace'"
    if mechanism == "planar_laplace" and not isinstance(column, VectorColumn):
        return "it is for vectors of two coordinates: use 'laplace'"
    return ""


def _pure(schema: Schema, name: str, share: float, mechanism: str) -> Mechanism:
    column = schema.point_column(name)
    if remedy := _serves(mechanism, column):
        raise PrivotError(
            f"mechanism {mechanism!r} is not for column {name!r}: {remedy}, or 'auto'"
        )
    if column.nullable:
        kind = "planar_laplace" if mechanism == "planar_laplace" else "laplace"
        return NullableNoise.calibrate(column.domain, share, kind)
    if isinstance(column, VectorColumn):
        if mechanism == "planar_laplace":
            return PlanarLaplace.calibrate(column.domain, share)
        return Laplace.calibrate(column.domain, share)
    if isinstance(column, ArrayColumn):
        return Laplace.calibrate(column.domain, share)
    if isinstance(column, NumericColumn) and column.spikes:
        # The square wave reports places, and a spike is a share of people at one place.
        return Laplace.calibrate(column.domain, share)
    if mechanism == "auto":
        return choose_mechanism(column.domain, share).mechanism
    if mechanism == "square_wave":
        return SquareWave(share)
    return Laplace.calibrate(column.domain, share)


def _shared_multiplier(
    points: int, pure: int, share: float, delta: float, num_reported: int
) -> float:
    """The largest of √j σ(jε/k, δ), j = Gaussian columns of a report, for sensitivity 1."""
    most = min(num_reported, points)
    least = max(1, num_reported - pure)
    multiplier = 0.0
    for j in range(least, most + 1):
        root = math.sqrt(j)
        # One evaluation tells whether the noise so far is enough for j columns.
        if multiplier == 0 or gaussian_delta(multiplier, root, j * share) > delta:
            multiplier = root * calibrate_gaussian(1.0, j * share, delta)
    return multiplier


def split_guarantee(
    schema: Schema, mechanisms: Mapping[str, Mechanism], num_reported: int, delta: float
) -> PureDP | ApproximateDP:
    """What any `num_reported` columns promise together, from their noise alone; ε is rounded up.

    Raises:
        PrivotError: if a mechanism does not fit its column, or needs δ > 0 and there is none.
    """
    multipliers: list[float] = []
    losses: list[float] = []
    for name, mechanism in mechanisms.items():
        _require_fitting(schema, name, mechanism)
        if isinstance(mechanism, FrequencyOracle):
            losses.append(mechanism.guarantee().epsilon)
            continue
        domain = schema.point_column(name).domain
        if isinstance(mechanism, Gaussian):
            multipliers.append(rounded_sensitivity(domain, 2, mechanism.grid) / mechanism.stddev)
        else:
            losses.append(mechanism.guarantee(domain).epsilon)
    multipliers.sort(reverse=True)
    losses.sort(reverse=True)
    if not multipliers:
        return PureDP(sum_up(losses[:num_reported]), unit=schema.unit)
    if delta == 0:
        raise PrivotError("delta 0 cannot be had with Gaussian noise: state the delta")
    # Exact sums of the k largest pure losses, and what j Gaussian columns add to k−j of them.
    pure = list(accumulate(map(Fraction, losses), initial=Fraction(0)))
    worst = 0.0
    for j in range(max(0, num_reported - len(losses)), min(num_reported, len(multipliers)) + 1):
        rest = pure[num_reported - j]
        if not j:
            worst = round_up(rest)
            continue
        joint = math.hypot(*multipliers[:j]) * (1 + 2.0**-50)
        # One evaluation tells whether j columns stay below the worst so far.
        left = float(Fraction(worst) - rest) * (1 - 2.0**-50)
        if left <= 0 or gaussian_delta(1.0, joint, left) > delta:
            worst = max(worst, round_up(Fraction(gaussian_epsilon(1.0, joint, delta)) + rest))
    return ApproximateDP(worst, delta, unit=schema.unit)


def _require_fitting(schema: Schema, name: str, mechanism: Mechanism) -> None:
    """A mechanism for the values that the schema declares, or a refusal.

    An alphabet smaller than the column's would refuse some records; noise alone for a column that may
    be missing would have no value to be added to, and sending none would tell that it is missing.
    """
    column = schema.columns[name]
    if isinstance(mechanism, FrequencyOracle):
        fits = name in schema.coded and mechanism.num_values == schema.coded[name].alphabet.size
    elif isinstance(mechanism, SquareWave):
        fits = _is_point(schema, name) and not isinstance(column, VectorColumn | ArrayColumn)
        fits = fits and not getattr(column, "spikes", ())
    else:
        wanted = NullableNoise if getattr(column, "nullable", False) else AdditiveNoise
        fits = isinstance(mechanism, wanted) and _is_point(schema, name)
    if not fits:
        raise PrivotError(
            f"mechanism {mechanism.kind!r} does not fit column {name!r} as the schema declares it "
            f"({column.kind}): calibrate again"
        )


def _gaussian(domain: Domain, multiplier: float) -> Gaussian:
    """Noise of `multiplier` times the sensitivity, rounding to the grid included."""
    grid = choose_grid(multiplier * domain.unit.diameter(2))
    stddev = multiplier * rounded_sensitivity(domain, 2, grid)
    # A few roundings up to here, each below 2^−52; ε is checked again by `split_guarantee`.
    return Gaussian(stddev * (1 + 2.0**-48), grid)


def same_promise(stated: Guarantee, computed: PureDP | ApproximateDP) -> bool:
    """Whether two promises agree, up to what another machine's logarithm may round differently."""
    if not isinstance(stated, PureDP | ApproximateDP) or type(stated) is not type(computed):
        return False
    rest = replace(stated, epsilon=computed.epsilon) == computed
    return rest and math.isclose(stated.epsilon, computed.epsilon, rel_tol=1e-9)
