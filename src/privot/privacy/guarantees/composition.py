"""Composition: what several uses of the same person's data promise together.

Adaptive composition adds up within one kind: ε for pure, (ε, δ) componentwise for approximate
(Dwork, Kenthapadi, McSherry, Mironov, Naor 2006), ε(α) order by order for Rényi, ρ for
zero-concentrated, ε for integral draws, and ε per unit of distance for locations. It is about
the *same* unit: reports of different people do not compose, each of them keeps their own guarantee.

Mixed kinds are first brought to one kind that all of them imply: pure → approximate,
pure → zero-concentrated → Rényi, integral → approximate; and a promise between *any* two data sets to
the weaker one between the neighbors of the other. Anything else, and any other difference in who may
differ or in whom a record belongs to, is refused: no formula of ours covers it.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

from privot.errors import PrivotError
from privot.privacy.guarantees.geo import GeoIndistinguishability, add_geo
from privot.privacy.guarantees.guarantee import (
    ApproximateDP,
    IntegralPrivacy,
    Neighboring,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
)
from privot.privacy.rounding import sum_up

AnyGuarantee = (
    PureDP
    | ApproximateDP
    | RenyiDP
    | ZeroConcentratedDP
    | IntegralPrivacy
    | GeoIndistinguishability
)

_KINDS: dict[str, type[AnyGuarantee]] = {
    kind.__name__: kind
    for kind in (
        PureDP,
        ApproximateDP,
        RenyiDP,
        ZeroConcentratedDP,
        IntegralPrivacy,
        GeoIndistinguishability,
    )
}


def compose(*guarantees: AnyGuarantee) -> Any:
    """Return the guarantee of publishing all outputs about the same unit, rounded up.

    >>> print(compose(PureDP(1.0), ApproximateDP(0.5, 1e-6)))
    ε = 1.5, δ = 1e-06, local, per person

    Raises:
        PrivotError: if none is given, or if neighboring, unit or kinds cannot be combined.
    """
    if not guarantees:
        raise PrivotError("compose was given no guarantees: give at least one")
    return reduce(_compose_two, guarantees)


def guarantee_from_dict(values: dict[str, Any]) -> AnyGuarantee:
    """Return the guarantee that `to_dict` wrote.

    Raises:
        PrivotError: if "kind" is unknown, or the other entries do not fit it.
    """
    kind = values.get("kind")
    if kind not in _KINDS:
        raise PrivotError(f"kind is {kind!r}: choose one of {', '.join(_KINDS)}")
    fields = {name: value for name, value in values.items() if name != "kind"}
    known = _KINDS[kind].__dataclass_fields__
    if unknown := sorted(set(fields) - set(known)):
        raise PrivotError(f"{kind} has no field {unknown[0]!r}: its fields are {', '.join(known)}")
    try:
        return _KINDS[kind](**fields)
    except TypeError as error:
        raise PrivotError(f"{kind} cannot be read from {fields!r}: {error}") from error


def _compose_two(first: AnyGuarantee, second: AnyGuarantee) -> AnyGuarantee:
    first, second = _between(first, second.neighboring), _between(second, first.neighboring)
    for name in ("neighboring", "unit"):
        mine, other = getattr(first, name), getattr(second, name)
        if mine != other:
            raise PrivotError(
                f"{name} is {mine!r} in one guarantee and {other!r} in another: "
                f"state both promises for the same {name} before composing them"
            )
    kinds = (type(first), type(second))
    for pair, ordered in ((kinds, (first, second)), (kinds[::-1], (second, first))):
        if pair in _RULES:
            return _RULES[pair](*ordered)
    raise PrivotError(
        f"{kinds[0].__name__} and {kinds[1].__name__} cannot be composed: bring both to "
        "one kind first, with to_pure(…) or to_approximate(delta)"
    )


def _between(guarantee: AnyGuarantee, neighboring: Neighboring) -> AnyGuarantee:
    """A promise between any two data sets, as the one between a curator's neighbors that it implies."""
    if guarantee.neighboring != "any" or neighboring in ("any", "local"):
        return guarantee
    if isinstance(guarantee, IntegralPrivacy):
        return guarantee.to_pure(neighboring)
    return replace(guarantee, neighboring=neighboring)


def _add_pure(first: PureDP, second: PureDP) -> PureDP:
    epsilon = sum_up((first.epsilon, second.epsilon))
    return PureDP(epsilon, first.neighboring, first.unit)


def _add_approximate(first: ApproximateDP, second: ApproximateDP) -> ApproximateDP:
    epsilon = sum_up((first.epsilon, second.epsilon))
    delta = sum_up((first.delta, second.delta))
    return ApproximateDP(epsilon, delta, first.neighboring, first.unit)


def _add_renyi(first: RenyiDP, second: RenyiDP) -> RenyiDP:
    if first.orders != second.orders:
        raise PrivotError(
            f"orders are {first.orders} in one guarantee and {second.orders} in another: "
            "evaluate both curves at the same orders"
        )
    epsilons = tuple(map(sum_up, zip(first.epsilons, second.epsilons, strict=True)))
    return RenyiDP(first.orders, epsilons, first.neighboring, first.unit)


def _add_zero_concentrated(
    first: ZeroConcentratedDP, second: ZeroConcentratedDP
) -> ZeroConcentratedDP:
    rho = sum_up((first.rho, second.rho))
    return ZeroConcentratedDP(rho, first.neighboring, first.unit)


def _add_integral(first: IntegralPrivacy, second: IntegralPrivacy) -> IntegralPrivacy:
    epsilon = sum_up((first.epsilon, second.epsilon))
    return IntegralPrivacy(epsilon, first.neighboring, first.unit)


_RULES: dict[tuple[type, type], Callable[[Any, Any], AnyGuarantee]] = {
    (PureDP, PureDP): _add_pure,
    (ApproximateDP, ApproximateDP): _add_approximate,
    (RenyiDP, RenyiDP): _add_renyi,
    (ZeroConcentratedDP, ZeroConcentratedDP): _add_zero_concentrated,
    (IntegralPrivacy, IntegralPrivacy): _add_integral,
    (GeoIndistinguishability, GeoIndistinguishability): add_geo,
    (PureDP, ApproximateDP): lambda a, b: _add_approximate(a.to_approximate(), b),
    (IntegralPrivacy, ApproximateDP): lambda a, b: _add_approximate(a.to_approximate(), b),
    (PureDP, ZeroConcentratedDP): lambda a, b: _add_zero_concentrated(a.to_zero_concentrated(), b),
    (PureDP, RenyiDP): lambda a, b: _add_renyi(a.to_renyi(b.orders), b),
    (ZeroConcentratedDP, RenyiDP): lambda a, b: _add_renyi(a.to_renyi(b.orders), b),
}
