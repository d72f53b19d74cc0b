r"""How long a projected difference is: the law behind DP-SWD's sensitivity, and its published bounds.

For a unit vector z and k independent uniform directions in d dimensions, $H = \|z^⊤ U\|^2$ is a sum of
k variables $Y_j \sim \mathrm{Beta}(½, (d−1)/2)$ (Rakotomamonjy, Ralaivola 2021, Lemma 1, Figures 1, 7).
The paper bounds H with probability 1 − δ by Bernstein's inequality, or by the quantile of the normal law
of the same mean and variance. H is skewed to the right: the latter is exceeded more often than δ, and
the more so the smaller δ is.

Of a vector z of another length, $(z^⊤ u)^2 = \|z\|^2 Y$: the square of the length, where the paper's
Remark 4 has the length itself. The mean is $\|z\|^2 / d$: squares along d orthogonal directions add up.

The law is computed by one Fourier transform, each $Y_j$ rounded to the nearest of $2^{18}$ cells.

Usage:
    python -m studies sliced.lengths -o docs/results/central
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from privot.report.panels import INK, LEARNED, MUTED, PRIVATE, new_figure, save_png, styled
from studies.rivals.published_slice_bounds import published_bernstein, published_clt

DIM, COUNTS = 784, (200, 1000)
_CELLS = 2**18
DELTAS = (1e-2, 1e-3, 1e-4, 1e-5, 5e-6)


@lru_cache(maxsize=4)
def law_of_sum(num_projections: int, dim: int = DIM) -> tuple[np.ndarray, np.ndarray]:
    """Values of H and their probabilities, up to four times its mean."""
    top = 4 * num_projections / dim
    edges = (np.arange(_CELLS + 1) - 0.5) * top / _CELLS
    single = np.diff(stats.beta.cdf(edges.clip(0, 1), 0.5, (dim - 1) / 2))
    sums = np.fft.irfft(np.fft.rfft(single) ** num_projections, _CELLS)
    return np.arange(_CELLS) * top / _CELLS, sums.clip(0)


def exceeded(num_projections: int, delta: float, dim: int = DIM) -> float:
    """How often H is above the normal approximation's bound, over the δ that it claims."""
    values, weights = law_of_sum(num_projections, dim)
    return float(weights[values > published_clt(dim, num_projections, delta)].sum() / delta)


def mean_of_square(norm: float, dim: int = 5, draws: int = 100_000) -> float:
    """Return the mean of ⟨z, u⟩² for ‖z‖ = `norm`, over seeded random directions u."""
    directions = np.random.default_rng(0).standard_normal((draws, dim))
    cosines = directions[:, 0] / np.linalg.norm(directions, axis=1)
    return float(((norm * cosines) ** 2).mean())


def draw() -> Figure:
    """One slice in five dimensions; the sum of 200 in 784; and its right tail."""
    with styled():
        figure = new_figure(12, 3.6)
        left, middle, right = figure.subplots(1, 3)
        y = np.linspace(1e-3, 1, 400)
        left.fill_between(y, stats.beta.pdf(y, 0.5, 2.0), color="#e4e8f1")
        left.plot(y, stats.beta.pdf(y, 0.5, 2.0), color=PRIVATE)
        left.set_ylim(0, 6)
        left.set_title("One squared projection, d = 5", fontsize=10, fontweight="bold")
        _draw_tail(middle, right)
    return figure


def _draw_tail(middle: Axes, right: Axes) -> None:
    count = COUNTS[0]
    values, weights = law_of_sum(count)
    mean, spread = count / DIM, np.sqrt(2 * count * (DIM - 1) / (DIM + 2)) / DIM
    normal = stats.norm(mean, spread)
    grid = np.linspace(mean - 4 * spread, mean + 7 * spread, 300)
    above = np.cumsum(weights[::-1])[::-1]
    density = np.interp(grid, values, weights) / (values[1] - values[0])
    middle.fill_between(grid, density, color="#e4e8f1", label=f"sum of {count}, d = {DIM}")
    middle.plot(grid, normal.pdf(grid), color=LEARNED, label="normal law")
    middle.axvline(
        published_clt(DIM, count, 1e-5), ymax=0.6, color=INK, linestyle=":", label="CLT, δ = 1e-5"
    )
    middle.plot([], [], " ", label=f"Bernstein: {published_bernstein(DIM, count, 1e-5):.2f}")
    middle.set_title("The sum looks normal …", fontsize=10, fontweight="bold")
    right.semilogy(grid, np.interp(grid, values, above), color=PRIVATE, label="above, truly")
    right.semilogy(grid, normal.sf(grid), color=LEARNED, label="above, normal law")
    right.axhline(1e-5, color=MUTED, linewidth=1, label="δ = 1e-5")
    right.set_ylim(1e-8, 1.5)
    right.set_title("… but not in its right tail", fontsize=10, fontweight="bold")
    for axis in (middle, right):
        axis.legend(fontsize=8)


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/results/central"))


def run(chosen: argparse.Namespace) -> None:
    """The picture, and how often the approximation is exceeded."""
    save_png(draw(), chosen.output / "lengths.png")
    for count in COUNTS:
        often = ", ".join(f"{exceeded(count, delta):.2f} at δ = {delta:g}" for delta in DELTAS)
        print(f"{count} directions: exceeded by times δ: {often}")
