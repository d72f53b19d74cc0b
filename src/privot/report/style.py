"""One style for all that is looked at: colors and figures, and pages of one HTML file from templates."""

from __future__ import annotations

import base64
import io
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
from matplotlib.figure import Figure

import privot
from privot.files import replacing_file

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
_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("privot.report", "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


def new_figure(width: float, height: float) -> Figure:
    """A figure of inches `width` × `height` in our style, detached from any window or pyplot state."""
    with styled():
        return Figure(figsize=(width, height), layout="constrained")


def styled() -> AbstractContextManager[None]:
    """The context in which axes must be made to take our style."""
    return mpl.rc_context(_RC)


def data_uri(figure: Figure, dpi: int = 160) -> str:
    """The figure as a PNG inside a URI."""
    buffer = io.BytesIO()
    save_png(figure, buffer, dpi)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def save_png(figure: Figure, path: Path | io.BytesIO, dpi: int = 160) -> None:
    """Write the figure to a file."""
    figure.savefig(path, format="png", dpi=dpi, facecolor=figure.get_facecolor())


def write_page(path: str | Path, template: str, fields: dict[str, Any]) -> None:
    """Fill `templates/<template>` and write the page; an old one survives any failure."""
    page = _TEMPLATES.get_template(template).render(**fields, version=privot.__version__)
    with replacing_file(path) as draft:
        draft.write_text(page, encoding="utf-8")
