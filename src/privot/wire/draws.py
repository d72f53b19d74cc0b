r"""Draws of a device: one value in, integers out, by integers and words alone; a class for each kind.

A **word** is a uniform 64-bit integer. A device takes one after another from its operating system,
a conformance test from a list. All that is drawn is a function of them, in a fixed order, by which
two implementations are compared. A `Draw` holds the integers of one column's mechanism, as the
program in a randomizer's JSON states them, and everything that depends on its kind: how it draws,
the bytes of its answers (`privot.wire.payload`), which integers its proof covers, and the largest
likelihood ratio $R = \max_{x, x′, y} P(y | x) / P(y | x′)$ that they imply, in closed form, by none
of the code that chose them. Below, $W = 2^{64}$.

**Privacy review.** Adjacency: any two records. What is drawn before the record is used, and how
many words it takes, is independent of it: response takes one word; a subset's others, place and
word are drawn whether the true cell is in or not; a window's two cells and word likewise; noise
does not know what it is added to. Nothing here is constant in time to the last branch: to find a
value in a list, and to add to a cell, may take a hair longer for one record than for another. That
is on the person's own device; what is sent later carries the hour alone. `Draw.check` and
`Draw.worst_ratio` read programs, which are public.
"""

from __future__ import annotations

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

from privot.core.errors import PrivotError
from privot.wire.payload import CellSet, Layout, Numbers, SignedIntegers
from privot.wire.windows import WindowGeometry

WORDS = 2**64
MAX_CELLS, MAX_VALUES = 2**24, 2**31
_MAX_WINDOW_CELLS, _MAX_STEPS, _MAX_RADIUS = 2**26, 2**16, 2**18
_ROOT_BITS = 128
_HEXADECIMAL = re.compile(r"[0-9a-f]{1,400}")

NextWord = Callable[[], int]
Program = Mapping[str, Any]


def system_word() -> int:
    """Return one word of the operating system's generator; safe in forks, and nothing is stored."""
    return int.from_bytes(os.urandom(8), "little")


def below(bound: int, word: NextWord) -> int:
    """Draw a uniform integer 0 … bound−1: words beyond the last full multiple are drawn again."""
    limit = WORDS - WORDS % bound
    while (drawn := word()) >= limit:
        pass
    return drawn % bound


def choose(total: int, chosen: int, word: NextWord) -> list[int]:
    """Draw a uniform subset, in order: the smallest words'; no word is taken where all are chosen."""
    if chosen == total:
        return list(range(total))
    words = [word() for _ in range(total)]
    return sorted(sorted(range(total), key=lambda index: words[index])[:chosen])


def weighted(weights: list[int], word: NextWord) -> int:
    """Draw an index in proportion to the weights: the one whose share of all holds a uniform number."""
    ends = list(accumulate(weights))
    return bisect_right(ends, below(ends[-1], word))


# Fields of a program, which are refused unless a proof covers them.


def need(holds: bool, where: str, value: object, wanted: str) -> None:
    """Refuse a field unless a condition holds, naming field, value, and what it must be."""
    if not holds:
        raise PrivotError(
            f"the randomizer's program has {where} {value!r:.60}, which must be {wanted}: nothing is "
            "drawn by it, calibrate it again"
        )


def items(where: str, held: object, least: int = 1) -> list[Any]:
    """Return a field that is a list of at least so many."""
    need(isinstance(held, list) and len(held) >= least, where, held, f"a list of {least} or more")
    return held  # type: ignore[return-value]  # it is a list, or refused


def whole(where: str, value: object, least: int, most: int) -> int:
    """Return a field that is a whole number from `least` to `most`."""
    wanted = f"a whole number from {least} to {most}"
    need(type(value) is int and least <= value <= most, where, value, wanted)
    return value  # type: ignore[return-value]  # it is an int, or refused


def hexadecimal(where: str, text: object, least: int, most: int) -> int:
    """Return the number of lower-case hexadecimal digits, from `least` to `most`."""
    digits = isinstance(text, str) and _HEXADECIMAL.fullmatch(text)
    number = int(str(text), 16) if digits else least - 1
    wanted = f"hexadecimal digits of a number from {least} to {most:x} (hexadecimal)"
    need(least <= number <= most, where, text, wanted)
    return number


class Draw(ABC):
    """A kind of draw: a frozen dataclass of its program's integers.

    Subclasses name their `kind`, `class Response(Draw, kind="response")`, which registers them;
    programs name it as `draw`, beside the fields. A value is the codes of a column, in each of its
    codings, or the unit coordinates of a point, None where it is missing.

    Examples:
        >>> from privot.wire.draws import Draw
        >>> draw = Draw.from_dict({"draw": "response", "values": 3, "slot": "2000000000000000"})
        >>> draw.unpack(draw.pack(draw.draw([2], word=lambda: 2**63))), draw.num_bytes
        ([2], 1)
    """

    kinds: ClassVar[dict[str, type[Draw]]] = {}
    kind: ClassVar[str]
    takes_codes: ClassVar[bool] = True  # of one coding; else, points
    in_hexadecimal: ClassVar[tuple[str, ...]] = ()  # fields of large integers, or of tuples of them

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            known = Draw.kinds.setdefault(kind, cls)
            # A module that is loaded again defines its class again.
            if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise PrivotError(
                    f"draw kind {kind!r} is {known.__module__}.{known.__qualname__}: give yours a name "
                    "of its own"
                )
            cls.kind, Draw.kinds[kind] = kind, cls

    @staticmethod
    def from_dict(program: Program) -> Draw:
        """Read a draw of a program that was checked."""
        kind = Draw.kinds[program["draw"]]
        read = {each.name: program[each.name] for each in fields(kind)}  # type: ignore[arg-type]
        return kind(**{n: _integers(v) if n in kind.in_hexadecimal else v for n, v in read.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a program has them."""
        held = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        coded = {n: _digits(v) if n in self.in_hexadecimal else v for n, v in held.items()}
        return {"draw": self.kind, **coded}

    @staticmethod
    def checked(where: str, program: Program, take: Program, codes: list[int]) -> Draw:
        """Read a draw of a program that anybody may have written.

        Arguments:
            where: Name of the column in a refusal.
            program: Fields of the draw.
            take: Fields of the program that take the column's values.
            codes: Number of codes of the column in each of its codings; none of points.

        Raises:
            PrivotError: if no proof covers its integers.
        """
        name = program.get("draw")
        kind = Draw.kinds.get(str(name))
        need(kind is not None, f"{where}, draw", name, f"one of {', '.join(Draw.kinds)}")
        assert kind is not None
        fits = len(codes) == 1 if kind.takes_codes else not codes
        wanted = "one for points, or of one coding" if kind.takes_codes else "one for codes"
        need(fits, f"{where}, draw", name, wanted)
        kind.check(where, program, take, codes[0] if codes else 0)
        return Draw.from_dict(program)

    @classmethod
    @abstractmethod
    def check(cls, where: str, program: Program, take: Program, codes: int) -> None:
        """Refuse a draw's fields unless the proof covers them, for every code below `codes`."""

    @abstractmethod
    def worst_ratio(self, domain: Program | None) -> tuple[Fraction, Fraction]:
        """Bound R, the largest likelihood ratio of two values, as (factor, exponent).

        R is at most factor · e^exponent, of which the factor is 1 or the exponent 0.

        Arguments:
            domain: Domain of points; None for codes.
        """

    @abstractmethod
    def draw(self, value: Any, word: NextWord) -> list[int]:
        """Draw an answer of a value."""

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """Layout of answers as bytes."""

    @property
    def num_bytes(self) -> int:
        """Width of every answer in bytes."""
        return self.layout.num_bytes

    def pack(self, answer: list[int]) -> bytes:
        """Write an answer as bytes."""
        return self.layout.pack(answer)

    def unpack(self, data: bytes) -> list[int]:
        """Read the answer of these bytes; raise a `WireError` if they are of none."""
        return self.layout.unpack(data)

    @property
    def resolution(self) -> int | None:
        """Number of steps of [−1, 1] that coordinates of points are rounded to; None for codes."""
        return None

    @property
    def thresholds(self) -> frozenset[int]:
        """Words at which the answer changes, for tests: by default, the fields in hexadecimal."""
        held = (getattr(self, name) for name in self.in_hexadecimal)
        return frozenset(number for number in held if isinstance(number, int))


def _integers(held: Any) -> Any:
    return int(held, 16) if isinstance(held, str) else tuple(int(part, 16) for part in held)


def _digits(held: Any) -> Any:
    return f"{held:x}" if isinstance(held, int) else [f"{part:x}" for part in held]


def _either(odds: Fraction) -> tuple[Fraction, Fraction]:
    return max(odds, 1 / odds), Fraction(0)


@dataclass(frozen=True)
class Response(Draw, kind="response"):
    """Randomized response: the code, or any other (`privot.mechanisms.RandomizedResponse`).

    The words W divided by s have the quotients 0 … k − 2 in s cases each, which are the other
    codes, and larger ones in the $W − (k−1)s$ cases left, which report the code. So $P(y|x)$ is $(W
    − (k−1)s)/W$ for y = x and $s/W$ else, and R the larger of their ratio and its inverse.

    Arguments:
        values: Number k of codes.
        slot: Number s of words that lead to each other code.
    """

    values: int
    slot: int
    in_hexadecimal = ("slot",)

    @classmethod
    def check(cls, where: str, program: Program, take: Program, codes: int) -> None:
        """See `Draw`."""
        count = whole(f"{where}, values", program.get("values"), max(2, codes), MAX_VALUES)
        hexadecimal(f"{where}, slot", program.get("slot"), 1, (WORDS - 1) // (count - 1))

    def worst_ratio(self, domain: Program | None) -> tuple[Fraction, Fraction]:
        """See `Draw`."""
        return _either(Fraction(WORDS - (self.values - 1) * self.slot, self.slot))

    @cached_property
    def layout(self) -> Layout:
        """See `Draw`."""
        return Numbers(self.values)

    @property
    def thresholds(self) -> frozenset[int]:
        """See `Draw`."""
        return frozenset((self.slot, self.slot * (self.values - 1)))

    def draw(self, value: list[int], word: NextWord) -> list[int]:
        """See `Draw`."""
        code, other = value[0], word() // self.slot
        return [code if other >= self.values - 1 else other + (other >= code)]


@dataclass(frozen=True)
class Subset(Draw, kind="subset"):
    r"""Subset selection: a set of cells (`privot.mechanisms.SubsetSelection`), by Floyd's algorithm.

    Given that the true cell v is left out (L/W) the set is a uniform one of $\binom{K−1}{w}$; given
    that it is in, a uniform member has been replaced, so that the others are a uniform one of
    $\binom{K−1}{w−1}$. Since $\binom{K−1}{w} / \binom{K−1}{w−1} = (K−w)/w$, two records, one of
    which is in a set, have the ratio $\frac{W−L}{L} \frac{K−w}{w}$ or its inverse there.

    Arguments:
        cells: K.
        size: w.
        out: Number L of words that leave the true cell out.

    References:
        Bentley, Floyd, *A sample of brilliance* (1987).
    """

    cells: int
    size: int
    out: int
    in_hexadecimal = ("out",)

    @classmethod
    def check(cls, where: str, program: Program, take: Program, codes: int) -> None:
        """See `Draw`."""
        cells = whole(f"{where}, cells", program.get("cells"), max(2, codes), MAX_CELLS)
        whole(f"{where}, size", program.get("size"), 1, cells - 1)
        hexadecimal(f"{where}, out", program.get("out"), 1, WORDS - 1)

    def worst_ratio(self, domain: Program | None) -> tuple[Fraction, Fraction]:
        """See `Draw`."""
        return _either(
            Fraction((WORDS - self.out) * (self.cells - self.size), self.out * self.size)
        )

    @cached_property
    def layout(self) -> Layout:
        """See `Draw`."""
        return CellSet(self.cells, self.size)

    def draw(self, value: list[int], word: NextWord) -> list[int]:
        """See `Draw`."""
        cell, others = value[0], self.cells - 1
        chosen: set[int] = set()
        for last in range(others - self.size, others):
            candidate = below(last + 1, word)
            chosen.add(last if candidate in chosen else candidate)
        drawn = sorted([other + (other >= cell) for other in chosen])
        place = below(self.size, word)
        if word() >= self.out:
            drawn[place] = cell
        return sorted(drawn)


@dataclass(frozen=True)
class Window(Draw, kind="window"):
    r"""Window reports: a cell near a block of coordinates, or any (`privot.mechanisms.Window`).

    A report is any of n cells with probability $L/(Wn)$ each, and a cell of the record's window of
    m cells with $(1 − L/W)/m$ more. If all windows have m cells among the n, the ratio at a cell
    that one of two windows holds is $1 + \frac{W−L}{L} \frac nm$, else 1. A missing value is a
    window of m cells that are written alike: $P(\text{missing})$ is $Lm/(Wn)$, and $1 − L/W$ more
    for a missing record: the same ratio. Blocks are drawn by words of their own, so that their
    ratios multiply.

    *Windows are whole:* a box has $0 ≤ x_i ≤ N$. In a ball, floats keep $‖u‖_2 ≤ 1 + η$, $η = (d+8)
    2^{−53}$, and $u + 1$ to $2^{−52}$; N/2 is a power of two, so that $‖2x − N‖_2 ≤ N(1 + η) +
    \sqrt d (1 + N 2^{−52}) < N + 2$ for d ≤ 3, N ≤ 2^16, and then $‖2(x + k) − N‖_2 ≤ N + 2 + 2r$.
    Where u ≥ 0, x ≥ N/2, and $x + k ≥ N/2 − r$.

    *(η: for the length computed of $x/\max|x|$, every quotient, product, sum and root is within a
    factor $1 ± 2^{−53}$, d + 4 of them under the root and 2 outside; what underflows is below
    $2^{−500}$ of the sum.)*

    Arguments:
        dimension: Number d of coordinates of a block.
        steps: Number N of steps of the grid along [−1, 1].
        radius: Radius r of windows, in steps.
        area: `"box"` or `"l2_ball"`, where blocks lie.
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
    def check(cls, where: str, program: Program, take: Program, codes: int) -> None:
        """See `Draw`."""
        domain, columns, held = take["domain"], len(take["columns"]), program.get
        dimension = whole(f"{where}, dimension", held("dimension"), 1, min(3, columns))
        blocks = whole(f"{where}, blocks", held("blocks"), 1, 2**16)
        need(blocks * dimension == columns, f"{where}, blocks", blocks, "all coordinates")
        steps = whole(f"{where}, steps", held("steps"), 2, _MAX_STEPS)
        need(steps & (steps - 1) == 0, f"{where}, steps", steps, "a power of two")
        radius = whole(f"{where}, radius", held("radius"), 0, _MAX_RADIUS)
        few = (steps + 2 * radius + 1) ** dimension <= _MAX_WINDOW_CELLS
        need(few, f"{where}, radius", radius, "less: too many cells")
        area, part = domain["area"], domain.get("non_negative", False)
        need(held("area") == area, f"{where}, area", held("area"), "its domain's")
        same = held("non_negative") is part
        need(same, f"{where}, non_negative", held("non_negative"), "its domain's")
        nullable = held("nullable")
        fits = nullable is take["nullable"] and not (nullable and blocks > 1)
        need(fits, f"{where}, nullable", nullable, "its column's, and false in several blocks")
        hexadecimal(f"{where}, anywhere", held("anywhere"), 1, WORDS)

    @cached_property
    def geometry(self) -> WindowGeometry:
        """The cells of windows and of reports."""
        low = self.steps // 2 if self.non_negative else 0
        return WindowGeometry(self.dimension, self.steps, self.radius, self.area, low)

    @cached_property
    def _total(self) -> int:
        return self.geometry.count + (self.geometry.window if self.nullable else 0)

    def worst_ratio(self, domain: Program | None) -> tuple[Fraction, Fraction]:
        """See `Draw`."""
        near = self.anywhere * self.geometry.window
        return (1 + Fraction((WORDS - self.anywhere) * self._total, near)) ** self.blocks, Fraction(
            0
        )

    @cached_property
    def layout(self) -> Layout:
        """See `Draw`: the number of each block's cell, one beyond the largest for a missing value."""
        return Numbers(self.geometry.numbers + self.nullable, self.blocks)

    @property
    def resolution(self) -> int:
        """See `Draw`."""
        return self.steps

    def draw(self, value: list[float] | None, word: NextWord) -> list[int]:
        """See `Draw`."""
        if value is None:
            return [self.draw_cell(None, word)]
        own, d = [round((u + 1) * (self.steps / 2)) for u in value], self.dimension
        return [self.draw_cell(own[at : at + d], word) for at in range(0, len(own), d)]

    def draw_cell(self, cell: list[int] | None, word: NextWord) -> int:
        """Draw the number of a reported cell; None, and its number, are a missing value."""
        cells, near, total = self.geometry, self.geometry.window, self._total
        drawn = below(near * total, word)
        inside = word() >= self.anywhere
        if not inside:
            far = drawn % total
            return cells.reached(far) if far < cells.count else cells.numbers
        return cells.numbers if cell is None else cells.number(cell) + cells.offset(drawn % near)


@dataclass(frozen=True)
class Laplace(Draw, kind="laplace"):
    r"""Discrete Laplace noise on a grid (`privot.mechanisms.Laplace`), by rejection.

    $P(k) ∝ e^{−|k|/t}$ with a rational $t = a/b$. Let U be uniform below a, accepted with
    probability $e^{−U/a}$, and V geometric, $P(V ≥ v) = e^{−v}$; then $U + aV$ is geometric with
    ratio $e^{−1/a}$, and $⌊(U + aV)/b⌋$ with ratio $e^{−b/a}$. A fair sign, and drawing again when
    it is −0, make it two-sided. A coin of probability $e^{−x}$, $x ∈ [0, 1]$, is one minus the
    parity of the first K for which a coin of probability $x/K$ fails. All of it takes uniform
    integers only.

    $R = e^{D b/a}$, D being the largest ℓ1 distance of two records' integers: $d · 2^{g+1}$ in a
    box. In a ball, $⌊2^g (1 + η) δ⌋ + d$ with η of `Window` and $δ = 2\sqrt d$, or $\sqrt{k} +
    \sqrt{d−k}$, $k = ⌊d/2⌋$, of its non-negative part, where two points are farthest on disjoint
    coordinates.

    Arguments:
        dimension: d.
        ratio: a and b.
        grid_bits: g; a unit coordinate is rounded to multiples of $2^{−g}$.

    References:
        Canonne, Kamath, Steinke, *The discrete Gaussian for differential privacy* (2020).
    """

    dimension: int
    ratio: tuple[int, int]
    grid_bits: int
    takes_codes = False
    in_hexadecimal = ("ratio",)

    @classmethod
    def check(cls, where: str, program: Program, take: Program, codes: int) -> None:
        """See `Draw`."""
        columns, held = len(take["columns"]), program.get
        dimension = whole(f"{where}, dimension", held("dimension"), 1, columns)
        need(not take["nullable"], f"{where}, nullable", True, "false for Laplace noise")
        need(dimension == columns, f"{where}, dimension", dimension, "all coordinates")
        whole(f"{where}, grid_bits", held("grid_bits"), 0, 40)
        parts = items(f"{where}, ratio", held("ratio"))
        need(len(parts) == 2, f"{where}, ratio", parts, "two numbers")
        a = hexadecimal(f"{where}, ratio", parts[0], 1, 2**53)
        b = hexadecimal(f"{where}, ratio", parts[1], 1, 2**1100)
        need(a <= b * 2**40, f"{where}, ratio", parts, "at most 2^40")

    def worst_ratio(self, domain: Program | None) -> tuple[Fraction, Fraction]:
        """See `Draw`."""
        assert domain is not None
        d, unit, (a, b) = self.dimension, 2**self.grid_bits, self.ratio
        if domain["area"] == "box":
            return Fraction(1), Fraction(2 * d * unit * b, a)
        across = 2 * _root_above(d)
        if domain["non_negative"]:
            across = _root_above(d // 2) + _root_above(d - d // 2)
        farthest = math.floor(unit * across * (1 + Fraction(d + 8, 2**53))) + d
        return Fraction(1), Fraction(farthest * b, a)

    @cached_property
    def layout(self) -> Layout:
        """See `Draw`."""
        return SignedIntegers(self.dimension)

    @property
    def resolution(self) -> int:
        """See `Draw`."""
        return 2 ** (1 + self.grid_bits)

    def draw(self, value: list[float], word: NextWord) -> list[int]:
        """See `Draw`."""
        unit = 2.0**self.grid_bits
        return [round(u * unit) + self.noise(word) for u in value]

    def noise(self, word: NextWord) -> int:
        """Draw noise of law $P(k) ∝ e^{−|k| b/a}$."""
        numerator, denominator = self.ratio
        while True:
            rest = below(numerator, word)
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
    """Return True with probability $e^{−x/y}$, for x ≤ y."""
    step = 1
    while below(y * step, word) < x:
        step += 1
    return step % 2 == 1


def _root_above(number: int) -> Fraction:
    """Return a rational number at least √number, and equal to it of squares."""
    scaled = number << 2 * _ROOT_BITS
    root = math.isqrt(scaled)
    return Fraction(root + (root * root < scaled), 1 << _ROOT_BITS)


def joint_draws(program: Program) -> dict[int, Subset]:
    """Return the draws of a program's joint report, by the number of a sheet's cells."""
    sets = program["joint"]["sets"].items()
    return {int(n): Subset(int(n), law["size"], int(law["out"], 16)) for n, law in sets}


def split_draws(program: Program) -> list[tuple[str, Draw]]:
    """Return the columns and draws of a program's split reports, in order."""
    reports = program["split"]["reports"] if program["split"] else []
    return [(each["column"], Draw.from_dict(each["draw"])) for each in reports]
