"""Records near every edge: of bins, domains, grids, calendars; and records that are refused."""

from __future__ import annotations

import datetime as dt
import math
import random
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from privot.wire.draws import Laplace, Window, split_draws

Grid = Callable[[random.Random], float]


def values_of(take: dict[str, Any], grid: Grid, rng: random.Random) -> dict[str, Any]:
    """A record's values of one column, near and at all edges, beyond bounds, and missing."""
    nullable = take.get("nullable", take.get("missing") is not None)
    absent = nullable and rng.random() < 0.15
    made = _made(take, grid, rng)
    for axis, name in enumerate(made):
        if absent and (axis == 0 or rng.random() < 0.5):
            made[name] = None
    return made


def _made(take: dict[str, Any], grid: Grid, rng: random.Random) -> dict[str, Any]:
    names, domain = take["columns"], take.get("domain", {"area": "box"})
    if take["take"] == "boolean":
        return {names[0]: rng.random() < 0.5}
    if take["take"] == "category":
        return {names[0]: _text(take, rng)}
    if domain["area"] == "l2_ball":
        point = _ball_point(len(names), grid, rng)
        return {name: domain["radius"] * x for name, x in zip(names, point, strict=True)}
    return {name: _number(take, axis, grid, rng) for axis, name in enumerate(names)}


def _text(take: dict[str, Any], rng: random.Random) -> str:
    """One of the categories, or one that only looks like it; the empty text, where it is missing."""
    listed = [value for value in take["values"] if value or take["missing"] is None]
    value = rng.choice(listed)
    if take["other"] is not None and rng.random() < 0.4:
        alike = (unicodedata.normalize("NFD", value), value.upper(), f" {value}", f"{value} ")
        value = rng.choice((*alike, "somebody", "ünlisted"))
    return "" if take["missing"] is not None and rng.random() < 0.1 else value


def _ball_point(dimension: int, grid: Grid, rng: random.Random) -> list[float]:
    """In units: anywhere, or on the sphere and beyond it, to some last bits, at a half of the grid."""
    if rng.random() < 0.5:
        some = (rng.gauss(0, 0.6), rng.gauss(0, 0.6), 0.0, 1.0, -1.0, 1e12)
        return [rng.choice((rng.gauss(0, 0.6), *some)) for _ in range(dimension)]
    first = grid(rng) * (1 + rng.choice((0.0, 0.0, 2.0**-45, -(2.0**-45))))
    rest = [rng.gauss(0, 1) for _ in range(dimension - 1)]
    length = math.hypot(*rest)
    rest = [x / length * math.sqrt(max(0.0, 1 - first * first)) for x in rest]
    for _ in range(rng.choice((0, 0, 1, 2))):
        rest[-1] = math.nextafter(rest[-1], rng.choice((-2.0, 2.0)))
    return [rng.choice((1, 1, 3)) * x for x in (first, *rest)]


def _number(take: dict[str, Any], axis: int, grid: Grid, rng: random.Random) -> Any:
    ends = (
        [take["domain"]["lower"][axis], take["domain"]["upper"][axis]] if "domain" in take else []
    )
    edges = sorted(edge for each in take.get("edges", [ends]) for edge in each)
    low, high = edges[0], edges[-1]
    some = rng.uniform(low, high)
    near = (*take.get("spikes", []), math.floor(some) + 0.5, rng.choice(edges) - 1)
    at_half = (low + high) / 2 + (high - low) / 2 * grid(rng)
    number = rng.choice(
        (some, some, rng.choice(edges), 2 * high, low - 1, at_half, at_half, rng.choice(near))
    )
    if not take.get("seconds"):
        return take.get("origin", 0) + number * take.get("step", 1)
    if "format" in take and rng.random() < 0.6:
        days = math.floor(number)
        return (dt.datetime(1970, 1, 1) + dt.timedelta(days=days)).strftime(take["format"])
    if rng.random() < 0.05:
        return rng.choice(("2000-02-29", "1900-03-01", "2100-02-28"))
    seconds = math.floor(number) * take["seconds"] + rng.randrange(take["seconds"])
    return _moment(seconds, rng)


def grids_of(program: Any) -> dict[str, Grid]:
    """By column: unit coordinates at which rounding to the grid, or to a cell, changes its mind."""
    grids = {name: partial(multiple, 2**11, 1) for name in program["columns"]}
    for name, draw in split_draws(program):
        if isinstance(draw, Window):
            grids[name] = partial(multiple, draw.steps, 1)
        elif isinstance(draw, Laplace):
            grids[name] = partial(multiple, 2 ** (1 + draw.grid_bits), 1)
    for name, take in program["columns"].items():
        if take["take"] == "cell":
            grids[name] = partial(multiple, take["side"], 0)
    return grids


def multiple(steps: int, odd: int, rng: random.Random) -> float:
    """A coordinate between two of so many steps, or at one."""
    return (2 * rng.randrange(steps) + odd - steps) / steps


def _moment(seconds: int, rng: random.Random) -> str:
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)
    forms = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S.999")
    return moment.strftime(rng.choice(forms))


def wrong_records(takes: list[dict[str, Any]], record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Records that are refused."""
    yield record | {"nobody asked": 1}
    for take in takes:
        name = take["columns"][0]
        nullable = take.get("nullable", take.get("missing") is not None)
        if not nullable:
            yield record | {name: None}
            yield {k: v for k, v in record.items() if k != name}
        yield record | {name: {"category": 3, "boolean": 1}.get(take["take"], "many")}
        yield record | {name: [1]}
        if take["take"] == "category" and take["other"] is None:
            yield record | {name: "F"}
        if take.get("seconds"):
            for text in (
                "2023-02-29",
                "1900-02-29",
                "2024-13-01",
                "2024-1-01",
                "2024-01-01T24:00:00",
                "01.02.2024",
                "2024-01-01T12:00:00Z",
                " 2024-01-01",
                20240101,
                "1/2/2024",
                "29/02/2023",
                "01/02/2024 ",
            ):
                yield record | {name: text}
        elif take["take"] not in ("category", "boolean"):
            yield record | {name: "12"}
            yield record | {name: True}
