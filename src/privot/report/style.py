"""Colors and figure defaults shared by all pictures; figures as data URIs for one-file reports."""

from __future__ import annotations

import base64
import io
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

INK = "#1b2333"
MUTED = "#6b7488"
NIGHT = "#0a0f1e"
PRIVATE, RECEIVED, LEARNED = "#4f7cff", "#9aa3b5", "#ff8a3d"

_RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": "#c9cfdb",
    "axes.labelcolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "legend.frameon": False,
}


def new_figure(width: float, height: float) -> Figure:
    """A figure of inches `width` × `height` in our style, detached from any window or pyplot state."""
    with mpl.rc_context(_RC):
        return Figure(figsize=(width, height), layout="constrained")


def styled() -> AbstractContextManager[None]:
    """The context in which axes must be made to take our style."""
    return mpl.rc_context(_RC)


def data_uri(figure: Figure, dpi: int = 160) -> str:
    """The figure as a PNG inside a URI."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, facecolor=figure.get_facecolor())
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def save_png(figure: Figure, path: Path, dpi: int = 160) -> None:
    """Write the figure to a file."""
    figure.savefig(path, format="png", dpi=dpi, facecolor=figure.get_facecolor())
