"""Style of figures and pages, and dark figures of images or maps side by side."""

import base64
import io
import math
import re
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
import matplotlib.style as mpl_style
import numpy as np
import pyarrow as pa
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy.ndimage import gaussian_filter

import privot
from privot.core.files import write_file
from privot.randomizer import Release
from privot.randomizer.reports.rows import ReportTable
from privot.schema.columns.array import ArrayColumn, tensor_values
from privot.schema.columns.column import PointColumn

INK, MUTED = "#1b2333", "#6b7488"  # text, secondary text
PRIVATE, RECEIVED, LEARNED = "#4f7cff", "#9aa3b5", "#ff8a3d"  # records, reports, models
ERROR, LINE, SOFT = "#c0304f", "#e3e7ef", "#f5f7fb"  # heat maps, thin lines, soft background
NIGHT, DIM, FAINT = "#0a0f1e", "#aab4cc", "#3c4766"  # dark figures: background, text, lines
LIGHT = LinearSegmentedColormap.from_list(
    "night", [NIGHT, "#24346b", "#7c4d9e", "#e2725b", "#ffd27a", "#fffbe6"]
)
TITLE = "title: "  # prefix of the `gid` of an artist with a tooltip, which is the rest
# CSS variables in place of the colors of inline figures, since a dark page has other colors.
_VARIABLES = {
    INK: "var(--ink)", MUTED: "var(--muted)", PRIVATE: "var(--real)", LEARNED: "var(--learned)",
    ERROR: "var(--heat)", LINE: "var(--line)", SOFT: "var(--soft)",
}  # fmt: skip
_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("privot.report", "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


def new_figure(width: float, height: float) -> Figure:
    """Return a figure of `width` × `height` inches in the pages' style, which pyplot does not track."""
    with styled():
        return Figure(figsize=(width, height), layout="constrained")


def grid_axes(number: int, across: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with `number` axes, at most `across` in a row, each `width` × `height` inches."""
    across = min(across, number)
    down = math.ceil(number / across)
    figure = new_figure(width * across, height * down)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for axis in axes[number:]:
        axis.remove()
    return figure, list(axes[:number])


def styled() -> AbstractContextManager[None]:
    """Return a context in which new axes have the pages' style."""
    return mpl_style.context("privot.report.paper")


def data_uri(figure: Figure, dpi: int = 160) -> str:
    """Return the figure as a `data:` URI of a PNG."""
    buffer = io.BytesIO()
    save_png(figure, buffer, dpi)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def inline_svg(figure: Figure, words: str, most: float | None = None) -> Markup:
    """Return the figure as SVG with the page's fonts and colors, deterministic and without scripts.

    Arguments:
        figure: Figure in colors of this module.
        words: Description for screen readers.
        most: Maximum width, in pixels; none by default.
    """
    buffer = io.StringIO()
    svg = mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "privot"})
    with svg, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the page's fonts may have it
        no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", facecolor="none", metadata=no_metadata)
    text = buffer.getvalue()
    (box,) = re.findall(r'viewBox="([^"]*)"', text)
    style = "" if most is None else f' style="max-width: {most:.0f}px"'
    text = re.sub(r"^.*?</defs>", "", text, count=1, flags=re.DOTALL)  # head and common style
    text = re.sub(f'<g id="{TITLE}([^"]*)">', r"<g><title>\1</title>", text)  # tooltips
    text = re.sub(r'<g id="[^"]*"(/?)>', r"<g\1>", text)  # no other ids
    text = re.sub(r"<[^>]+>", _themed, text)  # only tags: column names stay as they are
    text = re.sub(r"\s*\n\s*", " ", text)
    return Markup(
        f'<svg class="chart" viewBox="{box}" role="img" aria-label="{escape(words)}"{style}>{text}'
    )


def _themed(match: re.Match[str]) -> str:
    """Return an SVG tag with the page's fonts and colors, and numbers of four significant digits."""
    tag = re.sub(r" font-family: [^;]*;", "", match[0])
    tag = re.sub(r"-?\d+\.\d{2,}", lambda number: f"{float(number[0]):.4g}", tag)
    return re.sub("#[0-9a-f]{6}", lambda color: _VARIABLES.get(color[0], color[0]), tag)


def save_png(figure: Figure, path: Path | io.BytesIO, dpi: int = 160) -> None:
    """Write the figure to a PNG file."""
    figure.savefig(path, format="png", dpi=dpi, facecolor=figure.get_facecolor())


def write_page(path: str | Path, template: str, fields: dict[str, Any]) -> None:
    """Fill `templates/<template>` and write the page; if this fails, an existing page stays."""
    page = _TEMPLATES.get_template(template).render(**fields, version=privot.__version__)
    write_file(path, page)


# Dark figures of several panels.

# In inches: width of a panel, space around panels, height of title and caption, of a group's heading.
PANEL, _GAP, _HEADING, _GROUP = 3.6, 0.16, 0.72, 0.5


@dataclass(frozen=True)
class ImagePanel:
    """Panel of images with a title and a caption; adjacent panels of a group have a common heading."""

    title: str
    caption: str
    images: np.ndarray  # (n, h, w[, channels]) in unit pixels; noise may exceed −1 and 1
    limit: float = 1.0  # values from −limit to limit are shown from black to white
    across: int | None = None  # most images in a row, and most rows; the figure's by default
    group: str = ""


@dataclass(frozen=True)
class Map:
    """Map of points with a title and a caption; adjacent panels of a group have a common heading."""

    title: str
    caption: str
    points: np.ndarray  # (n, 2) longitude and latitude
    group: str = ""


def dark_axes(
    panels: Sequence[ImagePanel | Map], ratio: float, margin: float = 0.0, width: float = PANEL
) -> tuple[Figure, list[Axes]]:
    """Return a dark figure with titled axes for panels, and headings above groups of panels.

    Arguments:
        panels: Panels, from left to right.
        ratio: Ratio of an axis's height to its width.
        margin: Space for labels around the axes, in inches.
        width: Width of an axis, in inches.
    """
    height, step = width * ratio, width + _GAP  # height of an axis, distance to the next, in inches
    heading = _HEADING + (_GROUP if any(panel.group for panel in panels) else 0.0)
    left, bottom = max(_GAP, margin), max(_GAP, 0.6 * margin)  # numbers are wider than high
    whole_width = left + step * len(panels) - _GAP + left
    whole_height = height + heading + bottom
    figure = new_figure(whole_width, whole_height)
    figure.set_layout_engine(None)
    figure.set_facecolor(NIGHT)
    text_scale = min(1.0, 0.15 + 0.85 * width / PANEL)  # smaller in narrow panels
    for i, panel in enumerate(panels):
        corner = (left + i * step) / whole_width, bottom / whole_height
        axis = figure.add_axes((*corner, width / whole_width, height / whole_height))
        axis.set_axis_off()
        words: dict[str, Any] = {"transform": axis.transAxes, "va": "bottom", "ha": "left"}
        bold = words | {"color": "white", "fontsize": 15 * text_scale, "weight": "bold"}
        small = words | {"color": DIM, "fontsize": 11 * text_scale}
        # In units of the axis: the title is 0.34 inches above it, the caption 0.1 inches.
        axis.text(0, 1 + 0.34 / height, panel.title, **bold)
        axis.text(0, 1 + 0.1 / height, panel.caption, **small)
    for name, adjacent in groupby(range(len(panels)), key=lambda i: panels[i].group):
        members = list(adjacent)
        if name:
            ends = left + members[0] * step, left + members[-1] * step + width
            x = [end / whole_width for end in ends]
            y = (height + bottom + _HEADING + 0.04) / whole_height
            # Tests find the line by its gid.
            figure.add_artist(Line2D(x, [y, y], color=FAINT, linewidth=1.2, gid="group"))
            gold: dict[str, Any] = {"color": "#ffd27a", "fontsize": 13 * text_scale}
            figure.text(x[0], y + 0.08 / whole_height, name, va="bottom", **gold)
    return figure, figure.axes


# Images.

_PAPER = -0.86  # gray between images, from −1 (black) to 1 (white)


def draw_image_panels(panels: Sequence[ImagePanel], across: int = 8) -> Figure:
    """Draw panels side by side, each of at most `across` rows of `across` images."""
    with styled():
        figure, axes = dark_axes(panels, panels[0].images.shape[1] / panels[0].images.shape[2])
        for axis, panel in zip(axes, panels, strict=True):
            columns = panel.across or across
            show_images(axis, panel.images[: columns**2] / panel.limit, columns, _PAPER)
    return figure


def show_images(axis: Axes, images: np.ndarray, columns: int, paper: float) -> None:
    """Show images (n, h, w[, c]) in unit pixels, `columns` in a row, on gray `paper`."""
    shown = images[..., 0] if images.shape[3:] == (1,) else images
    sheet = (mosaic(shown.clip(-1, 1), columns, paper) + 1) / 2
    axis.imshow(sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest")


def mosaic(images: np.ndarray, num_columns: int, paper: float = 1.0) -> np.ndarray:
    """Arrange images (n, h, w[, 3]) in rows of one image, with a pixel of gray `paper` between them."""
    count, height, width = images.shape[:3]
    num_rows = math.ceil(count / num_columns)
    size = (num_rows * (height + 1) - 1, num_columns * (width + 1) - 1)
    sheet = np.full((*size, *images.shape[3:]), paper)
    for index, image in enumerate(images):
        top, left = (index // num_columns) * (height + 1), (index % num_columns) * (width + 1)
        sheet[top : top + height, left : left + width] = image
    return sheet


def unit_images(column: ArrayColumn, name: str, table: pa.Table, most: int = 64) -> np.ndarray:
    """Return the first `most` images (n, h, w[, c]) of a table of records in unit pixels."""
    raw = tensor_values(table.column(name).slice(0, most))
    return column.to_unit_pixels(raw).reshape(len(raw), *column.shape)


def reported_images(release: Release, name: str, most: int = 64) -> tuple[np.ndarray, float]:
    """Return the first noised images (n, h, w[, c]) in unit pixels, and a limit for showing them.

    Reported cosine coefficients are decoded to images.
    """
    column = release.schema.images[name]
    # Not every report has an image if people report some of the columns.
    first = Release(ReportTable.of(next(release.rows.pieces(16 * most))), release.randomizer)
    points, reported = first.reports(name)
    pixels = column.domain.decode(points[reported][:most].astype(np.float64))
    # Nearly all pixels are between −limit and limit.
    return pixels.reshape(-1, *column.shape), float(1 + 2 * pixels.std())


# Maps.


def present_points(column: PointColumn, name: str, table: pa.Table) -> np.ndarray:
    """Return the points (n, d) of a table's records without missing coordinates."""
    points = column.encode_points(name, table)
    return points[~np.isnan(points).any(axis=1)]


def limits_of(points: Sequence[np.ndarray]) -> list[tuple[float, float]]:
    """Return the smallest and the largest value of each coordinate of several sets of points (n, d)."""
    union = np.concatenate(points)
    return list(zip(union.min(axis=0), union.max(axis=0), strict=True))


KILOMETERS_PER_DEGREE = 6371.0 * math.pi / 180  # of latitude
_CELLS_ACROSS, _MAX_TICKS = 130, 7  # of a map
_MARGIN = 0.42  # inches, for the numbers on axes


def draw_maps(
    panels: Sequence[Map],
    bounds: tuple[tuple[float, float], tuple[float, float]],
    geographic: bool = True,
) -> Figure:
    """Draw maps side by side, with one color scale for the share of people in each cell.

    For places on earth, the axes of the first map have degrees, and those of the last one have
    kilometers from the south-west corner.

    Arguments:
        panels: Maps to draw; the first one determines the color scale.
        bounds: Limits of the two coordinates.
        geographic: Whether coordinates are degrees of longitude and latitude; otherwise maps are square.
    """
    (west, east), (south, north) = bounds
    # A degree of longitude is shorter than one of latitude by the cosine of the latitude.
    cosine = np.cos(np.deg2rad((south + north) / 2))
    stretch = 1 / cosine if geographic else (east - west) / (north - south)
    height = (north - south) / (east - west) * stretch
    cells = (_CELLS_ACROSS, round(_CELLS_ACROSS * height))
    shares = [_cell_shares(panel.points, bounds, cells) for panel in panels]
    brightest = np.quantile(shares[0], 0.999)  # so that few cells do not darken the rest
    margin = _MARGIN if geographic else 0.0
    width = PANEL if len(panels) <= 3 else 2.5  # smaller, so that many maps fit on a page
    with styled():
        figure, axes = dark_axes(panels, height, margin, width)
        for axis, share in zip(axes, shares, strict=True):
            # A power below 1 brightens the cells of few people.
            axis.imshow(
                (share / brightest).clip(0, 1).T ** 0.42, origin="lower", aspect=stretch,
                extent=(west, east, south, north), cmap=LIGHT, vmin=0, vmax=1,
                interpolation="bilinear",
            )  # fmt: skip
        if geographic:
            degrees = _degrees(west, east, "W", "E"), _degrees(south, north, "S", "N")
            _label_axes(axes[0], "left", *degrees)
            across = _kilometers(west, east, KILOMETERS_PER_DEGREE * cosine)
            across = [(x, f"{km} km" if km == "0" else km) for x, km in across]
            _label_axes(axes[-1], "right", across, _kilometers(south, north, KILOMETERS_PER_DEGREE))
    return figure


def _kilometers(low: float, high: float, per_degree: float) -> list[tuple[float, str]]:
    """Return degrees at round distances from `low`, and the distances in kilometers as labels."""
    distances = _round_numbers(0.0, (high - low) * per_degree)
    return [(low + km / per_degree, f"{km:g}") for km in distances]


def _degrees(low: float, high: float, below: str, above: str) -> list[tuple[float, str]]:
    """Return round degrees, and their labels."""
    degrees = _round_numbers(low, high)
    return [(x, f"{abs(x):g}° {above if x > 0 else below}" if x else "0°") for x in degrees]


def _round_numbers(low: float, high: float) -> list[float]:
    """Return evenly spaced round numbers between two bounds."""
    ticker = MaxNLocator(nbins=_MAX_TICKS, steps=[1, 2, 5, 10])
    return [float(x) for x in ticker.tick_values(low, high) if low <= x <= high]


def _label_axes(
    axis: Axes, side: str, across: list[tuple[float, str]], up: list[tuple[float, str]]
) -> None:
    """Label the bottom axis of a map (`across`) and the axis on one side (`up`)."""
    axis.set_axis_on()
    axis.tick_params(colors=DIM, labelsize=7.5, length=2.5, color=FAINT, pad=2)
    left, right = side == "left", side == "right"
    axis.tick_params(axis="y", left=left, right=right, labelleft=left, labelright=right)
    axis.set_xticks(*zip(*across, strict=True))
    axis.set_yticks(*zip(*up, strict=True))
    for spine in axis.spines.values():
        spine.set_visible(False)


def _cell_shares(
    points: np.ndarray, bounds: Sequence[tuple[float, float]], cells: tuple[int, int]
) -> np.ndarray:
    """Return the share of people in each cell, smoothed."""
    counts, _, _ = np.histogram2d(points[:, 0], points[:, 1], bins=cells, range=bounds)
    return np.asarray(gaussian_filter(counts, 1.0)) / len(points)
