r"""Geo-indistinguishability: a promise that fades with distance.

A randomizer of locations is ε-geo-indistinguishable if for any two places $x, x′$ and every event

$$ P(M(x) ∈ S) ≤ e^{ε ‖x − x′‖_2} P(M(x′) ∈ S) . $$

Adjacency: any two values of one person's record (`local`), but what is promised between them grows
with their distance. Places next door are well hidden from one another, far ones are not: it is weaker
than local privacy of the same ε, and fits where only the neighborhood is sensitive. Between the two
farthest places of a domain of ℓ2 diameter Δ it is ε-local privacy at $εΔ$ (`to_pure`).

Records are rounded to a public grid before the noise. That moves two of them apart by a distance
that is tiny but not proportional to theirs; `epsilon_rounding` adds what it costs, at any distance.

Reports of one person compose by adding both numbers, for the same unit of distance only. A sum with
other kinds of guarantee is no function of distance alone, and is refused: `to_pure` comes first.

References:
    Andrés, Bordenabe, Chatzikokolakis, Palamidessi, *Geo-indistinguishability: differential privacy
    for location-based systems* (2013).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from privot.errors import PrivotError
from privot.privacy.guarantees.guarantee import Guarantee, Neighboring, PureDP
from privot.privacy.rounding import at_most, odds_factor, require_finite, round_up


@dataclass(frozen=True)
class GeoIndistinguishability(Guarantee):
    """P(M(x) ∈ S) ≤ e^(ε‖x−x′‖₂ + ε_rounding) P(M(x′) ∈ S) for all x, x′ of a domain, all S.

    `epsilon_per_unit` is ε for places one `distance_unit` apart.

    >>> print(GeoIndistinguishability(0.5, distance_unit="kilometer"))
    ε = 0.5 per kilometer (geo-indistinguishability), local, per person
    >>> print(GeoIndistinguishability(0.5).to_pure(diameter=8.0))
    ε = 4 (pure), local, per person
    """

    losses = ("epsilon_per_unit", "epsilon_rounding")
    epsilon_per_unit: float
    neighboring: Neighboring = "local"
    unit: str = "person"
    distance_unit: str = "unit of distance"
    epsilon_rounding: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighboring != "local":
            raise PrivotError(
                f"neighboring is {self.neighboring!r}: distance is between two values of one "
                "record; leave it 'local'"
            )
        if not self.distance_unit:
            raise PrivotError("distance_unit is empty: name it, such as 'kilometer'")

    def _loss(self) -> str:
        rounding = f" plus {at_most(self.epsilon_rounding, 2)}" if self.epsilon_rounding else ""
        figures = f"{at_most(self.epsilon_per_unit)} per {self.distance_unit}{rounding}"
        return f"ε = {figures} (geo-indistinguishability)"

    def describe(self) -> str:
        """Return the promise in plain words, odds at one unit of distance first."""
        one, two = self.epsilon_at(1.0), self.epsilon_at(2.0)
        return (
            f"Whoever sees one {self.unit}'s report can change their odds between two places of that "
            f"{self.unit} that are one {self.distance_unit} apart by a factor of at most "
            f"{odds_factor(one)}, at twice that distance {odds_factor(two)}, and so on: places far "
            f"apart are told apart. {self._coverage()}"
        )

    def epsilon_at(self, distance: float) -> float:
        """Return ε between two places at `distance`, rounded up."""
        require_finite("distance", distance)
        exact = Fraction(self.epsilon_per_unit) * Fraction(distance)
        return round_up(exact + Fraction(self.epsilon_rounding))

    def to_pure(self, diameter: float) -> PureDP:
        """Return ε-local privacy on a domain of ℓ2 `diameter`, in the same unit of distance."""
        return PureDP(self.epsilon_at(diameter), self.neighboring, self.unit)
