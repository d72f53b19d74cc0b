"""Bounds of exact laws: equal to what enumeration finds, and never above what a randomizer states."""

import json
import math
import random
import subprocess
import sys
from fractions import Fraction
from itertools import combinations

import pytest

from conformance.vectors import FOLDER
from device.tiny_programs import (
    BOOLEAN,
    LETTER,
    ball,
    box,
    enumerated_ratio,
    joint,
    response,
    split,
    subset,
    window,
)
from privot import Randomizer, Schema
from privot.core.errors import PrivotError
from privot.device import Device
from privot.device.device import units_of
from privot.device.exact import Ratio, check_randomizer, exp_below, law_of, require_program
from privot.mechanisms.window_cells import WindowCells, WindowMixture
from privot.randomizer.integrity import seal, unseal
from privot.wire.draws import WORDS, Draw
from privot.wire.windows import WindowGeometry


def worst_ratio(draw, take):
    return Ratio(*Draw.from_dict(draw).worst_ratio(take["domain"]))


X, Y, MAYBE = box("x"), box("x", "y"), box("x", nullable=True)
DISK, QUADRANT = ball("x", "y", nullable=True), ball("x", "y", non_negative=True)
YES, SETS = (BOOLEAN, response(3, 2**61)), (LETTER, subset(4, 2, 2**62))
TINY = {
    "response": split(YES),
    "response that favors others": split((BOOLEAN, response(3, 7 * 2**60))),
    "subset": split(SETS),
    "subset that favors others": split((LETTER, subset(4, 1, 15 * 2**60))),
    "window": split((X, window(X))),
    "window of one cell": split((X, window(X, radius=0))),
    "window anywhere": split((X, window(X, anywhere=2**64))),
    "window, nullable": split((MAYBE, window(MAYBE))),
    "windows in a plane": split((Y, window(Y, 2, steps=2))),
    "windows in a disk": split((DISK, window(DISK, 2))),
    "windows in a quadrant": split((QUADRANT, window(QUADRANT, 2, radius=1, anywhere=2**63))),
    "a window a coordinate": split((Y, window(Y, steps=2, radius=0, blocks=2))),
    "several columns": split(YES, (MAYBE, window(MAYBE, steps=2, radius=0))),
    "joint": joint(),
    "joint and split": joint() | {k: v for k, v in split(YES).items() if k == "split"},
}
TINY["joint and split"]["split"]["reports"][0]["column"] = "yes"


@pytest.mark.parametrize("name", TINY)
def test_the_bound_is_what_all_reports_of_all_records_show(name):
    program = require_program(TINY[name])
    (total,) = law_of(program, 1.0).totals
    assert total == Ratio(enumerated_ratio(program))


def test_of_several_columns_those_of_the_largest_ratios_count():
    """The coins are public: given which columns they choose, a report is one of those columns."""
    noise = {"draw": "laplace", "dimension": 1, "ratio": ["8", "1"], "grid_bits": 2}
    reports = [YES, SETS, (X, window(X)), (box("z"), noise)]
    law = law_of(require_program(split(*reports, choose=2)), 3.0)
    found = [
        law_of(require_program(split(*some)), 3.0).total.above for some in combinations(reports, 2)
    ]
    assert law.total.above == max(found)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_randomizer_of_the_conformance_suite_is_proved_and_nearly_spends_its_promise(path):
    law = check_randomizer(json.loads(path.read_text(encoding="utf-8"))["randomizer"])
    assert law.holds
    spent = math.log(law.total.factor) + float(law.total.exponent)
    assert spent == pytest.approx(law.epsilon, rel=1e-6)
    assert not any(total.is_within(law.epsilon * (1 - 1e-6)) for total in [law.total])


@pytest.mark.parametrize("epsilon", [2.0**-20, 0.01, 0.7, 3.0, 12.5, 39.0])
@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("cells", [(1, 64, 9, "box", False), (2, 32, 5, "l2_ball", True)])
def test_window_ratios_are_at_most_e_to_the_epsilon(cells, nullable, epsilon):
    """Alone, and as blocks of one record that share an epsilon."""
    mixture = WindowMixture(WindowCells(*cells), epsilon, nullable)
    domain = box("x") if cells[3] == "box" else ball("x", "y", non_negative=cells[4])
    ratio = worst_ratio(mixture.program | {"blocks": 1}, domain).factor
    near, outside = len(mixture.cells.number_offsets), Fraction(mixture.words[1], WORDS)
    assert ratio == 1 + (1 - outside) * mixture.total / (outside * near)
    assert ratio <= exp_below(Fraction(epsilon))
    for blocks in (2, 3):
        each = WindowMixture(WindowCells(*cells), math.nextafter(epsilon / blocks, 0), False)
        assert worst_ratio(each.program | {"blocks": blocks}, domain).is_within(epsilon)


BALLS = [(1, 16, 2), (2, 8, 0), (2, 16, 3), (2, 32, 5), (3, 4, 1), (3, 8, 2)]


@pytest.mark.parametrize("non_negative", [False, True])
@pytest.mark.parametrize(("dimension", "steps", "radius"), BALLS)
def test_every_window_of_a_ball_is_among_the_cells_of_reports(
    dimension, steps, radius, non_negative
):
    """Of all cells that points of the ball round to: whose cubes have a point in it."""
    low = steps // 2 if non_negative else 0
    own = WindowGeometry(dimension, steps, radius, "l2_ball", low)
    reached = {own.report_cell(i) for i in range(own.num_report_cells)}
    grid = [[]]
    for _ in range(dimension):
        grid = [[*cell, k] for cell in grid for k in range(low, steps + 1)]
    inside = [cell for cell in grid if _touches_ball(cell, steps, non_negative)]
    assert len(inside) > 1
    for cell in inside:
        assert {own.number(cell) + own.offset(i) for i in range(own.window_size)} <= reached


def _touches_ball(cell, steps, non_negative):
    """Whether some u with ‖u‖ ≤ 1 has this cell: 2·cell − N is within 1 of N·u in each coordinate."""
    nearest = [max(0, abs(2 * k - steps) - 1) for k in cell]
    return sum(k * k for k in nearest) <= steps**2 and (not non_negative or min(cell) >= steps // 2)


def test_from_five_dimensions_on_a_window_of_a_ball_would_leave_the_cells_of_reports():
    """Why more than three are refused: rounding moves a point by √5/2 > 1 cell."""
    units = [odd / 16 * (1 + 2**-30) for odd in (9, 7, 7, 7, 5)]
    names = "abcde"
    assert units == units_of(ball(*names), dict(zip(names, units, strict=True)))  # in the ball
    cell = [round((u + 1) * 8) for u in units]
    assert sum((2 * k - 16) ** 2 for k in cell) > (16 + 2) ** 2
    with pytest.raises(PrivotError, match="dimension 5, which must be a whole number from 1 to 3"):
        require_program(split((ball(*names), window(ball(*names), 5, steps=16))))


@pytest.mark.parametrize("dimension", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("non_negative", [False, True])
def test_no_two_records_of_laplace_noise_are_farther_apart_than_the_bound(dimension, non_negative):
    names, bits, rng = "abcdefgh"[:dimension], 7, random.Random(1)
    take = ball(*names, non_negative=non_negative)
    draw = {"draw": "laplace", "dimension": dimension, "ratio": ["1", "1"], "grid_bits": bits}
    made = []
    for _ in range(300):
        point = [rng.choice((-1, 0, 1)) * rng.random() * 3 for _ in names]
        units = units_of(take, dict(zip(names, point, strict=True)))
        made.append([round(u * 2**bits) for u in units])
    farthest = max(
        sum(abs(i - j) for i, j in zip(first, second, strict=True))
        for first, second in combinations(made, 2)
    )
    bound = worst_ratio(draw, take).exponent
    assert bound.denominator == 1
    assert farthest <= bound <= 2**bits * 2 * math.sqrt(dimension) + dimension
    assert worst_ratio(draw, box(*names)).exponent == 2 * dimension * 2**bits


def test_a_promise_that_the_integers_exceed_is_refuted_and_no_device_draws_by_it():
    schema = Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [0, 100]')
    fields = unseal(Randomizer.calibrate(schema, 1.0).to_json())
    draw = fields["device"]["split"]["reports"][0]["draw"]
    draw["anywhere"] = f"{int(draw['anywhere'], 16) - 1:x}"
    text = seal(**fields)
    assert not check_randomizer(text).holds
    with pytest.raises(PrivotError, match="exceeds the epsilon"):
        Device.from_json(text)


@pytest.mark.parametrize("epsilon", [None, "1", True, -1.0, math.inf, math.nan])
def test_a_promise_that_is_none_is_refused(epsilon):
    schema = Schema.from_toml('[columns.yes]\nkind = "boolean"')
    fields = unseal(Randomizer.calibrate(schema, 1.0).to_json())
    fields["guarantee"]["epsilon"] = epsilon
    with pytest.raises(PrivotError, match="no promise"):
        check_randomizer(seal(**fields))


FIVE = 'kind = "vector"\ncolumns = ["a", "b", "c", "d", "e"]\nradius = 1'


@pytest.mark.parametrize(
    ("column", "how", "words"),
    [
        ('kind = "numeric"\nbounds = [0, 1]', {"mechanism": "gaussian"}, "'v'.*gaussian"),
        (FIVE, {}, "candidates"),
    ],
)
def test_what_publishes_no_integers_is_refused_with_the_remedy(column, how, words):
    delta = 1e-6 if how else 0.0
    text = Randomizer.calibrate(
        Schema.from_toml(f"[columns.v]\n{column}"), 2.0, delta, **how
    ).to_json()
    with pytest.raises(PrivotError, match=f"cannot be bounded: .*{words}.*without --exact"):
        check_randomizer(text)


def test_a_device_can_check_without_anything_but_python():
    code = (
        "import sys, privot.device.exact; print(sorted({m.split('.')[0] for m in sys.modules} "
        "- set(sys.stdlib_module_names) - {'privot'}))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert set(json.loads(done.stdout.replace("'", '"'))) <= {"__main__"}
