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
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.mechanisms.mechanism import Array, Mechanism
from privot.privacy.guarantees.guarantee import PureDP
from privot.schema.domains.domain import Domain


@dataclass(frozen=True)
class FrequencyOracle(Mechanism):
    """A pure ε-local randomizer of categories; subclasses declare `epsilon` and prove it."""

    @property
    @abstractmethod
    def num_values(self) -> int:
        """Size K of the alphabet; values are codes 0 … K−1."""

    @property
    @abstractmethod
    def likelihood_ratio(self) -> float:
        """The ratio r of a report's two likelihoods, as the integers imply; at most e^ε."""

    @abstractmethod
    def support(self, reports: NDArray[Any]) -> NDArray[np.int32]:
        """The codes that each report supports, shape (n, w), padded with −1."""

    @property
    @abstractmethod
    def probabilities(self) -> tuple[float, float]:
        """P(the true category is supported), P(one given other is), as the integers imply."""

    @property
    @abstractmethod
    def _epsilon(self) -> float:
        """The privacy loss, by the subclass's proof."""

    takes_codes = True

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
        return PureDP(self._epsilon)

    @property
    def bias(self) -> float:
        """0: the indicator $(1[…] − q)/(p−q)$ is unbiased."""
        return 0.0

    @property
    def variance(self) -> float:
        """$q(1−q)/(p−q)^2$: of the unbiased indicator of a category that the record is not in."""
        own, other = self.probabilities
        return other * (1 - other) / (own - other) ** 2
