"""Curves and marginals: loss over steps, one column real against synthetic."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from privot.models import History
from privot.report.style import INK, LEARNED, PRIVATE, RECEIVED, new_figure, styled


def draw_loss(history: History) -> Figure:
    """Loss over steps, and its running mean."""
    with styled():
        figure = new_figure(7.0, 2.6)
        axis = figure.subplots()
        loss = history["loss"]
        axis.plot(history["step"], loss, color=RECEIVED, linewidth=0.7, alpha=0.8)
        window = max(1, len(loss) // 16)
        smooth = np.convolve(loss, np.ones(window) / window, mode="valid")
        axis.plot(history["step"][window - 1 :], smooth, color=INK, linewidth=1.8)
        axis.set_xlabel("step")
        axis.set_ylabel("entropic cost (nats)")
        # The first steps are far above everything that follows.
        low, high = np.quantile(history["loss"][len(history.rows) // 20 :], [0.0, 1.0])
        margin = 0.05 * (high - low) + 1e-9
        axis.set_ylim(low - margin, high + margin)
    return figure


def draw_density(name: str, real: np.ndarray, synthetic: np.ndarray) -> Figure:
    """One continuous coordinate: histograms of real and synthetic values."""
    low, high = min(real.min(), synthetic.min()), max(real.max(), synthetic.max())
    with styled():
        figure = new_figure(3.6, 2.2)
        axis = figure.subplots()
        bars: dict[str, Any] = {"bins": np.linspace(low, high, 41).tolist(), "density": True}
        axis.hist(real, **bars, color=PRIVATE, alpha=0.35, label="real")
        outline: dict[str, Any] = {"histtype": "step", "color": LEARNED, "linewidth": 1.6}
        axis.hist(synthetic, **bars, **outline, label="synthetic")
        axis.set_title(name, fontsize=10, fontweight="bold")
        axis.set_yticks([])
        axis.legend(fontsize=8)
    return figure
