r"""Exact verification of a program: its integers imply a likelihood ratio of at most the stated e^ε.

A fingerprint proves that a text was not altered, not that its content is private. A device compares
uniform integers with those of the program, so the probability of every report is a known fraction.
Before anything is drawn,

- `read_sealed` compares the fingerprint;
- `require_program` refuses programs that no proof covers. It ensures that every code of a column is
  below the number of codes of its draws. Windows have at most three coordinates, and the number of steps
  is a power of two, as the proof of `privot.wire.draws.Window` assumes. A missing value has a code or
  symbol of its own, and its payload has the length of all others. Bounds of uniform integers are at most
  2^64, because `draw_below` would never end for larger ones;
- `law_of` multiplies the largest likelihood ratios R of the draws, which each class of
  `privot.wire.draws` derives; `ExactLaw.holds` tests $R ≤ e^ε$ by a rational lower bound of $e^ε$.

**Composition.** Blocks and reports of a record are drawn independently, so their ratios multiply. The c
split reports that are sent, and the form and view of the joint report, are chosen independently of the
record. So the ratio of a whole report is at most the product of the ratios of the worst c split reports
and of the worst pair of a form and a view (a sheet).

**Exponentials.** Let $t = x/2^j ≤ 1$. In units of $2^{−p}$, with every step rounded down,
$\sum_{i < n} t^i/i!$ is at most $e^t$. With every step rounded up and twice the next term added, it is
at least $e^t$: each term is at most half of the one before, so the remainder is at most twice the next
term. Squared j times, with the same rounding, the two bound $e^x$.

**Privacy review.** Adjacency: any two records. This module reads public randomizers and no record.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from privot.core.errors import PrivotError
from privot.wire import draws
from privot.wire.draws import require, require_list, require_whole

VERSION = 2
MAX_EXPONENT = 2**16  # beyond it `exp_below` does not grow, and `Ratio.above` is None
_FINGERPRINT_FIELD = ',"fingerprint":"'  # the last field of a randomizer's JSON
_MAX_FORMS, _MAX_SHEETS = 2**16, 2**20
_SMALLEST, _LARGEST = 2.0**-500, 2.0**500  # squares and quotients of numbers between are finite
_BITS, _TERMS = 320, 64  # binary digits p after the point, and number n of terms, of series of e^t


def read_sealed(text: str) -> tuple[bytes, dict[str, Any]]:
    """Return the verified fingerprint, 32 bytes, and the fields of a randomizer's JSON.

    Raises:
        PrivotError: if the text was altered, or is not a JSON object.
    """
    body, found, rest = text.strip().rpartition(_FINGERPRINT_FIELD)
    fingerprint = hashlib.sha256((body + "}").encode()).hexdigest()
    if not found or rest != fingerprint + '"}':
        raise PrivotError("the randomizer was altered: fetch it again from who published it")
    try:
        fields = json.loads(body + "}")
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise PrivotError("the randomizer is not readable: fetch it again from who published it")
    return bytes.fromhex(fingerprint), fields


def require_program(value: object) -> draws.Program:
    """Return an untrusted program if the proofs of its draws cover it.

    Raises:
        PrivotError: naming a field, its value, and the requirement.
    """
    program = _object("program", value, "columns", "joint", "split")
    require(program.get("version") == VERSION, "version", program.get("version"), str(VERSION))
    require_whole("time_step", program.get("time_step"), 3600, 2**32)  # a report says the hour
    columns = _object("columns", program["columns"])
    unread = require_list("unread", program.get("unread", []), 0)
    require(all(isinstance(name, str) for name in unread), "unread", unread, "a list of names")
    codes = {name: _num_codes(name, encoding) for name, encoding in columns.items()}
    joint, split = program["joint"], program["split"]
    require(bool(joint or split), "joint and split", None, "reports, at least one of them")
    if joint:
        _check_joint(joint, codes)
    if split:
        split = _object("split", split, "choose", "reports")
        reports = require_list("reports", split["reports"])
        require_whole("choose", split["choose"], 1, len(reports))
        for report in reports:
            report = _object("reports", report, "column", "draw")
            name = report["column"]
            require(isinstance(name, str) and name in columns, "column", name, "one of its columns")
            where, draw = f"column {name!r}", _object("draw", report["draw"])
            draws.Draw.checked(where, draw, columns[name], codes[name])
    return program


def _object(where: str, value: object, *names: str) -> Mapping[str, Any]:
    """Return a field that is an object with fields of these names."""
    present = isinstance(value, dict) and all(name in value for name in names)
    require(present, where, value, f"an object with {', '.join(names) or 'its fields'}")
    return value  # type: ignore[return-value]  # it is a dict, or refused


def _float(where: str, value: object, least: float = -_LARGEST, most: float = _LARGEST) -> float:
    """Return a field that is a number from `least` to `most`."""
    fits = type(value) in (int, float) and least <= value <= most  # type: ignore[operator]
    require(fits, where, value, f"a number from {least:.3g} to {most:.3g}")
    return float(value)  # type: ignore[arg-type]  # it is a number, or refused


def _num_codes(name: str, value: object) -> list[int]:
    """Check a column's encoding; return the number of codes in each of its codings, [] for points."""
    where = f"column {name!r}"
    encoding = _object(where, value, "take", "columns")
    kind, parts = encoding["take"], require_list(where, encoding["columns"])
    require(all(isinstance(part, str) for part in parts), where, parts, "names of values")
    rule = encoding.get("out_of_bounds")
    require(rule in (None, "clip"), f"{where}, out_of_bounds", rule, "clip, or not there")
    if kind == "cell":
        return [_num_cell_codes(where, encoding, len(parts))]
    if kind == "point":
        _check_number(where, encoding)
        _check_domain(where, encoding.get("domain"), len(parts))
        require("step" not in encoding or len(parts) == 1, where, encoding, "one number in steps")
        return []
    require(len(parts) == 1, where, parts, "one name")
    if kind == "boolean":
        return [_with_special_codes(where, encoding, 2)]
    if kind == "category":
        values = require_list(where, encoding.get("values"))
        require(all(isinstance(value, str) for value in values), where, values, "texts")
        return [_with_special_codes(where, encoding, len(values))]
    if kind == "word":
        letters, nullable = encoding.get("letters"), encoding.get("nullable")
        require(
            isinstance(letters, str) and 2 <= len(letters) < 64, where, letters, "2 to 63 letters"
        )
        require(isinstance(nullable, bool), f"{where}, nullable", nullable, "true or false")
        longest = require_whole(f"{where}, max_length", encoding.get("max_length"), 2, 32)
        levels = require_list(f"{where}, levels", encoding.get("levels"))
        for level in levels:
            require_whole(f"{where}, levels", level, 0, (longest + 1) // 2)
        return [draws.WORD_CELLS] * len(levels)
    require(kind == "bin", where, kind, "category, boolean, bin, cell, point or word")
    return _num_bin_codes(where, encoding)


def _with_special_codes(where: str, encoding: Mapping[str, Any], count: int) -> int:
    """Return the number of codes if those of unlisted and missing values are added to `count` codes."""
    for special in ("other", "missing"):
        if encoding.get(special) is not None:
            code = require_whole(f"{where}, {special}", encoding[special], 0, draws.MAX_VALUES - 1)
            count = max(count, 1 + code)
    return count


def _num_bin_codes(where: str, encoding: Mapping[str, Any]) -> list[int]:
    """Check the encoding of a number in bins; return the number of codes in each coding."""
    spikes = require_list(where, encoding.get("spikes"), 0)
    for spike in spikes:
        _float(f"{where}, spikes", spike)
    _check_number(where, encoding)
    integer, counts = encoding.get("integer"), []
    require(isinstance(integer, bool), f"{where}, integer", integer, "true or false")
    for coding in require_list(where, encoding.get("edges")):
        edges = [_float(f"{where}, edges", edge) for edge in require_list(where, coding, 2)]
        rising = all(low < high for low, high in pairwise(edges))
        require(rising, f"{where}, edges", coding, "increasing")
        whole_ends = edges[0].is_integer() and edges[-1].is_integer()
        require(whole_ends or not integer, f"{where}, edges", coding, "between whole bounds")
        counts.append(len(edges) - 1 + len(spikes) + bool(encoding["nullable"]))
    return counts


def _num_cell_codes(where: str, encoding: Mapping[str, Any], dimension: int) -> int:
    """Check the encoding of a point as a cell of a grid; return the number of codes."""
    _check_domain(where, encoding.get("domain"), dimension)
    side = require_whole(f"{where}, side", encoding.get("side"), 1, draws.MAX_CELLS)
    codes, cells = encoding.get("codes"), side ** min(dimension, 30)  # 2^30 cells are too many
    require(cells <= draws.MAX_CELLS, f"{where}, side", side, "less: too many cells")
    count = cells
    if codes is not None:
        require(len(require_list(where, codes)) == cells, f"{where}, codes", codes, "one a cell")
        count = max(1 + require_whole(f"{where}, codes", code, -1, cells - 1) for code in codes)
    return _with_special_codes(where, {"missing": encoding.get("missing")}, max(count, 1))


def _check_number(where: str, encoding: Mapping[str, Any]) -> None:
    """Check the fields that state how values become numbers."""
    nullable = encoding.get("nullable")
    require(isinstance(nullable, bool), f"{where}, nullable", nullable, "true or false")
    if encoding.get("seconds") is not None:
        require_whole(f"{where}, seconds", encoding["seconds"], 1, 2**32)
    form = encoding.get("format", "%Y%m%d")
    codes = re.findall("%(.?)", form) if isinstance(form, str) else []
    fits = {*"Ymd"} <= {*codes} and sorted(codes) == sorted({*codes} & {*"YmdHMS"})
    require(fits, f"{where}, format", form, "of strftime, with each code once")
    if "step" in encoding:
        _float(f"{where}, step", encoding["step"], _SMALLEST)
        _float(f"{where}, origin", encoding.get("origin"))


def _check_domain(where: str, value: object, dimension: int) -> None:
    """Check the domain of points with `dimension` coordinates."""
    domain = _object(f"{where}, domain", value, "area")
    if domain["area"] == "l2_ball":
        _float(f"{where}, radius", domain.get("radius"), _SMALLEST)
        non_negative = domain.get("non_negative")
        where = f"{where}, non_negative"
        require(isinstance(non_negative, bool), where, non_negative, "true or false")
        return
    require(domain["area"] == "box", f"{where}, area", domain["area"], "box or l2_ball")
    lower, upper = (require_list(f"{where}, bounds", domain.get(end)) for end in ("lower", "upper"))
    require(len(lower) == len(upper) == dimension, f"{where}, bounds", lower, "one a coordinate")
    for low, high in zip(lower, upper, strict=True):
        width = _float(f"{where}, upper", high) - _float(f"{where}, lower", low)
        require(width >= _SMALLEST, f"{where}, bounds", [low, high], "the smaller first")


def _check_joint(value: object, codes: Mapping[str, list[int]]) -> None:
    """Check the joint report: every sheet has a draw for as many cells as its columns have codes."""
    joint = _object("joint", value, "columns", "sizes", "views", "forms", "weights", "sets")
    names = ("columns", "sizes", "forms", "weights")
    columns, sizes, forms, weights = (require_list(name, joint[name]) for name in names)
    require(len(sizes) == len(columns), "sizes", sizes, "one list a column")
    require(len(weights) == len(forms) <= _MAX_FORMS, "weights", weights, "one a form")
    for name, column_sizes in zip(columns, sizes, strict=True):
        where = f"sizes of column {name!r}"
        require(isinstance(name, str) and bool(codes.get(name)), "column", name, "one with codes")
        fits = len(require_list(where, column_sizes)) == len(codes[name])
        require(fits, where, column_sizes, "one a coding")
        for size, least in zip(column_sizes, codes[name], strict=True):
            require_whole(where, size, max(2, least), draws.MAX_CELLS)
    total = sum(require_whole("weights", weight, 1, draws.MAX_VALUES - 1) for weight in weights)
    require_whole("sum of weights", total, 1, draws.MAX_VALUES - 1)
    views = require_whole("views", joint["views"], 1, _MAX_SHEETS // len(forms))
    sets = _object("sets", joint["sets"])
    for form in forms:
        indices = require_list("forms", form)
        fits = all(type(index) is int and 0 <= index < len(columns) for index in indices)
        fits = fits and len(set(indices)) == len(indices)
        require(fits, "forms", form, "different columns' indices")
    counts = _sheet_cells(sizes, forms, views)
    for cells in counts:
        fits = cells <= draws.MAX_CELLS and str(cells) in sets
        require(fits, "sets", sorted(sets), f"also of {cells} cells")
        subset = _object("sets", sets[str(cells)])
        draws.Subset.check("sets", {**subset, "cells": cells}, {}, cells)
    require({*sets} <= {str(cells) for cells in counts}, "sets", [*sets], "of its sheets")


def _sheet_cells(sizes: list[list[int]], forms: list[list[int]], views: int) -> set[int]:
    """Return the numbers of cells of all sheets, which are pairs of a form and a view."""
    counts = set()
    for form in forms:
        period = math.lcm(*(len(sizes[column]) for column in form))  # then codings repeat
        for view in range(min(views, period)):
            counts.add(math.prod(sizes[c][view % len(sizes[c])] for c in form))
    return counts


def exp_below(x: Fraction) -> Fraction:
    """Return a rational number at most e^x, for x ≥ 0; its relative error is below 2^−200 for x ≤ 2^16.

    >>> exp_below(Fraction(0))
    Fraction(1, 1)
    >>> float(exp_below(Fraction(1)))
    2.718281828459045
    """
    return _exp(min(x, Fraction(MAX_EXPONENT)), lambda number, by: number // by)


def exp_above(x: Fraction) -> Fraction:
    """Return a rational number at least e^x, for 0 ≤ x ≤ 2^16."""
    return _exp(x, lambda number, by: -(-number // by), rest=2 if x else 0)


def _exp(x: Fraction, divide: Callable[[int, int], int], rest: int = 0) -> Fraction:
    """Return the series of e^x plus `rest` times the next term; `divide` rounds up or down."""
    halvings = 0
    while x > 1 << halvings:
        halvings += 1
    unit = x / (1 << halvings)
    total, term = 0, 1 << _BITS
    for i in range(1, _TERMS + 1):
        total += term
        term = divide(term * unit.numerator, unit.denominator * i)
    total += rest * term
    for _ in range(halvings):
        total = divide(total * total, 1 << _BITS)
    return Fraction(total, 1 << _BITS)


class Ratio(NamedTuple):
    """An exact likelihood ratio $\\text{factor} · e^{\\text{exponent}}$, at least 1."""

    factor: Fraction = Fraction(1)
    exponent: Fraction = Fraction(0)

    def is_within(self, epsilon: float) -> bool:
        """Return whether the ratio is proved to be at most e^ε, for the exact value of the float ε."""
        remaining = Fraction(epsilon) - self.exponent
        return remaining >= 0 and self.factor <= exp_below(remaining)

    @property
    def above(self) -> Fraction | None:
        """Rational upper bound, exact if the exponent is 0; None if the exponent is above 2^16."""
        return self.factor * exp_above(self.exponent) if self.exponent <= MAX_EXPONENT else None


@dataclass(frozen=True)
class Part:
    """Likelihood ratio of one part of a report: the joint report, or the report of one column.

    Arguments:
        name: Name of the column, or "joint report".
        draw: Kind of its draw.
        ratio: Largest likelihood ratio R of all blocks together.
        blocks: Number of independent draws.
    """

    name: str
    draw: str
    ratio: Ratio
    blocks: int = 1


@dataclass(frozen=True)
class ExactLaw:
    """Likelihood ratios that a randomizer's integers imply, and its stated ε.

    Arguments:
        always: Parts that every report contains.
        split: Parts of which each report contains `choose`.
        choose: Number of split parts in a report.
        epsilon: Stated ε of the randomizer.
    """

    always: tuple[Part, ...]
    split: tuple[Part, ...]
    choose: int
    epsilon: float

    @cached_property
    def totals(self) -> list[Ratio]:
        """Candidates for the largest likelihood ratio of a whole report.

        The ratio of a split part is a power of e (Laplace noise) or a rational number. For each possible
        number j of powers in a report, the candidate is the product of the largest j powers and the
        largest `choose` − j rational numbers.
        """
        ratios = [part.ratio for part in self.split]
        powers = sorted((ratio for ratio in ratios if ratio.exponent), key=lambda r: -r.exponent)
        rationals = sorted((ratio for ratio in ratios if not ratio.exponent), reverse=True)
        always = [part.ratio for part in self.always]
        candidates = []
        for j in range(self.choose + 1):
            if j <= len(powers) and self.choose - j <= len(rationals):
                chosen = [*always, *powers[:j], *rationals[: self.choose - j]]
                factor = math.prod((ratio.factor for ratio in chosen), start=Fraction(1))
                exponent = sum((ratio.exponent for ratio in chosen), Fraction(0))
                candidates.append(Ratio(factor, exponent))
        return candidates

    @property
    def total(self) -> Ratio:
        """The largest of `totals`."""
        infinity = Fraction(2) ** 100_000  # above e^65536, hence above every bound that is not None
        return max(self.totals, key=lambda ratio: ratio.above or infinity)

    @property
    def holds(self) -> bool:
        """Whether the likelihood ratios of all reports are proved to be at most e^ε."""
        return all(ratio.is_within(self.epsilon) for ratio in self.totals)


_NO_INTEGERS = (
    "the exact law cannot be bounded: {}, so a program alone does not decide what is drawn; use `privot "
    "audit` without --exact, or calibrate with windows, joint reports, or Laplace noise on tables"
)


def check_randomizer(text: str) -> ExactLaw:
    """Return the likelihood ratios of a randomizer's JSON, with its stated ε.

    Raises:
        PrivotError: if the text was altered, has no program, or has one that no proof covers.

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
        kinds = _columns_and_kinds(fields.get("mechanisms"))
        raise PrivotError(_NO_INTEGERS.format(f"{kinds or 'it'} publishes no integers"))
    return law_of(require_program(fields["device"]), epsilon)


def _columns_and_kinds(mechanisms: object) -> str:
    """Return the names of columns with the kinds of their mechanisms, as text."""
    if not isinstance(mechanisms, Mapping):
        return ""
    fields = {name: value for name, value in mechanisms.items() if isinstance(value, Mapping)}
    return ", ".join(f"column {name!r} ({fields[name].get('kind')})" for name in fields)


def stated_epsilon(fields: Mapping[str, Any]) -> float:
    """Return the stated ε of a randomizer; raise PrivotError unless it is a finite number ≥ 0."""
    guarantee = fields.get("guarantee")
    epsilon = guarantee.get("epsilon") if isinstance(guarantee, Mapping) else None
    if type(epsilon) not in (int, float) or not 0 <= epsilon <= 1e300:  # type: ignore[operator]  # a number
        raise PrivotError(
            f"the randomizer states epsilon {epsilon!r:.40}, which is no promise: calibrate it again"
        )
    return float(epsilon)  # type: ignore[arg-type]  # it is a number, or refused


def law_of(program: draws.Program, epsilon: float) -> ExactLaw:
    """Return the likelihood ratios of a program that `require_program` accepted."""
    always, split = [], []
    if program["joint"]:
        ratio = max(Ratio(*draw.worst_ratio(None)) for draw in draws.joint_draws(program).values())
        always.append(Part("joint report", draws.Subset.kind, ratio))
    for name, draw in draws.split_draws(program):
        ratio = Ratio(*draw.worst_ratio(program["columns"][name].get("domain")))
        assert ratio.factor == 1 or not ratio.exponent  # `ExactLaw.totals` relies on it
        split.append(Part(name, draw.kind, ratio, getattr(draw, "blocks", 1)))
    choose = program["split"]["choose"] if split else 0
    return ExactLaw(tuple(always), tuple(split), choose, epsilon)
