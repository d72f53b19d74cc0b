r"""The plan of a model: how many draws, at what price each, and what they promise together.

**The budget.** The promise is about **all `draws` together**: each costs ε/draws (or the price of one
is declared instead, and the whole is that times draws). Densities of independent draws multiply, so $N$
draws of $ε_d$ each are $N ε_d$: basic composition, tight for this family. Any two data sets, of any
sizes, are covered.

**Stopping early.** Here, and not for (ε, δ), the sum over the draws that *were* made is a bound as well
(an odometer), even if the number $T$ of them is chosen by what they showed. Let $x_1, …, x_T$ be what a
reader has seen, where whether to go on after $x_t$ is a function of $x_1, …, x_t$ and of coins that know
no data. By then the two data sets' densities are products with the same factors for the coins, and

$$ \frac{q(x_1) ⋯ q(x_T)}{q'(x_1) ⋯ q'(x_T)} \le e^{T ε_d} $$

holds **at every point**: there is no bad event whose probability stopping could collect. (An estimated
normalizer has one, of probability δ, but before the first draw and once for all of them.) The promise
that is stated stays that of the declared draws.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from privot.errors import MOST_ROWS, PrivotError, require_count
from privot.privacy import ApproximateDP, IntegralPrivacy
from privot.privacy.rounding import at_most, multiply_up, percent_at_most, require_finite

_LITTLE = 0.05


@dataclass(frozen=True)
class DrawPlan:
    """Draws that are declared.

    Arguments:
        id: Random, of the one model that they are of.
        draws: How many.
        epsilon: Of each.
        delta: Of all of them; 0 unless the normalizer is estimated.
        unit: Whom a record belongs to.
    """

    id: str
    draws: int
    epsilon: float
    delta: float
    unit: str

    noun: ClassVar[str] = "draws"

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", _declared(self.draws))

    @property
    def uses(self) -> int:
        """Draws that are declared."""
        return self.draws

    @property
    def guarantee(self) -> IntegralPrivacy | ApproximateDP:
        """The promise about all of them together, drawn or not."""
        epsilon = multiply_up(float(self.draws), self.epsilon)
        if self.delta:
            return ApproximateDP(epsilon, self.delta, "any", self.unit)
        return IntegralPrivacy(epsilon, unit=self.unit)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The plan of `to_dict`."""
        return cls(**fields)


def price_of_draw(epsilon: float | None, epsilon_per_draw: float | None, draws: int) -> float:
    """ε of one draw, rounded down so that all together stay within ε."""
    draws = _declared(draws)
    if (epsilon is None) == (epsilon_per_draw is None):
        raise PrivotError(
            "give either epsilon, of all draws together, or epsilon_per_draw, of each of them"
        )
    if epsilon is None:
        assert epsilon_per_draw is not None
        require_finite("epsilon_per_draw", epsilon_per_draw, positive=True)
        return epsilon_per_draw
    require_finite("epsilon", epsilon, positive=True)
    price = float(Fraction(epsilon) / draws)
    return price if Fraction(price) * draws <= Fraction(epsilon) else math.nextafter(price, 0.0)


def _declared(draws: int) -> int:
    return require_count("draws", draws, MOST_ROWS, "all that will ever be published")


def say_what_it_buys(price: float) -> None:
    """Warn of an ε at which draws are the reference's, whatever the records are: public, and in time.

    The ratio of a draw's density to the reference's has mean 1 and spans at most e^ε, hence a total
    variation of at most tanh(ε/4).
    """
    share = math.tanh(price / 4)
    if share < _LITTLE:
        warnings.warn(
            f"epsilon of one draw is {at_most(price)}: whatever the records are, at most "
            f"{percent_at_most(share)} of the draws can differ from what the reference gives for "
            "nothing; declare fewer draws, or more epsilon",
            stacklevel=3,
        )
