"""Pictures of a table: bars of every column, and the errors of all pairs between floor and ceiling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from privot.evaluation import Score, TableComparison
from privot.report.panels import INK, MUTED, new_figure, styled
from privot.schema import Schema

MOST_COLUMNS = 60
MOST_PAIRED = 30
_MOST_BARS = 16
_MOST_NUMBERS = 10
_LONGEST_LABEL = 24
# Inches: a triangle, the space between two, the color bar's; and of a letter, in points of its size.
_PANEL, _GAP, _BAR = 3.1, 0.2, 0.55
_LETTER, _LONGEST = 0.6 / 72, 20
_HEAT = LinearSegmentedColormap.from_list(
    "heat", ["#f3f5fa", "#ffe3b8", "#ffb066", "#ee6a4a", "#a8325e", "#4a1450"]
)


@dataclass(frozen=True)
class Bar:
    """One value, or several in one: shares of real and of synthetic records."""

    label: str
    real: float
    synthetic: float


@dataclass(frozen=True)
class ColumnBars:
    """One column: bars in the order they are drawn, and how far it is off."""

    column: str
    score: Score
    bars: tuple[Bar, ...]

    @property
    def scale(self) -> float:
        """The largest share, which a full bar stands for."""
        return max(max(bar.real, bar.synthetic) for bar in self.bars)

    @property
    def label_width(self) -> int:
        """Letters of the longest label that is shown in full."""
        return min(max(len(bar.label) for bar in self.bars), _LONGEST_LABEL)


def column_bars(
    schema: Schema, synthetic: pa.Table, real: pa.Table, comparison: TableComparison
) -> list[ColumnBars]:
    """Bars of every column; of more than 60, of those that are most wrong.

    Categories stand in the order of their real shares, the rare ones in one bar; bins stand in their
    own order, neighbors in one bar where they are many, and spikes where they belong.
    """
    errors = [row.total_variation.synthetic for row in comparison.columns]
    rows = [comparison.columns[i] for i in _worst(errors, MOST_COLUMNS)]
    return [
        ColumnBars(r.column, r.total_variation, bars_of(schema, r.column, synthetic, real))
        for r in rows
    ]


def bars_of(schema: Schema, name: str, synthetic: pa.Table, real: pa.Table) -> tuple[Bar, ...]:
    """Bars of one column that has codes."""
    column = schema.coded[name]
    alphabet = column.alphabet
    shares = [
        np.bincount(column.encode_codes(name, table), minlength=alphabet.size) / table.num_rows
        for table in (real, synthetic)
    ]
    binned = alphabet.centers is not None
    ranks = -shares[0] if alphabet.centers is None else alphabet.centers
    order = np.argsort(ranks, kind="stable")
    present = [int(code) for code in order if code != alphabet.missing]
    groups = _neighbors(present) if binned else _frequent(present)
    groups += [[alphabet.missing]] if alphabet.missing is not None else []
    names = _name_range if binned else _name_others
    return tuple(
        Bar(names([column.labels[c] for c in g]), *(float(s[g].sum()) for s in shares))
        for g in groups
    )


def _neighbors(codes: list[int]) -> list[list[int]]:
    parts = min(len(codes), _MOST_BARS)
    return [[int(code) for code in group] for group in np.array_split(codes, parts)]


def _frequent(codes: list[int]) -> list[list[int]]:
    most = _MOST_BARS if len(codes) <= _MOST_BARS else _MOST_BARS - 1
    rest = codes[most:]
    return [[code] for code in codes[:most]] + ([rest] if rest else [])


def _name_range(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{labels[0]} … {labels[-1]}"


def _name_others(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{len(labels)} others"


def draw_pair_errors(comparison: TableComparison) -> Figure:
    """Total variation of each pair of columns, thrice: synthetic, its floor, independence.

    The diagonal is the error of each column alone. Of more than 30 columns, those most wrong.
    """
    names = list(dict.fromkeys(name for p in comparison.pairs for name in (p.first, p.second)))
    own = {row.column: row.total_variation for row in comparison.columns}
    errors: dict[str, list[float]] = {name: [] for name in names}
    for pair in comparison.pairs:
        errors[pair.first].append(pair.total_variation.synthetic)
        errors[pair.second].append(pair.total_variation.synthetic)
    names = [names[i] for i in _worst([float(np.mean(errors[n])) for n in names], MOST_PAIRED)]
    place = {name: i for i, name in enumerate(names)}

    def matrix(measure: Callable[[Score], float | None]) -> np.ndarray:
        cells = np.full((len(names), len(names)), np.nan)
        for name, i in place.items():
            cells[i, i] = measure(own[name]) or 0.0
        for pair in comparison.pairs:
            if pair.first in place and pair.second in place:
                cells[place[pair.second], place[pair.first]] = measure(pair.total_variation)
        return cells

    means = comparison.summary["two_way"]
    panels = [
        ("Synthetic", means.synthetic, matrix(lambda score: score.synthetic)),
        ("Floor", means.floor, matrix(lambda score: score.floor)),
        ("Independence", means.independence, matrix(lambda score: score.independence)),
    ]
    # A pair that says the same twice (a name and its number) must not bleach all others.
    brightest = float(np.nanquantile(panels[-1][2], 0.97))
    brightest = max(brightest, 2 * means.floor, 1e-9)
    heat = Normalize(0, brightest)
    labels = [name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…" for name in names]
    font = float(np.clip(190 / len(names), 5, 10))
    margin = max(map(len, labels)) * font * _LETTER + 0.1
    size = (margin + 3 * (_PANEL + _GAP) + _BAR, _PANEL + margin)
    with styled():
        figure = new_figure(*size)
        figure.set_layout_engine(None)
        for i, (title, mean, cells) in enumerate(panels):
            left, bottom = (margin + i * (_PANEL + _GAP)) / size[0], margin / size[1]
            axis = figure.add_axes((left, bottom, _PANEL / size[0], _PANEL / size[1]))
            _draw_triangle(axis, cells, heat)
            axis.set_xticks(range(len(names)), labels, rotation=90, fontsize=font)
            axis.set_yticks(range(len(names)) if i == 0 else [])
            corner: dict[str, Any] = {"transform": axis.transAxes, "ha": "right", "va": "top"}
            axis.text(1, 0.995, title, color=INK, fontsize=15, weight="bold", **corner)
            axis.text(1, 0.91, f"mean {mean:.3f}", color=MUTED, fontsize=11, **corner)
        figure.axes[0].set_yticklabels(labels, fontsize=font)
        beside = (1 - _BAR / size[0], (margin + 0.1 * _PANEL) / size[1])
        tall = 0.6 * _PANEL / size[1]
        scale = ScalarMappable(heat, _HEAT)
        strip = figure.add_axes((*beside, 0.11 / size[0], tall))
        bar = figure.colorbar(scale, cax=strip, extend="max")
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0, labelsize=9)
        bar.locator = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10])
    return figure


def _draw_triangle(axis: Axes, cells: np.ndarray, heat: Normalize) -> None:
    size = len(cells)
    edges = np.arange(size + 1) - 0.5
    axis.pcolormesh(edges, edges, cells, cmap=_HEAT, norm=heat, edgecolor="white", linewidth=0.8)
    axis.set_aspect("equal")
    axis.set_ylim(size - 0.5, -0.5)
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)
    if size > _MOST_NUMBERS:
        return
    for (i, j), value in np.ndenumerate(cells):
        if np.isfinite(value):
            dark = heat(value) > 0.55
            text = f"{value:.2f}".removeprefix("0")
            axis.text(
                j, i, text, ha="center", va="center", fontsize=8, color="white" if dark else INK
            )


def _worst(errors: Sequence[float], most: int) -> list[int]:
    """Places of the largest errors, in their own order."""
    return [int(i) for i in np.sort(np.argsort(-np.asarray(errors), kind="stable")[:most])]
