r"""Floors: lower bounds of the error of every estimator that sees n reports of a mechanism.

The law of the records is one of a family: **cell** j has the mass $m_j$, of which the share
$(1 ± θ_j δ_j)/2$ has the law $ν_j^±$. If all $θ_j = ±1$ are equally likely, the mean error is at least
the sum over j of the error of a person who knows all θ but $θ_j$ (Assouad). With $H_j^2$ the squared
Hellinger distance of a report's laws for both values, at most over the other θ, and
$ρ_j^2 = (1 − H_j^2/2)^{2n}$,

$$ \mathbb E W_1 ≥ \sum_j \tfrac12 D_j \big( 1 − \sqrt{1 − ρ_j^2} \big), \qquad
\mathbb E W_2^2 ≥ \sum_j \tfrac14 D_j^2 ρ_j^2, $$

where $D_j$ is the transport distance of both laws within the cell, to whose boundary mass may be moved
as well (Figalli and Gigli). In total variation, on the line, and for a single cell, θ may also be
uniform on [−1, 1]: then $\int_0^1 (1 − u) β(H^2 u^2) du$ replaces a bound $β(H^2)$ (Ziv and Zakai). The
proofs are in docs/results/floors.md.

- *Places:* the people of a rectangle stand at two points, 2a apart and $\sqrt2 a$ from the boundary.
- *Numbers:* $ν_j^±$ are the halves of the law in a cell of equal mass.
- *Categories:* pairs of equally frequent values.

$H_j^2 ≤ \int (p − q)^2 / (4 b)$ is summed over all reports, with b the least probability over all θ.

**Privacy review.** Inputs are public numbers, and a law that was learned from reports.

References:
    Assouad, *Deux remarques sur l'estimation* (1983); Ziv, Zakai, *Some lower bounds on signal
    parameter estimation* (1969); Figalli, Gigli, *A new transportation distance between non-negative
    measures* (2010); Duchi, Jordan, Wainwright, *Minimax optimal procedures for locally private
    estimation* (2018).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from privot.local.grid_channels import GridDensity
from privot.local.model import LocalModel
from privot.mechanisms import Mechanism
from privot.mechanisms.forms import WindowForm
from privot.privacy.rounding import at_least, at_most, percent_at_most
from privot.randomizer import Randomizer
from privot.randomizer.information import Incidence
from privot.schema import Column
from privot.schema.domains import Array

_SHIFT = 1 / (2 + 2 * math.sqrt(2))  # a of a rectangle of width 1
_FIRST_CELLS = (
    (5, 3),
    (7, 4),
)  # rows and columns of rectangles, whose sides are halved again and again
_WORTHWHILE = 0.8  # least mean W₂² of a lattice that is divided, relative to the largest
_MOST_RUNS = 500_000  # rows of all windows of a lattice
_FARTHEST = 8.0  # farther families count less: W₂ from the given law, relative to the floor
_CELLS_OF_NUMBERS = (1, 2, 3, 4, 6, 8, 12, 16)
_MOST_TILT = 0.3  # δ of numbers near a law
_NODES = 128  # along each axis, of the uniform law
_GOALS = 0.5, 9.0  # n H² of a good δ, for two values of θ and for all between them
_SHARES = np.geomspace(1e-4, 0.9, 60)  # δ, where it is searched
_ROUNDING = 1.001  # of H²
Law = tuple[Array, Array]  # points (m, d) in unit coordinates, and their weights (m,)


@dataclass(frozen=True)
class Floor:
    """Errors that no estimator undercuts for all laws of a family, in unit coordinates.

    Arguments:
        error: Floor for laws near a reference; of W₂, the root of its mean square.
        near: Distance of these laws from the reference, in words.
        worst: Floor for all laws of the domain.
        private: Floor for all laws and all mechanisms of the same ε.
    """

    error: float
    near: str
    worst: float
    private: float

    def words(self, measure: str, reference: str) -> str:
        """Return a sentence, given the name of the distance and of the reference."""
        error, worst, private = (at_least(e, 2) for e in (self.error, self.worst, self.private))
        return (
            f"every method errs by {measure} = {error} or more for some of the {self.near} of "
            f"{reference}, by {worst} for some law at all, and with any mechanism by {private}"
        )


def floor_of_points(
    mechanism: Mechanism, column: Column, people: int, law: Law | None = None
) -> Floor | None:
    """Return the floor of W₁ for numbers, or of W₂ for places, of n reports by windows.

    `law` is the reference, by default uniform. Returns None for other mechanisms, for values that may be
    missing, and outside of boxes of one or two coordinates.

    Examples:
        >>> from privot import Schema
        >>> schema = Schema.from_toml('columns.age = {kind = "numeric", bounds = [0, 100]}')
        >>> mechanism = Randomizer.calibrate(schema, epsilon=1.0).mechanisms["age"]
        >>> floor = floor_of_points(mechanism, schema.columns["age"], people=10_000)
        >>> round(floor.error, 4), floor.near
        (0.0111, 'densities within 30%')
    """
    if mechanism.kind != "window":
        return None
    form = cast(WindowForm, mechanism.point_form(column))
    if (form.shape, form.area, form.nullable) != ("ball", "box", False) or form.dimension > 2:
        return None
    axis = (np.arange(_NODES) + 0.5) * (2 / _NODES) - 1
    points = np.stack(np.meshgrid(*[axis] * form.dimension, indexing="ij"), -1)
    points = points.reshape(-1, form.dimension)
    uniform = points, np.full(len(points), 1 / len(points))
    reference: Law = uniform if law is None else law
    private = _private_floor(mechanism.guarantee().epsilon, people, form.dimension)
    if form.dimension == 1:
        error, tilt = _floor_of_numbers(form, people, *reference, _MOST_TILT)
        ends = np.array([[-1.0], [1.0]]), np.full(2, 0.5)
        worst = max(_floor_of_numbers(form, people, *family)[0] for family in (uniform, ends))
        near = f"densities within {percent_at_most(tilt, 2)}"
    else:
        error, moved = _floor_of_places(form, people, *reference)
        worst = math.sqrt(_tuned(form, _lattice((1, 1), *uniform, shift=0.5), people)[1].sum())
        near = f"laws within {at_most(moved, 2)}"
    return Floor(error, near, max(worst, error, private), private)


def floor_of_model(model: LocalModel) -> Floor | None:
    """Return the floor near the law of a map or of numbers that was fitted to one release."""
    density: GridDensity | None = getattr(model.sampler, "density", None)
    if density is None or density.missing:
        return None
    ((name, mechanism),) = model.randomizer.mechanisms.items()
    axes = [np.linspace(-1, 1, size) for size in density.weights.shape]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))
    law = points, density.weights.ravel() / density.weights.sum()
    return floor_of_points(
        mechanism, model.schema.columns[name], model.made_with["num_reports"], law
    )


class _Cells(NamedTuple):
    """Rectangles, with the masses m and the shares δ of the family of places."""

    low: Array  # lower corners (K, 2)
    high: Array  # upper corners (K, 2)
    mass: Array  # m (K,)
    spread: Array  # ∫ of the squared distance by which people move at most (K,)
    shift: Array  # a (K,), along the second axis
    share: Array  # δ (K,)

    def chosen(self, mask: NDArray[np.bool_]) -> "_Cells":
        return _Cells(*(values[mask] for values in self))


def _number(points: Array, counts: tuple[int, int]) -> NDArray[np.int64]:
    """Return the number (m,) of the rectangle of a lattice in which each point (m, 2) lies."""
    index = np.clip(((points + 1) / 2 * counts).astype(np.int64), 0, np.array(counts) - 1)
    return np.ravel_multi_index(tuple(index.T), counts)


def _lattice(
    counts: tuple[int, int], points: Array, weights: Array, shift: float = _SHIFT
) -> _Cells:
    """Divide the square into rows and columns, with the masses of a law."""
    index = np.indices(counts).reshape(2, -1).T
    low, high = 2 * index / counts - 1, 2 * (index + 1) / counts - 1
    number = _number(points, counts)
    away = np.abs(points - (low + high)[number] / 2)
    away[:, 1] += 2 * shift / counts[1]
    mass = np.bincount(number, weights, len(index)).astype(np.float64)
    spread = np.bincount(number, weights * (away**2).sum(axis=1), len(index)).astype(np.float64)
    shifts = np.full(len(index), 2 * shift / counts[1])
    return _Cells(low, high, mass, spread, shifts, np.full(len(index), _SHARES[0])).chosen(mass > 0)


def _floor_of_places(
    form: WindowForm, people: int, points: Array, weights: Array
) -> tuple[float, float]:
    """Return the best floor over divisions, and the W₂ within which its family lies."""
    found = []
    for rows, columns in _FIRST_CELLS:
        lattices, sums = list[tuple[tuple[int, int], _Cells, Array]](), [0.0]
        most = min(_MOST_RUNS / (2 * form.radius + 1), form.steps**2 / 16)  # rectangles
        while sums[-1] >= _WORTHWHILE * max(sums) and rows * columns << 2 * len(lattices) < most:
            counts = rows << len(lattices), columns << len(lattices)
            cells, parts = _tuned(form, _lattice(counts, points, weights), people)
            lattices.append((counts, cells, parts))
            sums.append(parts.sum())
        for counts, whole, own in reversed(lattices):  # the better of each rectangle and its parts
            numbers, inside = (_number((c.low + c.high) / 2, counts) for c in (whole, cells))
            undivided = own >= np.bincount(inside, parts, math.prod(counts))[numbers]
            divided = ~np.isin(inside, numbers[undivided])
            pairs = zip(whole.chosen(undivided), cells.chosen(divided), strict=True)
            cells = _Cells(*map(np.concatenate, pairs))
            parts = np.concatenate((own[undivided], parts[divided]))
            joint = math.sqrt(_tuned(form, cells, people)[1].sum())
            found.append((joint, math.sqrt(cells.spread.sum())))
    return max(found, key=lambda pair: pair[0] * min(1.0, _FARTHEST * pair[0] / pair[1]))


def _tuned(form: WindowForm, cells: _Cells, people: int) -> tuple[_Cells, Array]:
    """Return the cells with good shares δ, and their parts (K,) of the mean W₂²."""
    alone = len(cells.mass) == 1 and bool((cells.high - cells.low).min() == 2)  # the whole square
    for _ in range(2):
        hellinger = _hellinger(form, cells)[0]
        growth = np.sqrt(_GOALS[alone] / np.maximum(people * hellinger, 1e-300))
        cells = cells._replace(share=np.minimum(1.0, cells.share * growth))
    hellinger, ends = _hellinger(form, cells)
    low, high = np.where(cells.low <= -1, -9, cells.low), np.where(cells.high >= 1, 9, cells.high)
    depths = [np.minimum(end - low, high - end).min(axis=1).clip(0.0) ** 2 for end in ends]
    square = np.minimum(((ends[0] - ends[1]) ** 2).sum(axis=1), depths[0] + depths[1])
    by_two, by_all = _confusion(hellinger, people, 2)
    error = np.maximum(by_two, by_all) if alone else by_two
    return cells, cells.mass * cells.share * square / 4 * error


def _hellinger(form: WindowForm, cells: _Cells) -> tuple[Array, list[Array]]:
    """Return upper bounds of H² (K,), and the two records (K, 2) of the cells' points.

    Along each row of report cells, a window is one run of cells, and two windows overlap in one run.
    """
    radius, width = form.radius, form.shape_of_cells[0]
    points = [(cells.low + cells.high) / 2 + np.outer(s * cells.shift, [0, 1]) for s in (-1, 1)]
    records = [np.rint((point + 1) * (form.steps / 2)).astype(np.int64) for point in points]
    up = np.arange(-radius, radius + 1)
    half = np.array([math.isqrt(radius**2 - u * u) for u in up.tolist()])
    row = records[0][:, :1] + radius + up
    first, second = (record[:, 1:] + radius for record in records)
    one_mass, both = cells.mass * (1 - cells.share) / 2, cells.mass * cells.share
    runs = [(place - half, place + half + 1, one_mass) for place in (first, second)]
    runs.append((second - half, np.maximum(first + half + 1, second - half), both))
    steps = np.zeros((width, width + 1))
    for low, high, mass in runs:
        np.add.at(steps, (row, low), mass[:, None])
        np.add.at(steps, (row, high), -mass[:, None])
    excess = form.inside - form.outside
    least = form.outside + excess * np.maximum(np.cumsum(steps, axis=1)[:, :-1], 0.0)
    inverse = np.pad(np.cumsum(1 / least, axis=1), ((0, 0), (1, 0)))
    one, other, overlap = (
        (inverse[row, end] - inverse[row, start]).sum(axis=1) for start, end, _ in runs
    )
    bound = (both * excess) ** 2 / 4 * (one + other - 2 * overlap)
    return bound, [np.asarray(record * (2 / form.steps) - 1, np.float64) for record in records]


def _confusion(hellinger: Array, people: int, order: int) -> tuple[Array, Array]:
    """Return the bound β for W₁ (order 1) or W₂² (2), and ∫ (1 − u) β(H² u²) du from below."""
    u = np.append(np.arange(1, 65) / 64, 1.0).reshape(-1, *[1] * np.ndim(hellinger))
    distance = np.minimum(hellinger * u**2 * _ROUNDING, 1.9)
    bound = np.exp(2 * people * np.log1p(-distance / 2))  # ρ²
    bound = bound if order == 2 else 1 - np.sqrt(1 - bound)
    return bound[-1], ((1 - u) * bound)[:-1].mean(axis=0)


def _floor_of_numbers(
    form: WindowForm, people: int, points: Array, weights: Array, most: float = 1.0
) -> tuple[float, float]:
    """Return the largest floor over numbers of cells with δ ≤ `most`, and its largest δ."""
    order, best = np.argsort(points[:, 0]), (0.0, 0.0)
    cells = np.rint((points[order, 0] + 1) * (form.steps / 2)).astype(np.int64)
    ends = np.pad(np.cumsum(weights[order]), (1, 0))
    reports = np.arange(-form.radius, form.steps + form.radius + 1)
    near = np.abs(reports - cells[:, None]) <= form.radius
    for count in _CELLS_OF_NUMBERS:
        levels = np.arange(2 * count + 1) / (2 * count)
        levels[-1] = ends[-1]
        within = np.minimum(ends[1:], levels[1:, None]) - np.maximum(ends[:-1], levels[:-1, None])
        halves = np.maximum(within, 0.0).reshape(count, 2, -1) * (2 * count)  # of each cell's mass
        gap = np.abs(np.cumsum(halves[:, 0] - halves[:, 1], axis=1))[:, :-1] @ np.diff(cells)
        low, high = np.moveaxis(halves @ np.where(near, form.inside, form.outside), 1, 0)
        for goal in _GOALS:
            share = np.full((count, 1), _SHARES[0])
            for _ in range(3):
                least = (1 - share) / 2 * (low + high) + share * np.minimum(low, high)
                hellinger = ((share * (high - low) / count) ** 2 / 4 / least.mean(axis=0)).sum(
                    axis=1
                )
                last, growth = share[:, 0], np.sqrt(goal / np.maximum(people * hellinger, 1e-300))
                share = np.minimum(most, share * growth[:, None])
            error = np.maximum(*_confusion(hellinger, people, 1))
            distance = last / count * gap * (2 / form.steps)
            best = max(best, (float((distance / 2 * error).sum()), float(last.max())))
    return best


def _private_hellinger(epsilon: float, bits: Array, share: Array) -> Array:
    r"""Return the largest mean H² of K bits of equal cells, over all ε-private mechanisms.

    The likelihood g of a report is in [c, c e^ε], and $\sum_j (\int g \, d(p−q)_j)^2 / (\int g \, dP)^2$
    is convex, so largest if g is c e^ε for a share τ ≤ ½ of the people, and c for all others.
    """
    grown = math.expm1(min(epsilon, 50.0))
    part = min(0.5, 1 / grown)
    contracted = part * (grown * share / (bits * (1 + grown * part))) ** 2 / 2 / (1 - share)
    return np.minimum(contracted, (2 - 2 * np.sqrt(1 - share**2)) / bits)


def _private_floor(epsilon: float, people: int, dimension: int) -> float:
    """Return the floor of W₁ (d = 1) or W₂ (d = 2) for all laws and all ε-private mechanisms.

    A single cell has two points at opposite ends; on the line, more cells have uniform halves.
    """
    columns = np.unique(np.geomspace(1, 500, 60).astype(int))[:, None]
    rows = np.ones_like(columns) if dimension == 1 else np.rint(columns / (_SHIFT * math.sqrt(8)))
    rows[0], alone = 1, columns == 1
    hellinger = _private_hellinger(epsilon, rows * columns, _SHARES)
    by_two, by_all = _confusion(hellinger, people, dimension)
    if dimension == 1:
        length = np.where(alone, 2.0, 1 / columns)
        return float((_SHARES * length / 2 * np.maximum(by_two, by_all)).max())
    shift = np.where(alone, 1.0, np.minimum(2 * _SHIFT / columns, math.sqrt(0.5) / rows))
    error = np.where(alone, np.maximum(by_two, by_all), by_two)
    return math.sqrt((_SHARES * shift**2 * error).max())


def floor_of_codes(randomizer: Randomizer, people: int) -> float | None:
    """Return the floor of the mean total variation of a table's columns, and so of its pairs.

    Columns are independent, nearly uniform. Returns None unless all are reported jointly, in one coding.

    Examples:
        >>> from privot import Schema
        >>> schema = Schema.from_toml('columns.sick = {kind = "boolean"}')
        >>> round(floor_of_codes(Randomizer.calibrate(schema, epsilon=1.0), people=10_000), 4)
        0.0054
    """
    joint = randomizer.joint
    if joint is None or joint.design.columns != list(randomizer.schema.columns):
        return None
    if any(len(coding) > 1 for coding in joint.design.codings.values()):
        return None
    sizes, weights = joint.design.sizes, np.array(joint.design.weights, np.float64)
    incidence = Incidence.of(joint.design.forms, sizes, joint.epsilon)
    # ι is χ² of reports over χ² of shares; other columns of a form are not quite uniform.
    iota, length = incidence.information(weights / weights.sum())[0], joint.design.lengths[1]
    others = (1 + _SHARES**2) ** (length - 1) / (1 - _SHARES) ** length
    errors = []
    for size, information in zip(sizes, iota, strict=True):
        hellinger = 2 * information * _SHARES**2 / size * others
        confusion = np.maximum(*_confusion(hellinger, people, 1))
        errors.append((size // 2 * _SHARES / size * confusion).max())
    return float(np.mean(errors))
