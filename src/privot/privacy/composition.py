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
from dataclasses import fields, replace
from functools import reduce
from typing import Any

from privot.core.errors import PrivotError
from privot.privacy.guarantees import (
    ApproximateDP,
    DistributedDP,
    GeoIndistinguishability,
    Guarantee,
    IntegralPrivacy,
    Neighboring,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
    require_same,
)

_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        PureDP, ApproximateDP, RenyiDP, ZeroConcentratedDP, IntegralPrivacy, GeoIndistinguishability,
        DistributedDP,
    )
}  # fmt: skip

# What the second kind's promise is made of the first, given another of the second.
_IMPLIED: dict[tuple[type, type], Callable[[Any, Any], Guarantee]] = {
    (PureDP, ApproximateDP): lambda pure, _: pure.to_approximate(),
    (IntegralPrivacy, ApproximateDP): lambda integral, _: integral.to_approximate(),
    (PureDP, ZeroConcentratedDP): lambda pure, _: ZeroConcentratedDP.of_pure(pure),
    (PureDP, RenyiDP): lambda pure, curve: RenyiDP.of_pure(pure, curve.orders),
    (ZeroConcentratedDP, RenyiDP): lambda concentrated, curve: concentrated.to_renyi(curve.orders),
}


def compose(*guarantees: Guarantee) -> Any:
    """Return the guarantee of publishing all outputs about the same unit, rounded up.

    >>> print(compose(PureDP(1.0), ApproximateDP(0.5, 1e-6)))
    ε = 1.5, δ = 1e-06, local, per person

    Raises:
        PrivotError: if none is given, or if neighboring, unit or kinds cannot be combined.
    """
    if not guarantees:
        raise PrivotError("compose was given no guarantees: give at least one")
    return reduce(_compose_two, guarantees)


def weakest(*guarantees: PureDP | ApproximateDP) -> PureDP | ApproximateDP:
    """The promise that everybody has, where each has one of these.

    >>> print(weakest(PureDP(1.0), PureDP(4.0)))
    ε = 4 (pure), local, per person

    Raises:
        PrivotError: if they differ in who may differ, or whom a record belongs to.
    """
    first, *others = guarantees
    for other in others:
        require_same(first, other, ("neighboring", "unit"))
    epsilon = max(each.epsilon for each in guarantees)
    delta = max(getattr(each, "delta", 0.0) for each in guarantees)
    if delta == 0.0:
        return PureDP(epsilon, first.neighboring, first.unit)
    return ApproximateDP(epsilon, delta, first.neighboring, first.unit)


def guarantee_from_dict(values: dict[str, Any]) -> Any:
    """Return the guarantee that `to_dict` wrote.

    Examples:
        >>> guarantee_from_dict(PureDP(1.0).to_dict()) == PureDP(1.0)
        True
    """
    kind = values.get("kind")
    if kind not in _KINDS:
        raise PrivotError(f"kind is {kind!r}: choose one of {', '.join(_KINDS)}")
    given = {name: value for name, value in values.items() if name != "kind"}
    known = [field.name for field in fields(_KINDS[kind])]
    if unknown := sorted(set(given) - set(known)):
        raise PrivotError(f"{kind} has no field {unknown[0]!r}: its fields are {', '.join(known)}")
    try:
        return _KINDS[kind](**given)
    except TypeError as error:
        raise PrivotError(f"{kind} cannot be read from {given!r}: {error}") from error


def _compose_two(first: Any, second: Any) -> Guarantee:
    first, second = _between(first, second.neighboring), _between(second, first.neighboring)
    require_same(first, second, ("neighboring", "unit"))
    for implying, implied in ((first, second), (second, first)):
        if convert := _IMPLIED.get((type(implying), type(implied))):
            return implied.plus(convert(implying, implied))
    if type(first) is not type(second):
        raise PrivotError(
            f"{type(first).__name__} and {type(second).__name__} cannot be composed: bring both to "
            "one kind first, with to_pure(…) or to_approximate(delta)"
        )
    return first.plus(second)


def _between(guarantee: Any, neighboring: Neighboring) -> Guarantee:
    """A promise between any two data sets, as the one between a curator's neighbors that it implies."""
    if guarantee.neighboring != "any" or neighboring in ("any", "local"):
        return guarantee
    if isinstance(guarantee, IntegralPrivacy):
        return guarantee.to_pure(neighboring)
    return replace(guarantee, neighboring=neighboring)
