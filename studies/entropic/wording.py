"""How losses and both ε are named and colored on pages and pictures."""

from __future__ import annotations

from matplotlib.axes import Axes

from privot.report.style import INK, LEARNED, PRIVATE, RECEIVED
from studies.common.rows import Row, in_order, select

TITLES = {
    "entropic": "Entropic",
    "self_corrected": "Self-corrected",
    "unregularized": "Unregularized",
    "sinkhorn_divergence": "Sinkhorn divergence",
    "noisy_wasserstein": "Noisy Wasserstein",
}
COLORS = {
    "entropic": LEARNED,
    "self_corrected": "#c0392b",
    "unregularized": RECEIVED,
    "sinkhorn_divergence": PRIVATE,
    "noisy_wasserstein": PRIVATE,
}


def draw_losses(axis: Axes, row: Row, across: str, quantity: str, title: str, floor: float) -> None:
    """A quantity of a sweep's points, a line a loss, and its value for clean images."""
    for loss in in_order(row["points"], "loss"):
        found = select(row["points"], loss=loss)
        axis.plot(
            [p[across] for p in found], [p[quantity] for p in found], "o-",
            color=COLORS[loss], markersize=4, label=TITLES[loss],
        )  # fmt: skip
    axis.axhline(floor, color=INK, linewidth=1, linestyle=":", label="Clean images")
    axis.set_title(title, fontsize=10, fontweight="bold")
    if quantity == "frechet":
        axis.set_yscale("log")


def epsilons(guarantee_epsilon: float, claimed: float) -> str:
    """Both ε in a few words.

    Examples:
        >>> epsilons(94.71, 35.0)
        'ε = 94.7, called 35'
    """
    return f"ε = {_short(guarantee_epsilon)}, called {_short(claimed)}"


def _short(epsilon: float) -> str:
    return f"{epsilon:.0f}" if epsilon >= 100 else f"{epsilon:.3g}"
