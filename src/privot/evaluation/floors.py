r"""Floors: lower bounds of the error of every estimator that sees n reports of a mechanism.

**Two laws.** If reports cannot tell P from Q, an estimate errs by half of their distance D for one of
them (Le Cam). With $H^2$ the squared Hellinger distance of a report's laws, n reports have the affinity
$ρ = (1 − H^2/2)^n$, and the mean errors over both are

$$ \mathbb E W_1 ≥ \tfrac12 D (1 − \sqrt{1 − ρ^2}), \qquad \mathbb E W_2^2 ≥ \tfrac14 D^2 ρ^2 . $$

**Families.** The share of people between two groups is $(1 + θ δ)/2$. Where the distance is a sum over
the decisions whether θ exceeds a level, θ may be uniform on [−1, 1] instead of ±1: then
$\int_0^1 (1 − u) β(H^2 u^2) du$ replaces a bound $β(H^2)$ (Ziv and Zakai). If every cell of the domain
has a θ of its own, errors of a person who knows all others add up (Assouad). Summed over all reports,
$(p − q)^2 / (4 b)$ bounds $H^2$, with b the least probability over all θ. docs/results/floors.md has the
proofs.

- *Places:* the groups on both sides of a band that nobody inhabits: who does is moved to its edge.
- *Numbers:* the halves of the law in cells of equal mass.
- *Categories:* pairs of equally frequent values.

**Privacy review.** Inputs are public numbers, and a law that was learned from reports.

References:
    Assouad, *Deux remarques sur l'estimation* (1983); Ziv, Zakai, *Some lower bounds on signal
    parameter estimation* (1969); Duchi, Jordan, Wainwright, *Minimax optimal procedures for locally
    private estimation* (2018).
"""

import math
from dataclasses import dataclass
from itertools import combinations
from typing import cast

import numpy as np
import scipy
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

_BANDS = 32  # along each axis, the steps of edges of bands
_LEAST_PART = 0.02  # of the people on one side of a band
_FARTHEST = 0.15  # W₂ by which people may be moved
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
        near: How these laws are made from the reference, in words.
        worst: Floor for all laws of the domain.
        private: Floor for all laws and all mechanisms of this ε.
        epsilon: ε of a report by itself.
    """

    error: float
    near: str
    worst: float
    private: float
    epsilon: float

    def words(self, measure: str, reference: str) -> str:
        """Return a sentence, given the name of the distance and of the reference."""
        error, worst, private = (at_least(e, 2) for e in (self.error, self.worst, self.private))
        return (
            f"every method errs by {measure} = {error} or more (bounds are −1 and 1) for some law that "
            f"is {reference} with {self.near}, by {worst} for some law at all, and, whatever the "
            f"mechanism of ε = {at_most(self.epsilon)} a report, by {private}"
        )


def floor_of_points(
    mechanism: Mechanism, column: Column, people: int, law: Law | None = None
) -> Floor | None:
    """Return the floor of W₁ for numbers, or of W₂ for places, of n reports by windows.

    `law` is the reference, by default uniform. Returns None for other mechanisms, for values that may be
    missing, outside of boxes of one or two coordinates, and near a law of nearly one place.

    Examples:
        >>> from privot import Schema
        >>> schema = Schema.from_toml('columns.age = {kind = "numeric", bounds = [0, 100]}')
        >>> mechanism = Randomizer.calibrate(schema, epsilon=1.0).mechanisms["age"]
        >>> floor = floor_of_points(mechanism, schema.columns["age"], people=10_000)
        >>> round(floor.error, 4), floor.near
        (0.0111, 'densities changed by up to 30%')
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
    epsilon = mechanism.guarantee().epsilon
    private = _private_floor(epsilon, people, form.dimension)
    if form.dimension == 1:
        error, tilt = _floor_of_numbers(form, people, *reference, _MOST_TILT)
        ends = np.array([[-1.0], [1.0]]), np.full(2, 0.5)
        worst = max(_floor_of_numbers(form, people, *family)[0] for family in (uniform, ends))
        near = f"densities changed by up to {percent_at_most(tilt, 2)}"
    else:
        error, moved, share = _floor_of_places(form, people, *reference)
        corners = np.array([[[0, 0]], [[form.steps, form.steps]]]), np.full((2, 1), 0.5)
        worst = _floor_of_groups(form, people, *corners, math.sqrt(8))[0]
        moved_people = f"a band emptied (by W2 = {at_most(moved, 2)} at most)"
        near = f"{moved_people} and up to {percent_at_most(share / 2, 2)} of people moved across it"
    worst = max(worst, error, private)
    return Floor(error, near, worst, private, epsilon) if error else None


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


def _floor_of_places(
    form: WindowForm, people: int, points: Array, weights: Array
) -> tuple[float, float, float]:
    """Return the floor of the widest band near a law, the W₂ that empties it, and the largest δ."""
    cells, unit = np.rint((points + 1) * (form.steps / 2)).astype(np.int64), 2 / form.steps
    place, bands = np.arange(form.steps + 1), list[tuple[float, float, int, int, int]]()
    for axis in (0, 1):
        mass = np.bincount(cells[:, axis], weights, len(place))
        for low, high in combinations(range(0, len(place), form.steps // _BANDS), 2):
            moved = mass @ np.minimum(place - low, high - place).clip(0) ** 2
            part = mass[2 * place >= low + high].sum()
            if min(part, 1 - part) >= _LEAST_PART:
                bands.append(((high - low) * unit, math.sqrt(moved) * unit + unit, axis, low, high))

    if not bands:
        return 0.0, 0.0, 0.0
    near = [band for band in bands if band[1] <= _FARTHEST]
    width, moved, axis, low, high = max(near) if near else min(bands, key=lambda band: band[1])
    upper, line = 2 * cells[:, axis] >= low + high, cells[:, axis]
    cells[:, axis] = np.where(upper, line.clip(high), line.clip(None, low))
    sides = np.stack([weights * ~upper, weights * upper])
    error, share = _floor_of_groups(form, people, np.stack([cells, cells]), sides, width)
    return error, moved, share


def _floor_of_groups(
    form: WindowForm, people: int, cells: NDArray[np.int64], weights: Array, distance: float
) -> tuple[float, float]:
    """Return the floor of root mean W₂² for two groups (2, m) this far apart along a line, and its δ."""
    width, radius = form.shape_of_cells[0], form.radius
    window = np.zeros((width, width))
    window[tuple((form.offsets + radius).T)] = 1.0
    transform, laws = scipy.fft.rfft2(window), []
    for place, weight in zip(cells, weights, strict=True):
        law = np.zeros((width, width))
        np.add.at(law, tuple(place.T), weight / weight.sum())
        near = scipy.fft.irfft2(scipy.fft.rfft2(law) * transform, law.shape).clip(0.0, 1.0)
        laws.append(form.outside + (form.inside - form.outside) * near)
    parts, found = weights.sum(axis=1) / weights.sum(), [(0.0, 0.0)]
    mean, change = parts[0] * laws[0] + parts[1] * laws[1], np.abs(laws[0] - laws[1])
    for goal in _GOALS:
        share = _SHARES[0]  # δ: the share that θ = 1 has more than θ = −1 on one side
        for _ in range(3):
            least = np.maximum(mean - share / 2 * change, form.outside)
            hellinger = float(((share * change) ** 2 / 4 / least).sum())
            last, growth = share, math.sqrt(goal / max(people * hellinger, 1e-300))
            share = min(2 * parts.min(), share * growth)
        confusion = max(_confusion(np.array(hellinger), people, 2))
        found.append((distance**2 * last / 4 * float(confusion), float(last)))
    squared, share = max(found)
    return math.sqrt(squared), share


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
    cells = np.arange(1.0, 500 if dimension == 1 else 2)[:, None]
    confusion = _confusion(_private_hellinger(epsilon, cells, _SHARES), people, dimension)
    errors = _SHARES * np.maximum(*confusion)
    if dimension == 2:
        return math.sqrt(2 * errors.max())
    return float((errors * np.where(cells == 1, 1.0, 0.5 / cells)).max())


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
