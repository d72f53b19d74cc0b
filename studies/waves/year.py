"""A year of weekly waves over real places, and the pictures of waves: truth, estimate, band.

    python -m studies waves.year -o docs/results/waves/year.json --pictures docs/results/waves

Places are road accidents in Great Britain (a file of the folder of `--data` or `PRIVOT_DATA`), by
region. **The file has no dates**, so the year is made up: week t draws places with weights by region, a
summer in the north and a jump of London in week 40. 60 000 people are in a panel of six slots; each
reports in every sixth week the region of a place of that week, with ε = 2. The second picture is of the
rows of `waves.measures share` in the same folder.

Privacy's noise has no seed: numbers repeat up to its randomness.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from privot.local import WaveModel, fit_waves
from privot.randomizer import Randomizer
from privot.report.panels import INK, LEARNED, PRIVATE, RECEIVED, new_figure, save_png, styled
from privot.schema import Schema
from privot.schema.domains import Array
from privot.tables.files import read_table
from privot.waves import Panel
from studies.common.rows import read_rows, select, write_row
from studies.reports.points import ACCIDENTS

REGIONS = ("London", "south", "middle", "north", "Scotland")
WEEKS, PEOPLE, EPSILON = 52, 60_000, 2.0
SCHEMA = Schema.from_dict(
    {"columns": {"region": {"kind": "categorical", "categories": list(REGIONS)}}}
)
PANEL = Panel("accidents", window=6, start=1_767_571_200, length=604_800, seed="2026", waves=WEEKS)


def regions(longitude: Array, latitude: Array) -> Array:
    """A region's number for each place."""
    by_latitude = np.digitize(latitude, [52.0, 53.3, 55.2]) + 1
    london = (np.abs(longitude + 0.1) < 0.4) & (np.abs(latitude - 51.5) < 0.22)
    return np.asarray(np.where(london, 0, by_latitude))


def shares_of(week: int, base: Array) -> Array:
    """What share of a week's accidents is in each region."""
    summer = 0.35 * np.cos(2 * np.pi * (week - 28) / WEEKS)
    weights = base * np.exp([0.45 * (week >= 40), 0.0, 0.0, summer, summer])
    return np.asarray(weights / weights.sum())


def year(data: Path, seed: int) -> tuple[WaveModel, Array, float]:
    """The model, true shares (weeks, regions), and seconds of the fit."""
    table = read_table(data / ACCIDENTS)
    places = (table[name].to_numpy() for name in ("longitude", "latitude"))
    base = np.bincount(regions(*places), minlength=len(REGIONS)) / table.num_rows
    truth = np.array([shares_of(week, base) for week in range(WEEKS)])
    slots = np.array([PANEL.slot(f"device {i}") for i in range(PEOPLE)])
    randomizer, rng = Randomizer.calibrate(SCHEMA, EPSILON), np.random.default_rng(seed)
    waves = []
    for week in range(WEEKS):
        num = int((slots == week % PANEL.window).sum())
        drawn = rng.choice(np.array(REGIONS), num, p=truth[week])
        waves.append(randomizer.privatize({"region": drawn}))
    started = time.process_time()
    days = np.datetime64("2026-01-05") + 7 * np.arange(WEEKS)
    model = fit_waves(waves, [str(day) for day in days], seed=seed)
    return model, truth, time.process_time() - started


def draw_year(model: WaveModel, truth: Array) -> Figure:
    """A panel for each region."""
    with styled():
        figure = new_figure(13, 2.9)
        for number, name in enumerate(REGIONS):
            axis = figure.add_subplot(1, len(REGIONS), number + 1)
            told = model.trend("region", name)
            weeks = np.arange(WEEKS)
            axis.fill_between(weeks, told.low, told.high, color=LEARNED, alpha=0.25, linewidth=0)
            axis.plot(weeks, told.estimate, color=LEARNED, linewidth=1.8, label="estimate")
            axis.plot(
                weeks, truth[:, number], color=INK, linewidth=1, linestyle="--", label="truth"
            )
            axis.set_title(name, fontsize=10, fontweight="bold")
            axis.set_xlabel("week")
        figure.axes[0].legend(fontsize=8)
    return figure


def draw_shares(rows: list[dict[str, Any]]) -> Figure:
    """The first seed of a share that grows, and of one that jumps, by both schemes."""
    with styled():
        figure = new_figure(12, 3.2)
        kinds = [(t, s) for t in ("grows", "jumps") for s in ("panel", "split")]
        for place, (trend, scheme) in enumerate(kinds, start=1):
            axis = figure.add_subplot(1, 4, place)
            row = select(rows, trend=trend, scheme=scheme)[0]
            weeks = np.arange(1, len(row["truth"]) + 1)
            color = LEARNED if scheme == "panel" else PRIVATE
            axis.scatter(weeks, row["each"], s=8, color=RECEIVED, label="each wave alone")
            axis.fill_between(weeks, row["low"], row["high"], color=color, alpha=0.25, linewidth=0)
            axis.plot(weeks, row["estimate"], color=color, linewidth=1.8, label="estimate")
            axis.plot(weeks, row["truth"], color=INK, linewidth=1, linestyle="--", label="truth")
            axis.set_ylim(0.05, 0.36)
            axis.set_title(f"{trend}: {scheme}", fontsize=10, fontweight="bold")
        figure.axes[0].legend(fontsize=7)
    return figure


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--data", type=Path, default=os.environ.get("PRIVOT_DATA"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pictures", type=Path, help="Folder of the pictures.")
    parser.add_argument("-o", "--output", type=Path, help="JSON of the row.")


def run(chosen: argparse.Namespace) -> None:
    """Measure, write a row, and draw."""
    model, truth, seconds = year(Path(chosen.data), chosen.seed)
    told = [model.trend("region", name) for name in REGIONS]
    gaps = np.array([each.estimate for each in told]).T - truth
    inside = [(each.low <= truth[:, i]) & (truth[:, i] <= each.high) for i, each in enumerate(told)]
    change = model.change_point("region")
    row = {
        "weeks": WEEKS,
        "people": PEOPLE,
        "epsilon": EPSILON,
        "error": round(float(np.sqrt(np.mean(gaps**2))), 5),
        "covered": round(float(np.mean(inside)), 4),
        "seconds": round(seconds, 1),
        "change": [change.time, change.low, change.high, change.p_value],
    }
    print(row)
    if chosen.output is not None:
        write_row(chosen.output, row)
    if chosen.pictures is not None:
        save_png(draw_year(model, truth), chosen.pictures / "year.png", dpi=110)
        shares = read_rows(chosen.pictures, "share")
        if shares:
            save_png(draw_shares(shares), chosen.pictures / "share.png", dpi=110)
