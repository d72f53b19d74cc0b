r"""Draws of devices: randomized answers to one column's value, by integer arithmetic alone.

A **word** is a uniform 64-bit integer. A device takes words from its operating system, a conformance
test from a list. Draws use the words in a fixed order, so that implementations can be compared. A
randomizer's JSON contains a **program** with the integers by which each column's **answer**, a list of
random integers, is drawn. Each kind of draw is a class (`Draw`) that has these integers and defines how
it draws, the bytes of its answers (`privot.wire.report`), which integers its proof covers, and the
largest likelihood ratio $R = \max_{x, x′, y} P(y | x) / P(y | x′)$ that the integers imply. R is
computed in closed form, independently of the code that chose the integers. Below, $W = 2^{64}$.

**Privacy review.** Adjacency: any two records. Which words are taken does not depend on the record:
response takes one word; a subset's other cells, place and word are drawn whether the true cell is
included or not; a window's cell and word are drawn whether the cell is near or not; noise is drawn
independently of the record. The time is not exactly constant: finding a value in a list, or adding to a
cell, may take slightly longer for some records. Only the person's own device can observe this; the
report contains the hour alone. `Draw.check` and `Draw.worst_ratio` read programs, which are public.
"""

import math
import os
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar

from privot.core.errors import PrivotError, register_kind
from privot.wire.report import CellSet, Layout, Numbers, SignedIntegers
from privot.wire.windows import WindowGeometry

WORDS = 2**64  # number W of words
MAX_CELLS, MAX_VALUES = 2**24, 2**31  # of subset selection; of randomized response
_MAX_WINDOW_CELLS, _MAX_STEPS, _MAX_RADIUS = 2**26, 2**16, 2**18  # of a grid of windows
WORD_PRIME, WORD_FACTOR, WORD_BUCKETS, WORD_CELLS = 2**31 - 1, 48271, 65521, 512  # of hashes
_ROOT_BITS = 128  # binary digits of a square root after the point
_HEXADECIMAL = re.compile(r"[0-9a-f]{1,400}")

NextWord = Callable[[], int]
Program = Mapping[str, Any]


def system_word() -> int:
    """Return one word of the operating system's generator, which is safe after forks."""
    return int.from_bytes(os.urandom(8), "little")


def draw_below(bound: int, word: NextWord) -> int:
    """Draw a uniform integer 0 … bound−1; reject words from the largest multiple of `bound` on."""
    limit = WORDS - WORDS % bound
    drawn = word()
    while drawn >= limit:
        drawn = word()
    return drawn % bound


def draw_subset(total: int, chosen: int, word: NextWord) -> list[int]:
    """Draw a uniform sorted subset of 0 … total−1: the indices of the smallest of `total` words."""
    if chosen == total:
        return list(range(total))  # no word is taken
    words = [word() for _ in range(total)]
    return sorted(sorted(range(total), key=lambda index: words[index])[:chosen])


def draw_weighted(weights: list[int], word: NextWord) -> int:
    """Draw an index with probability proportional to its weight."""
    ends = list(accumulate(weights))
    return bisect_right(ends, draw_below(ends[-1], word))


# Checks of a program's fields: a program is refused unless a proof covers it.


def require(holds: bool, where: str, value: object, requirement: str) -> None:
    """Raise PrivotError unless a condition holds, naming the field, its value and the requirement."""
    if not holds:
        raise PrivotError(
            f"the randomizer's program has {where} {value!r:.60}, which must be {requirement}: nothing "
            "is drawn by it, calibrate it again"
        )


def require_list(where: str, value: object, least: int = 1) -> list[Any]:
    """Return a field that is a list of at least `least` items."""
    fits = isinstance(value, list) and len(value) >= least
    require(fits, where, value, f"a list of {least} or more")
    return value  # type: ignore[return-value]  # it is a list, or refused


def require_whole(where: str, value: object, least: int, most: int) -> int:
    """Return a field that is a whole number from `least` to `most`."""
    requirement = f"a whole number from {least} to {most}"
    require(type(value) is int and least <= value <= most, where, value, requirement)
    return value  # type: ignore[return-value]  # it is an int, or refused


def require_hexadecimal(where: str, text: object, least: int, most: int) -> int:
    """Return the number, from `least` to `most`, of a field in lower-case hexadecimal digits."""
    is_hexadecimal = isinstance(text, str) and _HEXADECIMAL.fullmatch(text)
    number = int(str(text), 16) if is_hexadecimal else least - 1
    requirement = f"hexadecimal digits of a number from {least} to {most:x} (hexadecimal)"
    require(least <= number <= most, where, text, requirement)
    return number


class Draw(ABC):
    """Base of the kinds of draws: frozen dataclasses of a program's integers.

    A subclass registers its kind, as in `class Response(Draw, kind="response")`; programs name it in
    the field `draw`. The value to report is a list of a column's codes, one for each coding, or the
    unit coordinates of a point, None if missing.

    >>> from privot.wire.draws import Draw
    >>> draw = Draw.from_dict({"draw": "response", "values": 3, "slot": "2000000000000000"})
    >>> draw.layout.pack(draw.draw([2], word=lambda: 2**63)).hex(), draw.num_bytes
    ('02', 1)
    """

    kinds: ClassVar[dict[str, "type[Draw]"]] = {}
    kind: ClassVar[str]
    takes_codes: ClassVar[bool] = True  # whether values are codes of one coding, not points
    in_hexadecimal: ClassVar[tuple[str, ...]] = ()  # fields of large integers

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            cls.kind = kind
            register_kind(Draw.kinds, kind, cls, "draw")

    @staticmethod
    def from_dict(program: Program) -> "Draw":
        """Return the draw of the fields of a checked program."""
        kind = Draw.kinds[program["draw"]]
        values = {}
        for field in fields(kind):  # type: ignore[arg-type]
            value = program[field.name]
            values[field.name] = _integers(value) if field.name in kind.in_hexadecimal else value
        return kind(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of a program."""
        values: dict[str, Any] = {"draw": self.kind}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            values[field.name] = _digits(value) if field.name in self.in_hexadecimal else value
        return values

    @staticmethod
    def checked(where: str, program: Program, encoding: Program, codes: list[int]) -> "Draw":
        """Return the draw of the fields of a program that may be untrusted.

        Arguments:
            where: Name of the column in errors.
            program: Fields of the draw.
            encoding: Fields that state how the column's values become codes or points.
            codes: Number of codes of the column in each of its codings; empty for points.

        Raises:
            PrivotError: if no proof covers its integers.
        """
        name = program.get("draw")
        kind = Draw.kinds.get(str(name))
        require(kind is not None, f"{where}, draw", name, f"one of {', '.join(Draw.kinds)}")
        assert kind is not None
        fits = len(codes) == 1 if kind.takes_codes else not codes
        taken = "codes of one coding" if kind.takes_codes else "points"
        require(fits, f"{where}, draw", name, f"another kind (this one takes {taken})")
        kind.check(where, program, encoding, codes[0] if codes else 0)
        return Draw.from_dict(program)

    @classmethod
    @abstractmethod
    def check(cls, where: str, program: Program, encoding: Program, codes: int) -> None:
        """Raise PrivotError unless the proof covers the fields, for every code below `codes`."""

    @abstractmethod
    def worst_ratio(self, domain: Program | None) -> tuple[Fraction, Fraction]:
        """Return (factor, exponent) of a bound factor · e^exponent of R, the largest likelihood ratio.

        The factor is 1 or the exponent 0. `domain` is the domain of points; None for codes.
        """

    @abstractmethod
    def draw(self, value: Any, word: NextWord) -> list[int]:
        """Draw the integers of an answer to a value."""

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """Layout of answers as bytes."""

    @property
    def num_bytes(self) -> int:
        """Width of every answer in bytes."""
        return self.layout.num_bytes


def _integers(digits: Any) -> Any:
    return int(digits, 16) if isinstance(digits, str) else tuple(int(part, 16) for part in digits)


def _digits(number: Any) -> Any:
    return f"{number:x}" if isinstance(number, int) else [f"{part:x}" for part in number]


def _ratio_or_inverse(ratio: Fraction) -> tuple[Fraction, Fraction]:
    """Return the larger of a ratio and its inverse, as (factor, exponent)."""
    return max(ratio, 1 / ratio), Fraction(0)


@dataclass(frozen=True)
class Response(Draw, kind="response"):
    """Randomized response: the true code, or another (`privot.mechanisms.RandomizedResponse`).

    If the quotient of a word by s, rounded down, is below k − 1, it is the index of one of the k − 1
    other codes: s words lead to each of them. The other $W − (k−1)s$ words report the true code. So
    $P(y|x)$ is $(W − (k−1)s)/W$ for y = x and $s/W$ otherwise, and R is the larger of the ratio of the
    two and its inverse.

    Arguments:
        values: Number k of codes.
        slot: Number s of words that lead to each other code.
    """

    values: int
    slot: int
    in_hexadecimal = ("slot",)

    @classmethod
    def check(cls, where: str, program: Program, encoding: Program, codes: int) -> None:
        count = require_whole(f"{where}, values", program.get("values"), max(2, codes), MAX_VALUES)
        require_hexadecimal(f"{where}, slot", program.get("slot"), 1, (WORDS - 1) // (count - 1))

    def worst_ratio(self, domain: Program | None) -> tuple[Fraction, Fraction]:
        return _ratio_or_inverse(Fraction(WORDS - (self.values - 1) * self.slot, self.slot))

    @cached_property
    def layout(self) -> Layout:
        return Numbers(self.values)

    def draw(self, value: list[int], word: NextWord) -> list[int]:
        code, other = value[0], word() // self.slot
        return [code if other >= self.values - 1 else other + (other >= code)]


@dataclass(frozen=True)
class Subset(Draw, kind="subset"):
    r"""Subset selection: a set of cells (`privot.mechanisms.SubsetSelection`), by Floyd's algorithm.

    If the true cell is left out, with probability L/W, the set is uniform among $\binom{K−1}{w}$ sets.
    If it is included, it replaces a uniform member, so that the other members are uniform among
    $\binom{K−1}{w−1}$ sets. Since $\binom{K−1}{w} / \binom{K−1}{w−1} = (K−w)/w$, a set that contains
    one of two records' cells has the likelihood ratio $\frac{W−L}{L} \frac{K−w}{w}$ or its inverse.

    Arguments:
        cells: Number K of cells.
        size: Number w of cells in a set.
        out: Number L of words that leave the true cell out.

    References:
        Bentley, Floyd, *A sample of brilliance* (1987).
    """

    cells: int
    size: int
    out: int
    in_hexadecimal = ("out",)

    @classmethod
    def check(cls, where: str, program: Program, encoding: Program, codes: int) -> None:
        cells = require_whole(f"{where}, cells", program.get("cells"), max(2, codes), MAX_CELLS)
        require_whole(f"{where}, size", program.get("size"), 1, cells - 1)
        require_hexadecimal(f"{where}, out", program.get("out"), 1, WORDS - 1)

    def worst_ratio(self, domain: Program | None) -> tuple[Fraction, Fraction]:
        inside, outside = (WORDS - self.out) * (self.cells - self.size), self.out * self.size
        return _ratio_or_inverse(Fraction(inside, outside))

    @cached_property
    def layout(self) -> Layout:
        return CellSet(self.cells, self.size)

    def draw(self, value: list[int], word: NextWord) -> list[int]:
        cell, others = value[0], self.cells - 1
        chosen: set[int] = set()
        for last in range(others - self.size, others):
            candidate = draw_below(last + 1, word)
            chosen.add(last if candidate in chosen else candidate)
        drawn = sorted([other + (other >= cell) for other in chosen])
        place = draw_below(self.size, word)
        if word() >= self.out:
            drawn[place] = cell
        return sorted(drawn)


@dataclass(frozen=True)
class Window(Draw, kind="window"):
    r"""Window reports: a cell near a block of coordinates, or any cell (`privot.mechanisms.Window`).

    Each of the n report cells has probability $L/(Wn)$, and each of the m cells of the record's window
    an additional $(1 − L/W)/m$. If every window has m cells among the n, the likelihood ratio of a cell
    that is in one of two windows is $1 + \frac{W−L}{L} \frac nm$, and otherwise 1. A missing value has a
    window of m additional cells, which are written as one symbol: its probability is $Lm/(Wn)$, and
    $1 − L/W$ more for a missing record, so the ratio is the same. Blocks are drawn independently, so
    their ratios multiply.

    *Every window has m report cells:* a record has unit coordinates u, and the cell x is
    $(u + 1) N/2$, rounded. Its window has the cells $x + k$ with $‖k‖_2 ≤ r$. In a box,
    $0 ≤ x_i ≤ N$, and report cells y have $−r ≤ y_i ≤ N + r$. In a ball, report cells have
    $‖2y − N‖_2 ≤ N + 2 + 2r$, and $y_i ≥ N/2 − r$ in its non-negative part. Floating point ensures
    $‖u‖_2 ≤ 1 + η$ with $η = (d+8) 2^{−53}$, and rounds $u + 1$ by at most $2^{−52}$. As N/2 is a power
    of two, $‖2x − N‖_2 ≤ N(1 + η) + \sqrt d (1 + N 2^{−52}) < N + 2$ for d ≤ 3 and N ≤ 2^16, hence
    $‖2(x + k) − N‖_2 ≤ N + 2 + 2r$. Where u ≥ 0, x ≥ N/2, hence $x + k ≥ N/2 − r$.

    *η:* in the computation of the length of $x/\max|x|$, every quotient, product, sum and root is within
    a factor $1 ± 2^{−53}$. There are d + 4 of them under the root and 2 outside. Terms that underflow
    are below $2^{−500}$ of the sum.

    Arguments:
        dimension: Number d of coordinates of a block.
        steps: Number N of steps of the grid along [−1, 1].
        radius: Radius r of windows, in steps.
        area: Set of the blocks, `"box"` or `"l2_ball"`.
        non_negative: Whether no coordinate is negative.
        nullable: Whether values may be missing.
        anywhere: Number L of words that lead to any cell.
        blocks: Number of blocks.
    """

    dimension: int
    steps: int
    radius: int
    area: str
    non_negative: bool
    nullable: bool
    anywhere: int
    blocks: int
    takes_codes = False
    in_hexadecimal = ("anywhere",)

    @classmethod
    def check(cls, where: str, program: Program, encoding: Program, codes: int) -> None:
        domain, columns, get = encoding["domain"], len(encoding["columns"]), program.get
        dimension = require_whole(f"{where}, dimension", get("dimension"), 1, min(3, columns))
        blocks = require_whole(f"{where}, blocks", get("blocks"), 1, 2**16)
        require(blocks * dimension == columns, f"{where}, blocks", blocks, "all coordinates")
        steps = require_whole(f"{where}, steps", get("steps"), 2, _MAX_STEPS)
        require(steps & (steps - 1) == 0, f"{where}, steps", steps, "a power of two")
        radius = require_whole(f"{where}, radius", get("radius"), 0, _MAX_RADIUS)
        has_few_cells = (steps + 2 * radius + 1) ** dimension <= _MAX_WINDOW_CELLS
        require(has_few_cells, f"{where}, radius", radius, "less: too many cells")
        require(get("area") == domain["area"], f"{where}, area", get("area"), "its domain's")
        same = get("non_negative") is domain.get("non_negative", False)
        require(same, f"{where}, non_negative", get("non_negative"), "its domain's")
        nullable = get("nullable")
        fits = nullable is encoding["nullable"] and not (nullable and blocks > 1)
        require(fits, f"{where}, nullable", nullable, "its column's, and false in several blocks")
        require_hexadecimal(f"{where}, anywhere", get("anywhere"), 1, WORDS)

    @cached_property
    def geometry(self) -> WindowGeometry:
        """Cells of windows and of reports."""
        low = self.steps // 2 if self.non_negative else 0
        return WindowGeometry(self.dimension, self.steps, self.radius, self.area, low)

    @cached_property
    def _total(self) -> int:
        """Number n of report cells, those of a missing value included."""
        return self.geometry.num_report_cells + (self.geometry.window_size if self.nullable else 0)

    def worst_ratio(self, domain: Program | None) -> tuple[Fraction, Fraction]:
        near = (WORDS - self.anywhere) * self._total
        ratio = 1 + Fraction(near, self.anywhere * self.geometry.window_size)
        return ratio**self.blocks, Fraction(0)

    @cached_property
    def layout(self) -> Layout:
        """Layout of the numbers of the blocks' cells; a missing value has the next larger number."""
        return Numbers(self.geometry.number_limit + self.nullable, self.blocks)

    def draw(self, value: list[float] | None, word: NextWord) -> list[int]:
        if value is None:
            return [self.draw_cell(None, word)]
        cell, d = [round((u + 1) * (self.steps / 2)) for u in value], self.dimension
        return [self.draw_cell(cell[at : at + d], word) for at in range(0, len(cell), d)]

    def draw_cell(self, cell: list[int] | None, word: NextWord) -> int:
        """Draw the number of a reported cell; None is a missing record."""
        geometry, total, window_size = self.geometry, self._total, self.geometry.window_size
        missing = geometry.number_limit
        # `drawn` is uniform modulo `total` and modulo `window_size`; only one of the two is used.
        drawn = draw_below(window_size * total, word)
        if word() < self.anywhere:
            index = drawn % total
            return geometry.report_cell(index) if index < geometry.num_report_cells else missing
        if cell is None:
            return missing
        return geometry.number(cell) + geometry.offset(drawn % window_size)


@dataclass(frozen=True)
class Laplace(Draw, kind="laplace"):
    r"""Discrete Laplace noise on a grid (`privot.mechanisms.Laplace`), by rejection.

    $P(k) ∝ e^{−|k|/t}$ with a rational $t = a/b$. Let U be uniform below a, accepted with probability
    $e^{−U/a}$, and V geometric with $P(V ≥ v) = e^{−v}$. Then $U + aV$ is geometric with ratio
    $e^{−1/a}$, and $⌊(U + aV)/b⌋$ with ratio $e^{−b/a}$. A fair sign makes it two-sided; −0 is drawn
    again. To accept with probability $e^{−x}$, $x ∈ [0, 1]$, draw coins of probabilities $x/1, x/2, …$
    until the first failure, and accept if its number is odd. All draws are uniform integers.

    $R = e^{D b/a}$, where D is the largest ℓ1 distance of two records' integers. In a box,
    $D = d · 2^{g+1}$. In a ball, $D = ⌊2^g (1 + η) δ⌋ + d$ with the η of `Window`, and $δ = 2\sqrt d$
    or, in the non-negative part, the ℓ1 distance of two points with disjoint nonzero coordinates,
    $δ = \sqrt{k} + \sqrt{d−k}$, $k = ⌊d/2⌋$.

    Arguments:
        dimension: Number d of coordinates.
        ratio: Integers a and b of the scale t = a/b.
        grid_bits: Exponent g: unit coordinates are rounded to multiples of $2^{−g}$.

    References:
        Canonne, Kamath, Steinke, *The discrete Gaussian for differential privacy* (2020).
    """

    dimension: int
    ratio: tuple[int, int]
    grid_bits: int
    takes_codes = False
    in_hexadecimal = ("ratio",)

    @classmethod
    def check(cls, where: str, program: Program, encoding: Program, codes: int) -> None:
        columns, get = len(encoding["columns"]), program.get
        dimension = require_whole(f"{where}, dimension", get("dimension"), 1, columns)
        require(not encoding["nullable"], f"{where}, nullable", True, "false for Laplace noise")
        require(dimension == columns, f"{where}, dimension", dimension, "all coordinates")
        require_whole(f"{where}, grid_bits", get("grid_bits"), 0, 40)
        parts = require_list(f"{where}, ratio", get("ratio"))
        require(len(parts) == 2, f"{where}, ratio", parts, "two numbers")
        a = require_hexadecimal(f"{where}, ratio", parts[0], 1, 2**53)
        # The denominator of a float is at most 2^1074.
        b = require_hexadecimal(f"{where}, ratio", parts[1], 1, 2**1100)
        require(a <= b * 2**40, f"{where}, ratio", parts, "at most 2^40")

    def worst_ratio(self, domain: Program | None) -> tuple[Fraction, Fraction]:
        assert domain is not None
        d, steps, (a, b) = self.dimension, 2**self.grid_bits, self.ratio  # steps in a unit
        if domain["area"] == "box":
            return Fraction(1), Fraction(2 * d * steps * b, a)
        diameter = 2 * _root_above(d)
        if domain["non_negative"]:
            diameter = _root_above(d // 2) + _root_above(d - d // 2)
        farthest = math.floor(steps * diameter * (1 + Fraction(d + 8, 2**53))) + d
        return Fraction(1), Fraction(farthest * b, a)

    @cached_property
    def layout(self) -> Layout:
        return SignedIntegers(self.dimension)

    def draw(self, value: list[float], word: NextWord) -> list[int]:
        steps = 2.0**self.grid_bits
        return [round(u * steps) + self.noise(word) for u in value]

    def noise(self, word: NextWord) -> int:
        """Draw noise of law $P(k) ∝ e^{−|k| b/a}$."""
        numerator, denominator = self.ratio
        while True:
            rest = draw_below(numerator, word)
            if not _exp_coin(rest, numerator, word):
                continue
            steps = 0
            while _exp_coin(1, 1, word):
                steps += 1
            magnitude = (rest + numerator * steps) // denominator
            negative = word() & 1
            if magnitude or not negative:
                return -magnitude if negative else magnitude


def _exp_coin(x: int, y: int, word: NextWord) -> bool:
    """Return True with probability $e^{−x/y}$, for x ≤ y, by the method that `Laplace` explains."""
    step = 1
    while draw_below(y * step, word) < x:
        step += 1
    return step % 2 == 1


def _root_above(number: int) -> Fraction:
    """Return a rational number at least √number, and equal to it if `number` is a square."""
    scaled = number << 2 * _ROOT_BITS
    root = math.isqrt(scaled)
    return Fraction(root + (root * root < scaled), 1 << _ROOT_BITS)


def joint_draws(program: Program) -> dict[int, Subset]:
    """Return the draws of a program's joint report, by number of cells."""
    subsets = {int(cells): subset for cells, subset in program["joint"]["sets"].items()}
    return {n: Subset(n, subset["size"], int(subset["out"], 16)) for n, subset in subsets.items()}


def split_draws(program: Program) -> list[tuple[str, Draw]]:
    """Return the columns and draws of a program's split reports, in order."""
    reports = program["split"]["reports"] if program["split"] else []
    return [(report["column"], Draw.from_dict(report["draw"])) for report in reports]
