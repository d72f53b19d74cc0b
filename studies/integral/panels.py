r"""Densities to look at: the truth, the public reference, and what each method makes of 10 000 records.

    python -m studies integral.panels ring --rows docs/results/integral -o densities_ring.png

Like the paper's figures 1 and 4, by quadrature and not by draws: a plane as panels, a line as curves.
The records are those of `integral.curves` with the seed given, and so are the methods; the settings of
the Bernstein mechanism are the best that `integral.bernstein` found, read from its rows in `--rows`. A
picture of a density is **not** private: these records are of nobody.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from privot.core.errors import PrivotError
from privot.integral.references import StandardNormal
from privot.report.panels import (
    DIM,
    INK,
    LEARNED,
    LIGHT,
    MUTED,
    NIGHT,
    PRIVATE,
    new_figure,
    save_png,
    styled,
)
from studies.common.densities import Array, Grid
from studies.common.rows import read_rows, select
from studies.integral.curves import (
    TOGETHER,
    fit_ratio,
    mean_of_draws,
    published_log_density,
    records_of,
)
from studies.integral.targets import TARGETS
from studies.rivals.bernstein import fit_bernstein

# Method, and whose ε it is.
METHODS = {
    "clipped ratio": ("Clipped ratio, one draw", "ε for any two data sets"),
    "together": ("50 draws together", "50 ε for any two data sets"),
    "Bernstein": ("Bernstein mechanism", "ε for one person, of 10 000"),
    "MBDE, published": ("MBDE, as its code is", "claims ε, and exceeds it"),
}
_COLORS = {
    "clipped ratio": LEARNED,
    "together": "#c0392b",
    "Bernstein": PRIVATE,
    "MBDE, published": "#e3a199",
}
_GAMMA = 0.6  # of the colors: faint places can be told from none
_SIDE, _GAP, _NAMES, _TOP = 1.95, 0.1, 0.34, 0.4  # inches
_SHOWN = 3.2  # of each coordinate, to either side
Densities = Mapping[tuple[str, float], Array]


def densities(
    target: str, epsilons: Sequence[float], seed: int, rows: Path
) -> Iterator[tuple[tuple[str, float], Array]]:
    """(Method, ε) and the density at the nodes of the target's grid."""
    mixture, records = TARGETS[target](seed), records_of(target, seed)
    grid = mixture.grid()
    for epsilon in epsilons:
        clipped = fit_ratio(target, seed, "clipped ratio", epsilon)
        logs = clipped.log_unnormalized(grid.points)
        yield ("clipped ratio", epsilon), grid.normalized(logs)[0]
        yield ("together", epsilon), mean_of_draws(clipped, grid, TOGETHER)
        degree, bandwidth, positivity = best_settings(rows, target, epsilon)
        released = fit_bernstein(
            records,
            mixture.lower,
            mixture.upper,
            epsilon,
            degree=degree,
            bandwidth=bandwidth,
            positivity=positivity,
        )
        yield ("Bernstein", epsilon), released.density(grid.axes)
        logs = published_log_density(mixture, records, grid, epsilon, False, seed)
        yield ("MBDE, published", epsilon), grid.normalized(logs)[0]


def best_settings(rows: Path, target: str, epsilon: float) -> tuple[int, float, Any]:
    """Degree, bandwidth and positivity that the search found for the smaller noise.

    Raises:
        PrivotError: if there are no rows of that target and ε.
    """
    found = read_rows(rows, f"curves_{target}_bernstein")
    found = select(found, epsilon=epsilon, method="Bernstein, lattice noise")
    if not found:
        raise PrivotError(
            f"rows {rows} hold no Bernstein mechanism of {target} at this ε: run integral.bernstein"
        )
    degree, bandwidth, positivity = found[0]["settings"].split("|")
    return int(degree), float(bandwidth), positivity


def draw_plane(grid: Grid, truth: Array, public: Array, learned: Densities) -> Figure:
    """Truth and reference, large; beside them a row a method and a column an ε, in the same colors."""
    epsilons = sorted({epsilon for _, epsilon in learned})
    cell, tall = _SIDE + _GAP, _SIDE + _NAMES + _GAP
    large = (len(METHODS) * tall - 2 * _NAMES) / 2 - _GAP / 2
    width = large + 3 * _GAP + len(epsilons) * cell + _GAP
    height = _TOP + len(METHODS) * tall
    figure = new_figure(width, height)
    figure.set_layout_engine(None)
    figure.set_facecolor(NIGHT)
    norm = PowerNorm(_GAMMA, 0.0, float(truth.max()))

    def place(x: float, y: float, side: float, values: Array) -> Axes:
        """A square whose upper left corner is `x`, `y` inches from the figure's."""
        box = (x / width, 1 - (y + side) / height, side / width, side / height)
        axis = figure.add_axes(box)
        axis.set_axis_off()
        seen = np.abs(grid.axes[0]) < _SHOWN
        square = values.reshape(grid.num_cells, -1).T[np.ix_(seen, seen)]
        axis.imshow(square, origin="lower", cmap=LIGHT, norm=norm, interpolation="bilinear")
        return axis

    def say(x: float, y: float, words: str, size: float, **more: Any) -> None:
        figure.text(x / width, 1 - y / height, words, fontsize=size, va="bottom", **more)

    top = _TOP + _NAMES - 0.06
    for i, (name, values) in enumerate((("Truth", truth), ("Public reference, N(0, I)", public))):
        y = _TOP + _NAMES + i * (large + _NAMES + _GAP)
        place(_GAP, y, large, values)
        say(_GAP, y - 0.06, name, 12, color="white", weight="bold")
    left = large + 3 * _GAP
    for j, epsilon in enumerate(epsilons):
        say(left + j * cell, top - _NAMES, f"ε = {epsilon:g}", 13, color="#ffd27a")
        for i, (method, (name, whose)) in enumerate(METHODS.items()):
            y = _TOP + _NAMES + i * tall
            place(left + j * cell, y, _SIDE, learned[method, epsilon])
            if j == 0:
                say(left, y - 0.06, name, 11, color="white", weight="bold")
            if j == 1:
                say(left + cell + 0.12, y - 0.06, whose, 10, color=DIM)
    return figure


def draw_line(grid: Grid, truth: Array, public: Array, learned: Densities) -> Figure:
    """A panel an ε: the truth filled, the reference dotted, a curve a method."""
    epsilons = sorted({epsilon for _, epsilon in learned})
    x, shown = grid.axes[0], np.abs(grid.axes[0]) < _SHOWN
    with styled():
        figure = new_figure(4.0 * len(epsilons), 3.6)
        axes = figure.subplots(1, len(epsilons), sharey=True, squeeze=False)[0]
        for axis, epsilon in zip(axes, epsilons, strict=True):
            axis.fill_between(x[shown], truth[shown], color="#e4e8f0", lw=0, label="truth")
            axis.plot(x[shown], public[shown], ":", color=MUTED, lw=1.4, label="reference")
            for method, (name, whose) in METHODS.items():
                dashes = (0, (4, 2)) if method == "MBDE, published" else "-"
                values = learned[method, epsilon][shown]
                axis.plot(
                    x[shown],
                    values,
                    color=_COLORS[method],
                    ls=dashes,
                    lw=1.7,
                    label=f"{name} ({whose})",
                )
            axis.set_title(f"ε = {epsilon:g}", fontweight="bold", color=INK)
            axis.set_ylim(0, 1.12 * float(truth.max()))
            axis.set_yticks([])
            axis.spines["left"].set_visible(False)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("target", choices=list(TARGETS))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 2.0, 5.0, 10.0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=Path, default=Path("docs/results/integral"))
    parser.add_argument("-o", "--output", type=Path, required=True)


def run(chosen: argparse.Namespace) -> None:
    """One picture of one target."""
    mixture = TARGETS[chosen.target](chosen.seed)
    grid = mixture.grid()
    learned = dict(densities(chosen.target, chosen.epsilons, chosen.seed, chosen.rows))
    truth = mixture.density(grid)
    public = grid.normalized(StandardNormal(mixture.dim).log_density(grid.points))[0]
    draw = draw_line if mixture.dim == 1 else draw_plane
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    save_png(draw(grid, truth, public, learned), chosen.output, dpi=110)
