r"""The exact law of a program: how far apart reports of two records can be, as rational numbers.

A device draws by comparing uniform integers with those of the program, so that every report has a
probability that is a fraction. Here the largest likelihood ratio $R = \max_{x, x′, y} P(y | x) / P(y |
x′)$ of each draw is bounded in closed form, from the program's integers alone, by none of the code
that chose them; and $R ≤ e^ε$ is decided by a rational number below $e^ε$
(`privot.device.exact`). Below, $W = 2^{64}$; a program has passed `privot.device.checks`, so
that all codes are below the numbers of codes.

**response** of k values, s = `slot`. The words W divided by s have the quotients 0 … k − 2 in s cases
each, which are the other values, and larger ones in the $W − (k−1)s$ cases left, which keep the code.
So $P(y|x)$ is $(W − (k−1)s)/W$ for y = x and $s/W$ else, and R the larger of their ratio and its
inverse.

**subset** of w of K cells, L = `out`. Given that the true cell v is left out (L/W) the set is a
uniform one of $\binom{K−1}{w}$; given that it is in, a uniform member has been replaced, so that the
others are a uniform one of $\binom{K−1}{w−1}$. Since $\binom{K−1}{w} / \binom{K−1}{w−1} = (K−w)/w$,
two records, one of which is in a set, have the ratio $\frac{W−L}{L} \frac{K−w}{w}$ or its inverse
there.

**window** of m of n cells, L = `anywhere`. A report is any of n cells with probability $L/(Wn)$ each,
and a cell of the record's window with $(1 − L/W)/m$ more. If all windows have m cells among the n, the
ratio at a cell that one of two windows holds is $1 + \frac{W−L}{L} \frac nm$, else 1. A missing value
is a window of m cells that are written alike: $P(\text{missing})$ is $Lm/(Wn)$, and $1 − L/W$ more for
a missing record: the same ratio.
*Windows are whole:* a box has $0 ≤ x_i ≤ N$. In a ball, floats keep $‖u‖_2 ≤ 1 + η$, $η = (d+8)
2^{−53}$, and $u + 1$ to $2^{−52}$; N/2 is a power of two, so that $‖2x − N‖_2 ≤ N(1 + η) + \sqrt d (1
+ N 2^{−52}) < N + 2$ for d ≤ 3, N ≤ 2^16, and then $‖2(x + k) − N‖_2 ≤ N + 2 + 2r$. Where u ≥ 0, x ≥
N/2, and $x + k ≥ N/2 − r$.

**laplace** of ratio a/b: $P(k) ∝ e^{−|k| b/a}$, so $R = e^{D b/a}$, D being the largest ℓ1 distance of
two records' integers: $d · 2^{g+1}$ in a box. In a ball, $⌊2^g (1 + η) δ⌋ + d$ with $δ = 2\sqrt d$, or
$\sqrt{k} + \sqrt{d−k}$, $k = ⌊d/2⌋$, of its non-negative part, where two points are farthest on
disjoint coordinates.

*(η: for the length computed of $x/\max|x|$, every quotient, product, sum and root is within a factor
$1 ± 2^{−53}$, d + 4 of them under the root and 2 outside; what underflows is below $2^{−500}$ of the
sum.)*

**Together.** Blocks and reports of a record are drawn by words of their own, so that their ratios
multiply; which c of the split reports are sent, and which form in which view, are coins that do not
look at the record: the ratio is that of the worst c, and of the worst sheet. With the joint report's
it multiplies.

**Privacy review.** Adjacency: any two records. Reads a randomizer, which is public, and no record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from privot.core.errors import PrivotError
from privot.device.checks import WORDS, hexadecimal, read_sealed, require_program, sheet_cells
from privot.wire.payload import Program

# Rational bounds of $e^x$, from whole numbers alone.
#
# With $t = x/2^j ≤ 1$, in units of $2^{−p}$ and every step rounded down, $\sum_{i < n} t^i/i!$ is at
# most $e^t$; every step rounded up, and with twice the next term added (the rest is less, as each term
# is at most half of the one before it), it is at least $e^t$. Squared j times, rounded the same way,
# they enclose $e^x$.


_BITS, _TERMS = 320, 64
LARGEST = 2**16  # beyond, a lower bound is that of this number, and there is no upper one


def exp_below(x: Fraction) -> Fraction:
    """A rational number at most e^x, for x ≥ 0; within 2^−200 of it, relatively, for x ≤ 2^16.

    >>> exp_below(Fraction(0))
    Fraction(1, 1)
    >>> float(exp_below(Fraction(1)))
    2.718281828459045
    """
    halvings, unit = _halvings(min(x, Fraction(LARGEST)))
    total, term = 0, 1 << _BITS
    for i in range(1, _TERMS + 1):
        total += term
        term = term * unit.numerator // (unit.denominator * i)
    for _ in range(halvings):
        total = total * total >> _BITS
    return Fraction(total, 1 << _BITS)


def exp_above(x: Fraction) -> Fraction:
    """A rational number at least e^x, for 0 ≤ x ≤ 2^16."""
    halvings, unit = _halvings(x)
    total, term = 0, 1 << _BITS
    for i in range(1, _TERMS + 1):
        total += term
        term = -(-term * unit.numerator // (unit.denominator * i))
    total += 2 * term if x else 0
    for _ in range(halvings):
        total = -(-total * total >> _BITS)
    return Fraction(total, 1 << _BITS)


def _halvings(x: Fraction) -> tuple[int, Fraction]:
    halvings = 0
    while x > 1 << halvings:
        halvings += 1
    return halvings, x / (1 << halvings)


_ROOT_BITS = 128


class Ratio(NamedTuple):
    """The number $\\text{factor} · e^{\\text{exponent}}$, at least 1, exactly."""

    factor: Fraction = Fraction(1)
    exponent: Fraction = Fraction(0)

    def times(self, other: Ratio) -> Ratio:
        """The product."""
        return Ratio(self.factor * other.factor, self.exponent + other.exponent)

    def is_within(self, epsilon: float) -> bool:
        """Whether it is proved to be at most e^ε, of the rational number that a float ε is."""
        left = Fraction(epsilon) - self.exponent
        return left >= 0 and self.factor <= exp_below(left)

    @property
    def above(self) -> Fraction | None:
        """A rational number that is no less: itself without exponent; None beyond e^65536."""
        return self.factor * exp_above(self.exponent) if self.exponent <= LARGEST else None


@dataclass(frozen=True)
class Part:
    """The bound of one report of a record.

    Arguments:
        name: The column, or what all of a joint report is called.
        draw: How it is drawn.
        ratio: R.
        blocks: Draws of this kind that it is made of; `ratio` is of all together.
    """

    name: str
    draw: str
    ratio: Ratio
    blocks: int = 1


@dataclass(frozen=True)
class ExactLaw:
    """What a randomizer's integers imply, and what it states.

    Arguments:
        always: Parts of every report.
        split: Parts of which each report holds some.
        choose: How many.
        epsilon: What the randomizer states.
    """

    always: tuple[Part, ...]
    split: tuple[Part, ...]
    choose: int
    epsilon: float

    @cached_property
    def totals(self) -> list[Ratio]:
        """Bounds of whole reports: with the j largest of Laplace noise, for every j."""
        fixed = _product(part.ratio for part in self.always)
        noise = sorted((p.ratio for p in self.split if p.ratio.exponent), key=lambda r: -r.exponent)
        codes = sorted((p.ratio for p in self.split if not p.ratio.exponent), reverse=True)
        return [
            _product([fixed, *noise[:j], *codes[: self.choose - j]])
            for j in range(self.choose + 1)
            if j <= len(noise) and self.choose - j <= len(codes)
        ]

    @property
    def total(self) -> Ratio:
        """The largest of `totals`."""
        return max(self.totals, key=lambda ratio: ratio.above or Fraction(2) ** 100_000)

    @property
    def holds(self) -> bool:
        """Whether every report's likelihood ratio, of any two records, is proved to be at most e^ε."""
        return all(ratio.is_within(self.epsilon) for ratio in self.totals)


def check_randomizer(text: str) -> ExactLaw:
    """The exact law of a randomizer's JSON, beside what it states.

    Raises:
        PrivotError: if it was altered, if it holds no integers, or ones that no proof is for.

    Examples:
        >>> from privot import Randomizer, Schema
        >>> schema = Schema.from_dict({"columns": {"yes": {"kind": "boolean"}}})
        >>> law = check_randomizer(Randomizer.calibrate(schema, epsilon=1.0).to_json())
        >>> law.holds, float(law.total.factor)
        (True, 2.718281828459045)
    """
    _, fields = read_sealed(text)
    epsilon = stated_epsilon(fields)
    if fields.get("candidates"):
        raise PrivotError(_NO_INTEGERS.format("its candidates report publishes no integers"))
    if not fields.get("device"):
        kinds = _kinds(fields.get("mechanisms"))
        raise PrivotError(_NO_INTEGERS.format(f"{kinds or 'it'} publishes no integers"))
    return law_of(require_program(fields["device"]), epsilon)


_NO_INTEGERS = (
    "the exact law cannot be bounded: {}, so it is drawn by more than a program says; use `privot "
    "audit` without --exact, or calibrate with windows, joint reports, or Laplace noise on tables"
)


def _kinds(mechanisms: object) -> str:
    if not isinstance(mechanisms, Mapping):
        return ""
    kinds = {n: m.get("kind") for n, m in mechanisms.items() if isinstance(m, Mapping)}
    return ", ".join(f"column {name!r} ({kind})" for name, kind in kinds.items())


def stated_epsilon(fields: Mapping[str, Any]) -> float:
    """The ε that a randomizer states; refused where it states none that bounds a ratio."""
    guarantee = fields.get("guarantee")
    epsilon = guarantee.get("epsilon") if isinstance(guarantee, Mapping) else None
    if (
        not isinstance(epsilon, int | float)
        or isinstance(epsilon, bool)
        or not 0 <= epsilon < math.inf
    ):
        raise PrivotError(
            f"the randomizer states epsilon {epsilon!r:.40}, which is no promise: calibrate it again"
        )
    return float(epsilon)


def law_of(program: Program, epsilon: float) -> ExactLaw:
    """The exact law of a program that `require_program` has let pass."""
    joint, split = program["joint"], program["split"]
    always = (Part("joint report", "subset", _joint_ratio(joint)),) if joint else ()
    parts, choose = [], 0
    if split:
        choose = split["choose"]
        for each in split["reports"]:
            name, draw = each["column"], each["draw"]
            blocks = draw.get("blocks", 1) if draw["draw"] == "window" else 1
            ratio = worst_ratio(draw, program["columns"][name])
            parts.append(Part(name, draw["draw"], ratio, blocks))
    return ExactLaw(always, tuple(parts), choose, epsilon)


def worst_ratio(draw: Program, take: Program) -> Ratio:
    """The bound R of one split report, of a column whose values are taken like this."""
    kind = draw["draw"]
    if kind == "response":
        slot = hexadecimal("slot", draw["slot"], 1, WORDS)
        return _either(Fraction(WORDS - (draw["values"] - 1) * slot, slot))
    if kind == "subset":
        return _subset_ratio(draw["cells"], draw)
    if kind == "window":
        return Ratio(_window_ratio(draw) ** draw["blocks"])
    a, b = (hexadecimal("ratio", part, 1, 2**1100) for part in draw["ratio"])
    return Ratio(exponent=Fraction(_farthest(draw, take["domain"]) * b, a))


def _product(ratios: Any) -> Ratio:
    product = Ratio()
    for ratio in ratios:
        product = product.times(ratio)
    return product


def _either(odds: Fraction) -> Ratio:
    return Ratio(max(odds, 1 / odds))


def _subset_ratio(cells: int, law: Program) -> Ratio:
    size, out = law["size"], hexadecimal("out", law["out"], 1, WORDS - 1)
    return _either(Fraction((WORDS - out) * (cells - size), out * size))


def _joint_ratio(joint: Program) -> Ratio:
    cells = sheet_cells(joint["sizes"], joint["forms"], joint["views"])
    return max(_subset_ratio(n, joint["sets"][str(n)]) for n in cells)


def _window_ratio(draw: Program) -> Fraction:
    dimension, steps, radius = draw["dimension"], draw["steps"], draw["radius"]
    near = _count(dimension, radius**2, (0, -radius, radius), 1)
    low, high = (steps // 2 if draw["non_negative"] else 0) - radius, steps + radius
    if draw["area"] == "box":
        cells = (high - low + 1) ** dimension
    else:
        cells = _count(dimension, (steps + 2 + 2 * radius) ** 2, (steps, low, high), 2)
    cells += near if draw["nullable"] else 0
    anywhere = hexadecimal("anywhere", draw["anywhere"], 1, WORDS)
    return 1 + Fraction((WORDS - anywhere) * cells, anywhere * near)


def _count(dimension: int, square: int, place: tuple[int, int, int], times: int) -> int:
    """Integer points y with low ≤ yᵢ ≤ high and ‖times · y − center‖² ≤ square."""
    center, low, high = place
    if dimension == 1:
        reach = math.isqrt(square)
        first, last = -((reach - center) // times), (center + reach) // times
        return max(0, min(high, last) - max(low, first) + 1)
    rests = (square - (times * y - center) ** 2 for y in range(low, high + 1))
    return sum(_count(dimension - 1, rest, place, times) for rest in rests if rest >= 0)


def _farthest(draw: Program, domain: Program) -> int:
    """D: the largest ℓ1 distance of the integers of two records."""
    d, unit = draw["dimension"], 2 ** draw["grid_bits"]
    if domain["area"] == "box":
        return int(2 * d * unit)
    half = d // 2
    across = (
        _root_above(half) + _root_above(d - half) if domain["non_negative"] else 2 * _root_above(d)
    )
    return math.floor(unit * across * (1 + Fraction(d + 8, 2**53))) + int(d)


def _root_above(number: int) -> Fraction:
    """A rational number at least √number, which it is of squares."""
    scaled = number << 2 * _ROOT_BITS
    root = math.isqrt(scaled)
    return Fraction(root + (root * root < scaled), 1 << _ROOT_BITS)
