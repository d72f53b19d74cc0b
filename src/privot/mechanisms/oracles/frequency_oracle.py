r"""Frequency oracles: mechanisms for categories whose reports *support* some of them.

A report supports a set of categories (the one it names, those in its set, those whose bit is on). The
true category is supported with probability p, any given other one with q < p. Then $(1[\text{report
supports } v] − q)/(p − q)$ is an unbiased estimate of whether the record is v, and the three oracles
here differ only in p, q, and in what is sent. The likelihood of a report y takes two values,

$$ f(y | v) = c(y) · r \text{ if y supports } v, \text{ else } c(y) , \qquad 1 < r ≤ e^ε , $$

so that what a report says of the record is its support S(y) and the public ratio r, no more.

References:
    Wang, Blocki, Li, Jha, *Locally differentially private protocols for frequency estimation* (2017).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privot.mechanisms.forms import SupportForm
from privot.mechanisms.mechanism import Mechanism
from privot.privacy.guarantees.guarantee import PureDP
from privot.privacy.rounding import percent_at_least, percent_at_most
from privot.schema import Array, Column, Domain


class FrequencyOracle(Mechanism):
    """A pure ε-local randomizer of categories, of which subclasses give the proof.

    Examples:
        >>> from privot.mechanisms import RandomizedResponse
        >>> oracle = RandomizedResponse(num_categories=4, epsilon=1.0)
        >>> isinstance(oracle, FrequencyOracle), oracle.support_size
        (True, 1)
    """

    epsilon: float

    takes_codes = True

    @property
    @abstractmethod
    def num_values(self) -> int:
        """Size K of the alphabet; values are codes 0 … K−1."""

    @property
    @abstractmethod
    def likelihood_ratio(self) -> float:
        """The ratio r of a report's two likelihoods, as the integers imply; at most e^ε."""

    @property
    @abstractmethod
    def probabilities(self) -> tuple[float, float]:
        """P(the true category is supported), P(one given other is), as the integers imply."""

    @property
    @abstractmethod
    def support_size(self) -> int | None:
        """Codes in every support; None where every code is in it by itself."""

    @classmethod
    def unfit(cls, column: Column) -> str:
        """For all columns of finitely many codes."""
        return "it is for codes of an alphabet: use 'laplace'" if column.alphabet is None else ""

    @classmethod
    def for_column(cls, column: Column, epsilon: float) -> Self:
        """Of the column's alphabet."""
        assert column.alphabet is not None
        return cls(column.alphabet.size, epsilon)  # type: ignore[call-arg]  # of all subclasses

    def fits(self, column: Column) -> bool:
        """Whether its alphabet is the column's: a smaller one would refuse some records."""
        return column.alphabet is not None and column.alphabet.size == self.num_values

    @property
    def supports(self) -> SupportForm:
        """Codes in the support are r times likelier."""
        ratio, size = self.likelihood_ratio, self.support_size
        return SupportForm(self.num_values, ratio, self.probabilities, size)

    def form(self, column: Column) -> SupportForm:
        """That of its `supports`."""
        return self.supports

    def expected(self, column: Column) -> dict[str, Any]:
        """How often a report holds the truth, and any given other."""
        own, other = self.probabilities
        words = (
            f"the truth with probability {percent_at_most(own)}, each of {self.num_values - 1} others "
            f"with probability {percent_at_least(other)}"
        )
        return {"keep": own, "in_words": words}

    def _information_of_sets(self, size: int, own: float, rest: float) -> float:
        r"""$p \log \frac{kp}{w} + (1−p) \log \frac{k(1−p)}{k−w}$, p of sets of w holding the truth."""
        k = self.num_values
        return own * math.log2(k * own / size) + rest * math.log2(k * rest / (k - size))

    @property
    def _code_bits(self) -> int:
        return math.ceil(math.log2(max(self.num_values, 2)))

    def impossible(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Supports (n, w) that are not increasing codes below K, padded with −1 at the end."""
        rising = (np.diff(reports, axis=1) > 0) | (reports[:, 1:] == -1)
        inside = (reports >= -1) & (reports < self.num_values)
        return ~(inside.all(axis=1) & rising.all(axis=1))

    def log_ratio(self, reports: NDArray[Any], x: NDArray[Any], other: NDArray[Any]) -> Array:
        """Ln r if a support has `x` but not `other`, −ln r if the other way round, else 0."""
        has = [(reports == np.asarray(code)[..., None]).any(axis=1) for code in (x, other)]
        return math.log(self.likelihood_ratio) * (has[0].astype(float) - has[1])

    def guarantee(self, domain: Domain | None = None, delta: float = 0.0) -> PureDP:
        """ε between any two categories, by the proof of the mechanism; no argument is needed."""
        return PureDP(self.epsilon)

    @property
    def bias(self) -> float:
        """0: the indicator $(1[…] − q)/(p−q)$ is unbiased."""
        return 0.0

    @property
    def variance(self) -> float:
        """$q(1−q)/(p−q)^2$: of the unbiased indicator of a category that the record is not in."""
        own, other = self.probabilities
        return other * (1 - other) / (own - other) ** 2
