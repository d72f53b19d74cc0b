"""Charts for pages of tables: bars of codes, a heat map of all pairs, histograms of numbers.

- **Bars** show the shares of a column's codes: categories sorted by share, bins sorted by value.
- **The heat map** shows all pairs of columns: errors below the diagonal, the dependence to learn above
  it. The opacity of a cell is the square root of its value relative to the largest, so that small values
  can be distinguished.
- **Histograms** show synthetic and real numbers, with ticks at quantiles. Numbers that the schema
  declares on a log scale have a logarithmic axis. The axis shows the central 99 % of the numbers; if the
  central 90 % lie on less than a tenth of it, it shows the central 95 %, so that a long tail does not
  hide the shape.
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self, cast

import numpy as np
import pyarrow as pa
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle, StepPatch
from matplotlib.ticker import LogLocator, MaxNLocator
from matplotlib.transforms import Affine2D, Transform

from privot.evaluation.estimates import ValueCheck
from privot.evaluation.number_checks import LEVELS, NumberCheck
from privot.report.panels import ERROR, INK, LEARNED, LINE, MUTED, PRIVATE, SOFT, TITLE
from privot.schema import Schema
from privot.schema.columns.numeric import NumberColumn
from privot.schema.domains import Array

MAX_PAIRED = 30  # columns of a heat map
WIDTH, HEIGHT = 320.0, 110.0  # of a histogram, in points
_MAX_BARS = 16  # of a column, without the bar of missing values
_MAX_NUMBERS, _MAX_LETTERS = 12, 16  # columns of a heat map with numbers, letters of a name
# Points of a heat map: side of a cell, width of a letter, space beside labels, room for color bars.
_CELL, _LETTER, _GAP, _COLOR_BARS = 40.0, 7.2, 6.0, 70.0
_TURN, _TURNED_HEIGHT = 48, 0.78  # of turned labels: degrees, height relative to length
_BORDER, _STEPS = 6.0, 24  # border of a tile in points, steps of a color bar
_STRONG = 0.62  # opacity above which numbers are white
# Points below a histogram's axis: ticks of one table and of a second, intervals, labels, total height.
_TICKS, _MORE_TICKS, _INTERVALS, _BASELINE, _ROOM = 3.0, 12.0, 16.0, 36.0, 42.0
_LINE = 16.0  # height of another line of text, in points
_BINS, _MAX_MARKS = 40, 4  # bins of a histogram, round numbers on its axis
# Shares left out at each end of a wide and of a narrow axis. The axis is narrow if the central 90 % of
# the numbers take less than a tenth of the wide one.
_WIDE_CUT, _NARROW_CUT, _CENTRAL_CUT, _LONG_TAIL = 0.005, 0.025, 0.05, 0.1
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)  # between labels of dates
_LAST_DATE = 0.95  # share of the width beyond which there is no room for a date


@dataclass(frozen=True)
class Bar:
    """Bar of one code or of several: shares of synthetic and of real records."""

    label: str
    synthetic: float
    real: float | None = None  # None without real records
    checked: ValueCheck | None = None  # check by reports alone, if the bar is of one code

    @property
    def longest(self) -> float:
        """Largest of the shares that the bar shows."""
        high = self.checked.reports.high if self.checked else 0.0
        return max(self.synthetic, self.real or 0.0, high)


def bars_of(
    schema: Schema,
    name: str,
    synthetic: pa.Table,
    real: pa.Table | None = None,
    checked: Sequence[ValueCheck] = (),
) -> tuple[Bar, ...]:
    """Return the bars of one column that has codes: at most 16, and one for missing values.

    Categories are sorted by their real shares (or else the synthetic ones), and rare ones share a bar.
    Bins are sorted by value, and neighbors share a bar if there are more than 16.
    """
    column = schema.coded[name]
    alphabet, centers, labels = column.alphabet, column.alphabet.centers, column.labels

    def shares_in(table: pa.Table) -> Array:
        counts = np.bincount(column.encode_codes(name, table), minlength=alphabet.size)
        return np.asarray(counts / table.num_rows)

    synthetic_shares = shares_in(synthetic)
    real_shares = None if real is None else shares_in(real)
    sizes = synthetic_shares if real_shares is None else real_shares
    order = np.argsort(-sizes if centers is None else centers, kind="stable")
    codes = order[order != alphabet.missing]
    if len(codes) <= _MAX_BARS:
        groups = np.array_split(codes, len(codes))
    elif centers is not None:
        groups = np.array_split(codes, _MAX_BARS)
    else:
        groups = np.split(codes, range(1, _MAX_BARS))  # all but the last bar of one code each
    if alphabet.missing is not None:
        groups.append(np.array([alphabet.missing]))
    bars = []
    for group in groups:
        label = labels[group[0]]
        if len(group) > 1:
            label = f"{len(group)} others" if centers is None else f"{label} … {labels[group[-1]]}"
        real_share = None if real_shares is None else float(real_shares[group].sum())
        check = checked[group[0]] if checked and len(group) == 1 else None
        bars.append(Bar(label, float(synthetic_shares[group].sum()), real_share, check))
    return tuple(bars)


@dataclass(frozen=True)
class _Canvas:
    """Figure without axes, whose coordinates run from left to right and downwards."""

    figure: Figure
    transform: Transform  # from coordinates to the figure

    @classmethod
    def of(cls, width: float, height: float, origin: tuple[float, float], unit: float = 1) -> Self:
        """Return a canvas of `width` × `height` points; the origin is given in points from the top left.

        `unit` is the number of points of a coordinate unit.
        """
        figure = Figure(figsize=(width / 72, height / 72))
        to_points = Affine2D().scale(unit, -unit).translate(origin[0], height - origin[1])
        return cls(figure, to_points.scale(1 / 72) + figure.dpi_scale_trans)

    def add(self, artist: Artist) -> None:
        """Draw an artist in the canvas's coordinates."""
        artist.set_transform(self.transform)
        self.figure.add_artist(artist)

    def line(self, x: Sequence[float], y: Sequence[float], color: str, width: float) -> None:
        """Draw a line through points; `width` is in points."""
        style: dict[str, Any] = {"color": color, "linewidth": width, "solid_capstyle": "butt"}
        self.add(Line2D(x, y, **style))

    def write(self, x: float, y: float, words: str, **style: Any) -> None:
        """Write words at a point."""
        self.figure.text(x, y, words, transform=self.transform, parse_math=False, **style)


def draw_heat_map(
    diagonal: Mapping[str, float],
    below: Mapping[tuple[str, str], float],
    above: Mapping[tuple[str, str], float],
    words: tuple[str, str, str],
) -> Figure:
    """Draw the heat map of the columns with the largest errors, at most 30.

    Arguments:
        diagonal: Errors of single columns, by their names.
        below: Errors of pairs, by pairs of names in the order of `diagonal`.
        above: Dependence of the same pairs.
        words: Names of the three kinds of numbers, for tooltips: diagonal, below, above.
    """
    names = list(diagonal)
    errors: dict[str, list[float]] = {name: [] for name in names}
    for (first, second), error in below.items():
        errors[first].append(error)
        errors[second].append(error)
    means = [float(np.mean(errors[name] or [0.0])) for name in names]
    shown = [names[i] for i in worst(means, MAX_PAIRED)]
    index = {name: i for i, name in enumerate(shown)}
    cells = [
        _Cell(i, i, diagonal[name], f"{name}: {words[0]}", LEARNED) for name, i in index.items()
    ]
    for pair in below:
        if pair[0] in index and pair[1] in index:
            i, j = index[pair[0]], index[pair[1]]
            name = " × ".join(pair)
            cells.append(_Cell(j, i, below[pair], f"{name}: {words[1]}", ERROR))
            cells.append(_Cell(i, j, above[pair], f"{name}: {words[2]}", PRIVATE))
    largest = max(*(cell.value for cell in cells), 1e-9)
    canvas = _labeled_square([shorten(name, _MAX_LETTERS) for name in shown])
    for cell in cells:
        opacity = round(float(np.sqrt(cell.value / largest)), 3)
        _draw_tile(canvas, cell, opacity)
        if len(shown) <= _MAX_NUMBERS:
            text = f"{cell.value:.2f}".removeprefix("0")
            style = {"size": 10.5, "color": "white" if opacity > _STRONG else INK, "ha": "center"}
            canvas.write(cell.column + 0.5, cell.row + 0.5, text, **style, va="center_baseline")
    _draw_color_bars(canvas, len(shown), largest)
    return canvas.figure


class _Cell(NamedTuple):
    """Cell of a heat map."""

    row: int
    column: int
    value: float
    description: str
    color: str


def shorten(text: str, most: int) -> str:
    """Return a text cut to at most `most` letters; a cut text ends with an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _labeled_square(labels: Sequence[str]) -> _Canvas:
    """Return a canvas with a square of cells of size 1, and labels at its left and below."""
    count = len(labels)
    margin, side = max(map(len, labels)) * _LETTER + _GAP, _CELL * count
    height = side + _TURNED_HEIGHT * margin + _GAP
    canvas = _Canvas.of(margin + side + _COLOR_BARS, height, (margin, 0), _CELL)
    canvas.add(Rectangle((0, 0), count, count, facecolor=SOFT, linewidth=0))
    style: dict[str, Any] = {"size": 12, "color": INK, "ha": "right", "va": "center_baseline"}
    for number, label in enumerate(labels):
        canvas.write(-0.12, number + 0.5, label, **style)
        turned = {"rotation": _TURN, "rotation_mode": "anchor"}
        canvas.write(number + 0.6, count + 0.2, label, **style, **turned)
    return canvas


def _draw_tile(canvas: _Canvas, cell: _Cell, opacity: float) -> None:
    """Draw a rounded cell with a tooltip."""
    inset = (_BORDER / 2 + 1) / _CELL
    corner, side = (cell.column + inset, cell.row + inset), 1 - 2 * inset
    tile = Rectangle(corner, side, side, color=cell.color, alpha=opacity, linewidth=_BORDER)
    tile.set(joinstyle="round", gid=f"{TITLE}{cell.description} {cell.value:.3f}")
    canvas.add(tile)


def _draw_color_bars(canvas: _Canvas, count: int, largest: float) -> None:
    """Draw scales of errors and of dependence, from 0 to `largest`, at the right of `count` cells."""
    top, height, width = 0.2, min(count - 10 / _CELL, 6.0), 0.225
    for left, color in ((0.3, ERROR), (0.58, PRIVATE)):
        for step in range(_STEPS):
            y = top + height * (1 - (step + 1) / _STEPS)
            style: dict[str, Any] = {"alpha": (step + 0.5) / _STEPS, "antialiased": False}
            box = Rectangle((count + left, y), width, height / _STEPS, facecolor=color, **style)
            box.set_linewidth(0)
            canvas.add(box)
    for opacity in (0.0, 0.25, 0.5, 0.75, 1.0):
        # The opacity is the root of a value relative to the largest.
        y, words = top + height * (1 - opacity), f"{largest * opacity**2:.2g}"
        canvas.write(count + 0.93, y, words, size=10.5, color=MUTED, va="center_baseline")


def worst(errors: Sequence[float], most: int) -> list[int]:
    """Return the indices of the `most` largest errors, in the order of `errors`."""
    return [int(i) for i in np.sort(np.argsort(-np.asarray(errors), kind="stable")[:most])]


def draw_histogram(
    schema: Schema, name: str, synthetic: Array, real: Array | None, check: NumberCheck | None
) -> Figure | None:
    """Draw the histogram of synthetic and real values (n,) without NaN; None without synthetic values.

    Ticks below it mark the 5, 25, 50, 75 and 95 % quantiles, with their intervals by reports if there is
    a check.
    """
    if not len(synthetic):
        return None
    tables = [synthetic] if real is None or not len(real) else [synthetic, real]
    column = schema.columns.get(name)
    number = cast("NumberColumn", column) if column is not None and column.is_number else None
    low, high = _limits(tables)
    log = number is not None and number.on_log_scale and 0 < low < high
    integers = all(not (values % 1).any() for values in tables)
    step = (0.0 if number is None else number.value_step) or float(integers)
    edges = _edges(low, high, step, log)
    beyond, position_of = _describe_outside(schema, name, tables, edges), _axis(edges, log)
    canvas = _Canvas.of(WIDTH, HEIGHT + _ROOM + (_LINE if beyond else 0.0), (0, HEIGHT))
    canvas.line((0, WIDTH), (0, 0), LINE, 1.0)
    _draw_shapes(canvas, tables, edges, position_of(edges))
    if len(tables) > 1:
        _draw_ticks(canvas, tables[1], position_of, _TICKS, PRIVATE)
    _draw_ticks(canvas, synthetic, position_of, _MORE_TICKS if len(tables) > 1 else _TICKS, LEARNED)
    for quantile in () if check is None else check.quantiles:
        # A horizontal line from end to end of the interval, with a vertical mark at each end.
        left, right = position_of([quantile.reports.low, quantile.reports.high])
        top, middle, bottom = _INTERVALS - 2.5, _INTERVALS, _INTERVALS + 2.5
        x, y = (left, left, left, right, right, right), (top, bottom, middle, middle, top, bottom)
        canvas.line(x, y, INK, 1.5)
    for value, label in _marks(schema, name, number, edges, step if not log else None):
        position = float(position_of(value))
        share = position / WIDTH
        # Labels near an end of the axis would be cut off if they were centered.
        side = "left" if share < 0.08 else "right" if share > 0.92 else "center"
        canvas.write(position, _BASELINE, label, size=12, color=MUTED, ha=side)
    canvas.write(0.0, _BASELINE + _LINE, beyond, size=12, color=MUTED)
    return canvas.figure


def _describe_outside(schema: Schema, name: str, tables: Sequence[Array], edges: Array) -> str:
    """Return words about values outside the edges, with their share and range; "" without any."""
    outside = (((values < edges[0]) | (values > edges[-1])).mean() for values in tables)
    share = max(map(float, outside))
    if share == 0:
        return ""
    least, most = min(values.min() for values in tables), max(values.max() for values in tables)
    ends = f"{format_number(schema, name, least)} to {format_number(schema, name, most)}"
    return f"{100 * share:.1f} % lie beyond, from {ends}"


def _draw_shapes(canvas: _Canvas, tables: Sequence[Array], edges: Array, positions: Array) -> None:
    """Draw the histogram of synthetic values, as an outline before that of real values if any."""
    # Bins may be unequal: areas, not heights, are shares.
    widths = np.maximum(np.diff(positions), 0.1)
    densities = [np.histogram(values, edges)[0] / len(values) / widths for values in tables]
    # Coordinates run downwards, so heights are negative; 4 points stay free above the highest bin.
    unit = (4 - HEIGHT) / (max(float(density.max()) for density in densities) or 1.0)
    shapes = [partial(StepPatch, unit * density, positions) for density in densities]
    if len(shapes) > 1:
        canvas.add(shapes[1](facecolor=PRIVATE, alpha=0.38, linewidth=0))
        canvas.add(shapes[0](fill=False, edgecolor=LEARNED, linewidth=1.8))
    else:
        canvas.add(shapes[0](facecolor=LEARNED, alpha=0.8, linewidth=0))


def _axis(edges: Array, log: bool) -> Callable[[Any], Array]:
    """Return a function from numbers to their positions along the axis, in points."""
    low, high = np.log(edges[[0, -1]]) if log else edges[[0, -1]]

    def position_of(x: Any) -> Array:
        inside = np.clip(x, edges[0], edges[-1])
        return np.asarray(WIDTH * ((np.log(inside) if log else inside) - low) / (high - low))

    return position_of


def _draw_ticks(
    canvas: _Canvas, values: Array, position_of: Callable[[Any], Array], top: float, color: str
) -> None:
    """Draw ticks at the quantiles of some values, `top` points below the axis."""
    for x in position_of(np.quantile(values, LEVELS, method="inverted_cdf")):
        canvas.line((x, x), (top, top + 8), color, 2.0)


def format_number(schema: Schema, name: str, number: float) -> str:
    """Format a value of a table's column for reading: a number, or a date."""
    column = schema.columns.get(name)
    if column is not None and column.is_number and not column.holds_numbers:
        decoded = schema.points[name].decode_points(name, np.array([[np.rint(number)]]))
        return str(decoded[name][0].as_py())
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        digits = 0 if abs(number) >= 1000 else max(0, 2 - int(np.floor(np.log10(abs(number) or 1))))
        text = f"{number:,.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{number:.2g}"


def _limits(tables: Sequence[Array]) -> tuple[float, float]:
    """Return the smallest and the largest value to show."""

    def ends(cut: float) -> tuple[float, float]:
        cuts = [np.quantile(values, [cut, 1 - cut], method="inverted_cdf") for values in tables]
        return float(min(low for low, _ in cuts)), float(max(high for _, high in cuts))

    wide, narrow, central = ends(_WIDE_CUT), ends(_NARROW_CUT), ends(_CENTRAL_CUT)
    return narrow if central[1] - central[0] < _LONG_TAIL * (wide[1] - wide[0]) else wide


def _edges(low: float, high: float, step: float, log: bool) -> Array:
    """Return edges of about 40 bins, from half a step below `low` to half a step above `high`.

    The bins have equal widths (or equal ratios on a log scale), rounded to whole steps if any.
    """
    if high <= low:
        return np.array([low - (step or 1.0) / 2, low + (step or 1.0) / 2])
    low = max(low, step) if log else low
    low, high = low - step / 2, high + step / 2
    edges = (np.geomspace if log else np.linspace)(low, high, _BINS + 1)
    if not step:
        return edges
    if not log:  # the same number of steps in every bin
        width = step * max(1.0, np.ceil((high - low) / step / _BINS))
        return np.asarray(low + width * np.arange(np.ceil((high - low) / width - 1e-6) + 1))
    return np.asarray(low + step * np.unique(np.rint((edges - low) / step)))


def _marks(
    schema: Schema, name: str, number: NumberColumn | None, edges: Array, step: float | None
) -> list[tuple[float, str]]:
    """Return round numbers on the axis with their labels; for dates, first days of months or years.

    The axis is logarithmic if the step is None.
    """
    low, high = float(edges[0]), float(edges[-1])
    if number is not None and number.step_seconds is not None:
        months = _months(low, high, number.step_seconds)
        if len(months) > 1:
            return months
        values: Sequence[float] = np.linspace(low + 0.5, high - 0.5, 3).round().tolist()
    elif step is None:
        subs = (1.0,) if high / low > 30 else (1.0, 2.0, 5.0)
        values = LogLocator(10, subs, numticks=_MAX_MARKS + 2).tick_values(low, high)
    else:
        locator = MaxNLocator(_MAX_MARKS, integer=step >= 1, min_n_ticks=1)
        values = locator.tick_values(low, high)
    inside = sorted({float(x) for x in values if low <= x <= high}) or [(low + high) / 2]
    return [(x, format_number(schema, name, x)) for x in inside]


def _months(low: float, high: float, seconds: int) -> list[tuple[float, str]]:
    """Return the first days of months, or years, on an axis of dates, with their labels."""
    epoch, step = dt.datetime(1970, 1, 1), dt.timedelta(seconds=seconds)
    ends = [epoch + dt.timedelta(seconds=x * seconds) for x in (low, high)]
    first, last = (12 * end.year + end.month - 1 for end in ends)  # months since year 0
    for apart in _MONTHS:
        months = [m for m in range(first + 1, last + 1) if m % apart == 0]
        if len(months) <= _MAX_MARKS:
            break
    begins = [dt.datetime(month // 12, month % 12 + 1, 1) for month in months]
    label_format = "%Y" if apart >= 12 else "%b %Y"
    marks = [((begin - epoch) / step, begin.strftime(label_format)) for begin in begins]
    return [(x, label) for x, label in marks if x <= low + _LAST_DATE * (high - low)]
