r"""Which mechanism: the one whose report tells most about the value, at the same ε.

For a value $V$ of uniform prior, the **mutual information** $I(V; Y)$ in bits says how much of a
value a report is expected to reveal to whoever holds the likelihood. It needs no data, treats
densities with and without a slope alike (Fisher information is 0 for a flat one, however good), and
adds up over people at best. With $p, q$ of each mechanism:

- randomized response, $k$ categories: $p \log kp + (1−p) \log \frac{k(1−p)}{k−1}$;
- subset selection, $w$ of $k$: $p \log \frac{kp}{w} + (1−p) \log \frac{k(1−p)}{k−w}$;
- unary encoding: with $r_1 = p/q$, $r_0 = (1−p)/(1−q)$ and $C$ bits set, $E[\log r_{Y_V} −
  \log \frac{C r_1 + (k−C) r_0}{k}]$, $C$ being $Y_V$ and a binomial of $k−1$;
- square wave: $\log T − H(Y | V)$ less what its edges lose, summed over cells;
- Laplace on $[−1, 1]$: $h(Y) − 1 − \log 2b$, $Y$ having the density
  $½ − ¼ (e^{−(1+y)/b} + e^{−(1−y)/b})$ inside and $¼ (1 − e^{−2/b}) e^{−(|y|−1)/b}$ outside.

Of those within 2 % of the most informative, the shortest report wins: one code of $\log_2 k$ bits,
$w$ such codes, $k$ bits, or one number. All inputs are public (ε and the domain), so the choice
reveals nothing.

References:
    Wang et al., *Mutual information optimally local private discrete distribution estimation* (2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from privot.errors import PrivotError
from privot.mechanisms.additive.laplace import Laplace
from privot.mechanisms.mechanism import Array, Mechanism, require_positive
from privot.mechanisms.oracles.randomized_response import RandomizedResponse
from privot.mechanisms.oracles.subset_selection import SubsetSelection
from privot.mechanisms.oracles.unary_encoding import UnaryEncoding
from privot.mechanisms.windows.square_wave import STEPS, SquareWave
from privot.privacy.guarantees.figures import at_most
from privot.schema.domains.domain import Domain

CATEGORICAL = ("randomized_response", "subset_selection", "unary_encoding")
NUMERIC = ("laplace", "square_wave")
_AS_GOOD = 0.98
_NUMBER_BITS = 64
_NODES = 4096


@dataclass(frozen=True)
class Choice:
    """The chosen mechanism, the reason in one sentence, and bits of information by kind."""

    mechanism: Mechanism
    reason: str
    information: dict[str, float]


@dataclass(frozen=True)
class _Candidate:
    mechanism: Mechanism
    information: float
    report_bits: int


def choose_mechanism(
    values: int | Domain, epsilon: float, *, among: Sequence[str] | None = None
) -> Choice:
    """Choose for `values`: a number of categories, or the domain of one bounded number.

    Arguments:
        values: Number of categories k ≥ 2, or an interval.
        epsilon: Privacy loss of one report; > 0.
        among: Kinds to choose from; by default all of `CATEGORICAL` or `NUMERIC`.

    >>> choose_mechanism(4, epsilon=2.0).mechanism
    RandomizedResponse(num_categories=4, epsilon=2.0)
    >>> print(choose_mechanism(1000, epsilon=1.0).reason)
    unary_encoding: of 1000 categories at ε = 1, its report tells 0.173 bits, as much as any but for
    2 %, in the shortest report; subset_selection tells 0.173, randomized_response 0.00144

    Raises:
        PrivotError: if epsilon is not positive, k < 2, the domain is not an interval, or `among`
            names a kind that does not fit.
    """
    require_positive("epsilon", epsilon)
    if isinstance(values, int):
        what = f"of {values} categories"
        kinds = _allowed(among, CATEGORICAL)
        candidates = _fitting(kinds, lambda kind: _categorical(kind, values, epsilon))
    else:
        what = "of a number between its bounds"
        _require_interval(values)
        kinds = _allowed(among, NUMERIC)
        candidates = _fitting(kinds, lambda kind: _numeric(kind, values, epsilon))
    most = max(candidate.information for candidate in candidates.values())
    kind = min(
        (kind for kind, c in candidates.items() if c.information >= _AS_GOOD * most),
        key=lambda kind: (candidates[kind].report_bits, -candidates[kind].information),
    )
    chosen = candidates[kind]
    information = {kind: c.information for kind, c in candidates.items()}
    return Choice(chosen.mechanism, _reason(kind, what, epsilon, information), information)


def _allowed(among: Sequence[str] | None, kinds: Sequence[str]) -> Sequence[str]:
    if among is None:
        return kinds
    if not among or set(among) - set(kinds):
        raise PrivotError(f"among is {list(among)}: choose one or more of {', '.join(kinds)}")
    return among


def _require_interval(domain: Domain) -> None:
    if domain.dimension != 1 or domain.unit.diameter(1) != 2.0:
        raise PrivotError(
            f"values is a domain of {domain.dimension} coordinates and unit diameter "
            f"{domain.unit.diameter(1)}: give one number between two bounds"
        )


def _reason(kind: str, what: str, epsilon: float, information: dict[str, float]) -> str:
    own = information[kind]
    others = sorted((k for k in information if k != kind), key=lambda k: -information[k])
    told = ", ".join(
        f"{other} {'tells ' if i == 0 else ''}{information[other]:.3g}"
        for i, other in enumerate(others)
    )
    if not others:
        why = "and no other kind fits"
    elif any(information[other] >= _AS_GOOD * own for other in others):
        why = f"as much as any but for 2 %, in the shortest report; {told}"
    else:
        why = f"the most; {told}"
    return f"{kind}: {what} at ε = {at_most(epsilon)}, its report tells {own:.3g} bits, {why}"


def _fitting(kinds: Sequence[str], build: Callable[[str], _Candidate]) -> dict[str, _Candidate]:
    """Candidates by kind; a kind whose mechanism refuses this ε is left out, unless all do."""
    found, refusals = {}, []
    for kind in kinds:
        try:
            found[kind] = build(kind)
        except PrivotError as refusal:
            refusals.append(refusal)
    if not found:
        raise refusals[0]
    return found


def _categorical(kind: str, k: int, epsilon: float) -> _Candidate:
    code = math.ceil(math.log2(max(k, 2)))
    if kind == "randomized_response":
        response = RandomizedResponse(k, epsilon)
        own, other = response.probabilities
        return _Candidate(response, _subset_information(k, 1, own, (k - 1) * other), code)
    if kind == "subset_selection":
        subset = SubsetSelection(k, epsilon)
        size, (inside, outside) = subset.subset_size, subset.words
        information = _subset_information(k, size, inside / 2**64, outside / 2**64)
        return _Candidate(subset, information, size * code)
    unary = UnaryEncoding(k, epsilon)
    return _Candidate(unary, _unary_information(k, *unary.probabilities), k)


def _numeric(kind: str, domain: Domain, epsilon: float) -> _Candidate:
    if kind == "laplace":
        laplace = Laplace.calibrate(domain, epsilon)
        return _Candidate(laplace, _laplace_information(laplace.scale), _NUMBER_BITS)
    wave = SquareWave(epsilon)
    return _Candidate(wave, _square_wave_information(wave), _NUMBER_BITS)


def _subset_information(k: int, size: int, own: float, rest: float) -> float:
    """Bits told by `size` of k categories, the true one among them with probability `own`."""
    return own * math.log2(k * own / size) + rest * math.log2(k * rest / (k - size))


def _unary_information(k: int, own: float, other: float) -> float:
    """Bits told by k bits; of the binomial, all but 40 standard deviations."""
    ratios = (1 - own) / (1 - other), own / other
    mean, spread = (k - 1) * other, math.sqrt((k - 1) * other * (1 - other))
    first = max(0, math.floor(mean - 40 * spread) - 60)
    count = np.arange(first, min(k - 1, math.ceil(mean + 40 * spread) + 60) + 1.0)
    choices = gammaln(k) - gammaln(count + 1) - gammaln(k - count)
    pmf = np.exp(choices + count * math.log(other) + (k - 1 - count) * math.log1p(-other))
    pmf /= pmf.sum()
    total = 0.0
    for bit, probability in ((0, 1 - own), (1, own)):
        set_bits = count + bit
        mixture = (set_bits * ratios[1] + (k - set_bits) * ratios[0]) / k
        total += probability * (math.log2(ratios[bit]) - float(pmf @ np.log2(mixture)))
    return total


def _square_wave_information(wave: SquareWave) -> float:
    """Bits told about one of the STEPS + 1 grid points."""
    half = round(wave.half_width * STEPS / 2)
    inside, outside = wave.probabilities
    reports = np.arange(-half, STEPS + half + 1)
    near = np.minimum(reports + half, STEPS) - np.maximum(reports - half, 0) + 1
    marginal = outside + (inside - outside) * near / (STEPS + 1)
    cells = 2 * half + 1
    conditional = -cells * inside * math.log2(inside) - STEPS * outside * math.log2(outside)
    return _entropy(marginal) - conditional


def _laplace_information(scale: float) -> float:
    """Bits told about a uniform number of [−1, 1], by the midpoint rule inside.

    The density has boundary layers of width `scale`: midpoints are spread evenly in $θ$ of $y =
    \\sin θ$, which are dense at both ends.
    """
    step = math.pi / _NODES
    angle = (np.arange(_NODES) + 0.5) * step - math.pi / 2
    gap = 2 * np.sin((math.pi / 2 - angle) / 2) ** 2  # 1 − sin θ, without its cancellation
    density = 0.5 - 0.25 * (np.exp(-gap / scale) + np.exp(-gap[::-1] / scale))
    inside = -float((density * np.log2(density) * np.cos(angle)).sum()) * step
    edge = -math.expm1(-2 / scale) / 4
    outside = 2 * edge * scale * (1 / math.log(2) - math.log2(edge))
    return inside + outside - 1 / math.log(2) - math.log2(2 * scale)


def _entropy(probabilities: Array) -> float:
    return -float((probabilities * np.log2(probabilities)).sum())
