"""The Laplace mechanism's arithmetic: noise scale ↔ ε.

y = x + s with s_j independent, density ∝ e^(−|s|/b). For two inputs x, x′ the likelihood ratio
at any y is e^((‖y−x′‖₁ − ‖y−x‖₁)/b) ≤ e^(‖x−x′‖₁/b), attained for y beyond x. So the mechanism
is ε-DP exactly for ε = Δ/b, where the sensitivity Δ is the largest ‖x−x′‖₁ between neighbors:
for local privacy the **diameter** of the domain (a ball of radius r has 2r), rounding to the
grid included. The same holds word for word for discrete Laplace noise on a grid
(Dwork, McSherry, Nissim, Smith 2006; Ghosh, Roughgarden, Sundararajan 2009).

Everything is rounded to the safe side in exact rational arithmetic.
"""

from privot.privacy.rounding import divide_up, require_finite


def calibrate_laplace(sensitivity: float, epsilon: float) -> float:
    """Return the smallest float scale b with Δ/b ≤ ε, in the data's units.

    >>> calibrate_laplace(sensitivity=2.0, epsilon=4.0)
    0.5

    Raises:
        PrivotError: if sensitivity or epsilon is not finite and positive.
    """
    require_finite("sensitivity", sensitivity, positive=True)
    require_finite("epsilon", epsilon, positive=True)
    scale = divide_up(sensitivity, epsilon)
    require_finite("the scale sensitivity/epsilon", scale, positive=True)
    return scale


def laplace_epsilon(scale: float, sensitivity: float) -> float:
    """Return the smallest float ε with Δ/b ≤ ε.

    >>> laplace_epsilon(scale=0.5, sensitivity=2.0)
    4.0

    Raises:
        PrivotError: if scale is not finite and positive, or sensitivity not finite and ≥ 0.
    """
    require_finite("scale", scale, positive=True)
    require_finite("sensitivity", sensitivity)
    return divide_up(sensitivity, scale)
