"""Guarantees in plain words, for people who decide on the strength of them.

A pure promise bounds odds: for any two values of what is protected, whoever sees the output
can multiply their odds between the two by at most e^ε (Bayes' rule: posterior odds are prior
odds times the likelihood ratio, and the ratio is bounded).

A δ > 0 does **not** mean "the promise fails with probability δ": it is the slack added to the
probability of every outcome. A mechanism that publishes each record outright with chance δ
satisfies it, and so does one in which nothing as bad ever happens; the sentence must fit both.
"""

import math

_WHO_SEES = "whoever sees everything the curator ever publishes"

_ADJACENCY = {
    "local": (
        "This holds between any two values of the {unit}'s record, and against the curator "
        "too, who only ever sees the noised report."
    ),
    "replace_one": (
        "This compares data sets in which one {unit}'s record is replaced by any other; "
        "the curator, who holds the records, is trusted."
    ),
    "zero_out": (
        "This compares data sets with one {unit}'s record and with a blank in its place; "
        "the curator, who holds the records, is trusted."
    ),
    "any": "This compares any two data sets, of any sizes; the curator is trusted.",
}


def rounded_factor(epsilon: float) -> str:
    """Return "e^ε = number", the number to two or three digits.

    >>> rounded_factor(4.0)
    'e^4 = 55'
    """
    power = f"e^{epsilon:.4g}"
    if epsilon == 0:
        return f"{power} = 1 (no change at all)"
    if epsilon > math.log(1e15):
        return f"{power} (no protection worth the name)"
    factor = math.exp(epsilon)
    if factor < 10:
        return f"{power} = {factor:.3g}"
    digits = 1 - math.floor(math.log10(factor))
    return f"{power} = {round(factor, digits):,.0f}"


def odds_sentence(epsilon: float, neighboring: str, unit: str) -> str:
    """Return the meaning of a pure ε."""
    return (
        f"{_WHO_SEES.capitalize()} can change their odds about any one {unit} by a "
        f"factor of at most {rounded_factor(epsilon)}. {_ADJACENCY[neighboring].format(unit=unit)}"
    )


def additive_sentence(epsilon: float, delta: float, neighboring: str, unit: str) -> str:
    """Return the meaning of (ε, δ), with δ as what it is: slack added to every probability."""
    return (
        f"For {_WHO_SEES}, no outcome's probability depends on any one {unit} by "
        f"more than a factor of {rounded_factor(epsilon)} plus {delta:.3g}; the added {delta:.3g} "
        "bounds the total probability of what exceeds the factor, and says nothing about how bad "
        f"that is. {_ADJACENCY[neighboring].format(unit=unit)}"
    )
