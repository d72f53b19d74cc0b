r"""Verdicts on claims by votes, and the votes: by judges of images, by seeds, by exponents.

| verdict | when |
|---|---|
| confirmed | no vote says no, and more than half say yes |
| contradicted | no vote says yes, and more than half say no |
| not tested | nothing votes |
| undecided | else, and where the fits were shorter than `LONG` steps |

**Exponents.** Of points $(x_i, y_i)$ with deviations $s_i$ over seeds the power law nearest in
logarithms has the exponent $b = \sum_i c_i \log y_i$, where $c_i = (\log x_i - m) /
\sum_j (\log x_j - m)^2$ and m is the mean of $\log x_j$. If points err independently, b has
the deviation $(\sum_i c_i^2 s_i^2 / y_i^2)^{1/2}$.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from studies.common.pages import table
from studies.common.rows import Row

CONFIRMED, CONTRADICTED, UNDECIDED = "confirmed", "contradicted", "undecided"
NOT_TESTED = "not tested"
LONG = 4000
# Judges of images, and which way is better.
JUDGES = {"frechet": -1, "frechet_second": -1, "frechet_pixels": -1, "coverage": 1, "w2": -1}

Votes = list[bool | None]


@dataclass(frozen=True)
class Claim:
    """A quotation, where it stands, what was found, and how the numbers vote.

    Arguments:
        quote: The papers' words.
        place: Year, section, figure.
        found: What the rows say.
        votes: One a judge, seed and setting; None where what was measured does not tell. Empty where
            nothing was measured: then `found` says why.
        steps: Of the shortest fit that the claim is about; None if it is about no fit.
    """

    quote: str
    place: str
    found: str
    votes: Votes
    steps: int | None = None

    @property
    def verdict(self) -> str:
        """One word."""
        if self.steps is not None and self.steps < LONG:
            return UNDECIDED
        if not self.votes:
            return NOT_TESTED
        told = {vote for vote in self.votes if vote is not None}
        if len(told) != 1 or 2 * self.votes.count(None) >= len(self.votes):
            return UNDECIDED
        return CONFIRMED if told.pop() else CONTRADICTED


def of_all_seeds(claims: Sequence[Claim]) -> list[Claim]:
    """Claims with one quotation and place as one: what was found, least to largest, and all votes.

    Examples:
        >>> of_all_seeds([Claim("q", "p", "W₂ 1.5", [True], 9), Claim("q", "p", "W₂ 1.2", [True], 8)])
        [Claim(quote='q', place='p', found='W₂ 1.2–1.5', votes=[True, True], steps=8)]
    """
    kinds: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        kinds.setdefault((claim.quote, claim.place), []).append(claim)
    merged = []
    for (quote, place), found in kinds.items():
        steps = [claim.steps for claim in found if claim.steps is not None]
        votes = [vote for claim in found for vote in claim.votes]
        words = _as_one([claim.found for claim in found])
        merged.append(Claim(quote, place, words, votes, min(steps, default=None)))
    return merged


def _as_one(sentences: Sequence[str]) -> str:
    """Sentences that differ in their numbers as one, each number from the least to the largest."""
    kinds: dict[tuple[str, ...], list[list[str]]] = {}
    for sentence in sentences:
        parts = re.split(r"((?<!\d)-?\d[\d,.]*(?<=\d))", sentence)
        kinds.setdefault(tuple(parts[::2]), []).append(parts[1::2])
    merged = []
    for texts, numbers in kinds.items():
        spans = [_span(each) for each in zip(*numbers, strict=True)]
        merged.append(
            texts[0] + "".join(span + text for span, text in zip(spans, texts[1:], strict=True))
        )
    return "; ".join(merged)


def _span(numbers: Sequence[str]) -> str:
    def value(number: str) -> float:
        return float(number.replace(",", ""))

    low, high = min(numbers, key=value), max(numbers, key=value)
    return low if low == high else f"{low} to {high}" if low.startswith("-") else f"{low}–{high}"


def claims_table(claims: Sequence[Claim]) -> str:
    """How many hold, and each beside what was found."""
    rows = [
        (f"“{claim.quote}”", claim.place, claim.found + _why(claim), f"**{claim.verdict}**")
        for claim in claims
    ]
    return f"{counted(claims)}\n\n" + table(("claim", "where", "found here", "verdict"), rows)


def counted(claims: Sequence[Claim]) -> str:
    """How many sentences hold in every setting in which they are judged, and how many verdicts say so.

    A sentence is a quotation: judged in three settings it has three verdicts.

    Examples:
        >>> votes = {"a": (True, False), "b": (False, False)}
        >>> print(counted([Claim(q, "p", "", [vote]) for q in votes for vote in votes[q]]))
        2 sentences: 1 contradicted in every setting; 1 confirmed in some, contradicted in others.
        Of all 4 verdicts 1 says confirmed, 3 contradicted (of 2 sentences).
    """
    verdicts: dict[str, list[str]] = {}
    for claim in claims:
        verdicts.setdefault(claim.quote, []).append(claim.verdict)
    order = (CONFIRMED, CONTRADICTED, UNDECIDED, NOT_TESTED)
    kinds = Counter(tuple(n for n in order if n in found) for found in verdicts.values())
    alone = ", ".join(f"{kinds[n,]} {n}" for n in order if kinds[n,])
    parts = [f"{alone} in every setting"] if alone else []
    parts += [
        f"{number} {names[0]} in some, {' or '.join(names[1:])} in others"
        for names, number in sorted(kinds.items(), key=lambda kind: order.index(kind[0][0]))
        if len(names) > 1
    ]
    every = Counter(claim.verdict for claim in claims)
    against = sum(CONTRADICTED in found for found in verdicts.values())
    notes = {CONTRADICTED: f" (of {against} sentence{'s' * (against != 1)})"}
    told = [f"{every[name]} {name}{notes.get(name, '')}" for name in order if every[name]]
    first, _, rest = told[0].partition(" ")
    says = "says" if first == "1" else "say"
    return (
        f"{len(verdicts)} sentence{'s' * (len(verdicts) != 1)}: {'; '.join(parts)}.\n"
        f"Of all {len(claims)} verdicts {', '.join([f'{first} {says} {rest}', *told[1:]])}."
    )


def told_by_seeds(seeds: Sequence[Sequence[Claim]]) -> str:
    """How many claims have another verdict by one seed than by another.

    Examples:
        >>> yes, no = (Claim("q", "p", "", [vote]) for vote in (True, False))
        >>> told_by_seeds([[yes], [no], []])
        'Of 1 claims 1 have another verdict from one seed alone: “q” (p): confirmed, contradicted.'
    """
    verdicts: dict[tuple[str, str], list[str]] = {}
    for claims in seeds:
        for claim in claims:
            verdicts.setdefault((claim.quote, claim.place), []).append(claim.verdict)
    several = sum(len(found) > 1 for found in verdicts.values())
    changed = [
        f"“{quote}” ({place}): {', '.join(found)}"
        for (quote, place), found in verdicts.items()
        if len(set(found)) > 1
    ]
    return (
        f"Of {several} claims {len(changed)} have another verdict from one seed alone"
        f"{': ' if changed else ''}{'; '.join(changed)}."
    )


def others_table(claims: Sequence[Claim], others: Sequence[Claim]) -> str:
    """Verdicts of other fits beside those of the same claims, and how many changed.

    Claims that are about no fit, or about one that is no longer, are left out.

    Examples:
        >>> first, second = (Claim("q", "p", "", [True], steps) for steps in (4000, 8000))
        >>> others_table([first], [second]).splitlines()[0]
        '0 of 1 verdicts changed.'
    """
    known = {(claim.quote, claim.place): claim for claim in claims}
    both = [(known[claim.quote, claim.place], claim) for claim in others]
    pairs = [(first, second) for first, second in both if (second.steps or 0) > (first.steps or 0)]
    changed = sum(first.verdict != second.verdict for first, second in pairs)
    rows = [
        (
            f"“{second.quote}”",
            second.place,
            *(f"{each.verdict} ({each.steps:,})" for each in (first, second)),
        )
        for first, second in pairs
    ]
    return f"{changed} of {len(pairs)} verdicts changed.\n\n" + table(
        ("claim", "where", "verdict (steps)", "of these fits"), rows
    )


def _why(claim: Claim) -> str:
    if claim.steps is not None and claim.steps < LONG:
        return f" (fits of {claim.steps:,} steps decide nothing)"
    if len(set(claim.votes)) > 1:
        neither = f", {none} for neither" if (none := claim.votes.count(None)) else ""
        return f" ({claim.votes.count(True)} of {len(claim.votes)} votes for it{neither})"
    return ""


def known(scores: Row) -> list[str]:
    """The judges whose numbers a row has."""
    return [name for name in JUDGES if name in scores]


def better(first: Row, second: Row, name: str, share: float = 0.05) -> bool | None:
    """Whether one is better by a judge; None where they are as near as chance may bring them.

    That is within a share of the larger, or within two standard deviations over seeds (`name_std`, where
    there are several) of their difference.

    Examples:
        >>> near, far = ({"w2": w2, "w2_std": 0.1} for w2 in (9.8, 9.6))
        >>> [better(each, {"w2": 10.0, "w2_std": 0.1}, "w2", 0) for each in (near, far)]
        [None, True]
        >>> better({"coverage": 0.10}, {"coverage": 0.12}, "coverage")
        False
    """
    x, y = first[name], second[name]
    chance = 2 * math.hypot(*(each.get(f"{name}_std", 0.0) for each in (first, second)))
    if abs(x - y) <= max(share * max(abs(x), abs(y)), chance):
        return None
    return bool((x > y) == (JUDGES.get(name, -1) > 0))


def compare(first: Row, second: Row) -> Votes:
    """A vote a judge, whether one is better."""
    return [better(first, second, name) for name in known(first)]


def ahead(differences: Sequence[float]) -> bool | None:
    """Whether differences, one a seed, are positive; None within two of their standard deviations.

    Examples:
        >>> ahead([1.0, 1.2, 1.1]), ahead([-1.0, -1.2, -1.1]), ahead([1.0, -1.0, 0.5]), ahead([2.0])
        (True, False, None, None)
    """
    if len(differences) < 2:
        return None
    mean, chance = statistics.fmean(differences), 2 * statistics.stdev(differences)
    return None if abs(mean) <= chance else mean > 0


class Estimate(NamedTuple):
    """A number, and two of its standard deviations over seeds."""

    value: float
    chance: float

    @classmethod
    def exponent(cls, points: Sequence[Row], across: str, quantity: str) -> Estimate:
        """The power of `across` that `quantity` is, whose deviations are `quantity_std`.

        Examples:
            >>> points = [{"n": n, "y": n**-0.5, "y_std": 0.1 * n**-0.5} for n in (1, 10, 100)]
            >>> str(Estimate.exponent(points, "n", "y"))
            '-0.50 ± 0.06'
        """
        x = [math.log(point[across]) for point in points]
        mean = statistics.fmean(x)
        weights = [(each - mean) / sum((other - mean) ** 2 for other in x) for each in x]
        value = sum(w * math.log(p[quantity]) for w, p in zip(weights, points, strict=True))
        errors = (p.get(f"{quantity}_std", 0.0) / p[quantity] for p in points)
        chance = 2 * math.hypot(*(w * e for w, e in zip(weights, errors, strict=True)))
        return cls(value, chance)

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.chance:.2f}"

    def near(self, value: float) -> bool | None:
        """Whether it is that value, within its chance; None if its chance exceeds a tenth.

        Examples:
            >>> [Estimate(-0.48, c).near(-0.5) for c in (0.01, 0.03, 0.2)]
            [False, True, None]
        """
        if abs(self.value - value) > self.chance:
            return False
        return True if self.chance < 0.1 else None

    def at_most(self, value: float) -> bool | None:
        """Whether it is at most that value; None within its chance.

        Examples:
            >>> [Estimate(b, 0.1).at_most(-0.5) for b in (-0.8, -0.5, -0.3)]
            [True, None, False]
        """
        if abs(self.value - value) <= self.chance:
            return None
        return self.value < value


def told(found: dict[str, Any], names: Iterable[str]) -> str:
    """Fréchet distance, coverage and W₂ of each."""
    shown = [
        f"{found[n]['frechet']:.0f} / {found[n]['coverage']:.2f} / {found[n]['w2']:.1f} "
        f"({n.replace('_', ' ')})"
        for n in names
    ]
    return f"Fréchet / coverage / W₂: {', '.join(shown)}"


def extent(values: list[float], digits: str) -> str:
    """The least and the largest, or the one value that both print as."""
    low, high = f"{min(values):{digits}}", f"{max(values):{digits}}"
    return low if low == high else f"{low} to {high}"
