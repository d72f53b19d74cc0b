r"""Errors against the number of people, their slopes, and the floors below which no method gets.

    python -m studies reports.exponents numbers --epsilon 1 -o docs/results/floors/numbers.json
    python -m studies reports.exponents places --epsilon 4 -o docs/results/floors/places.json
    python -m studies reports.exponents floors -o docs/results/floors/floors.json
    python -m studies reports.exponents members --epsilon 4 -o docs/results/floors/members_epsilon4.json
    python -m studies reports.exponents page

`numbers` are of beta(5, 2) and of two peaks (`studies.reports.points`); the error is W₁ of the fitted
density from the law. `places` are the demo's towns. Their W₂ is exact, between 3 000 evenly spaced
points of a walk through each sample (`studies.reports.populations`). Two samples of the law are apart
as well, by f: the **excess** is $\sqrt{W_2^2 − f^2}$. `shares` are categories of Zipf's law; the error
is total variation.

A **slope** is that of the logarithm of the mean error, by least squares over the numbers of people, with
an interval of 90 % by bootstrap over seeds. `floors` are of `privot.evaluation.floors`, near the uniform
law and near the towns; `members` are laws of the worst family of places, two corners, of which the
fit's W₂ is compared with the floor. `page` writes the table of exponents and the picture of
docs/results/floors.md from these rows, with rivals' where docs/results/best_report has them
(nearest_towns).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from privot.core.files import replacing_file
from privot.demo.homes import SCHEMA_TOML, draw_people
from privot.evaluation import sample_distance
from privot.evaluation.floors import Floor, floor_of_points
from privot.local import fit
from privot.mechanisms import Mechanism
from privot.randomizer import Randomizer
from privot.report.panels import INK, LEARNED, MUTED, PRIVATE, RECEIVED, new_figure, styled
from privot.schema import Schema
from privot.schema.domains import Array, to_unit
from studies.common.rows import Rows, gather, in_order, read_rows, select
from studies.reports import populations
from studies.reports.points import NUMBER

PAGE = Path("docs/results/floors.md")
_DELTA = 1e-6  # of Gaussian noise
_GRID = np.linspace(0, 1, 4097)
_DRAWN = 1_000_000
_CATEGORIES = 16
_LEAST = 1e-4
_BETWEEN_RANDOM, _RIVALS = 0.042, 200_000  # of the rivals' rows: two samples of towns; people


def _law(name: str) -> Array:
    """Distribution function of a law of numbers on the grid."""
    if name == "beta":
        return np.asarray(scipy.stats.beta.cdf(_GRID, 5, 2))
    low, high = (scipy.stats.norm.cdf(_GRID, *peak) for peak in ((0.2, 0.03), (0.7, 0.1)))
    function = 0.3 * low + 0.7 * high
    function[-1] = 1.0  # what lies beyond an end is at the end
    return np.asarray(function)


def _draw(name: str, people: int, rng: np.random.Generator) -> Array:
    if name == "beta":
        return rng.beta(5, 2, people)
    near = rng.random(people) < 0.3
    drawn = np.where(near, rng.normal(0.2, 0.03, people), rng.normal(0.7, 0.1, people))
    return np.asarray(drawn.clip(0, 1))


def _randomizer(schema: Schema, mechanism: str, epsilon: float) -> Randomizer:
    delta = _DELTA if mechanism == "gaussian" else 0.0
    return Randomizer.calibrate(schema, epsilon, delta, mechanism=mechanism)


def measure_numbers(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """W₁ in unit coordinates, in which the range is 2."""
    for people in chosen.people:
        for seed in chosen.seeds:
            for law in ("beta", "two peaks"):
                truth = _draw(law, people, np.random.default_rng([seed, people]))
                for mechanism in chosen.mechanism:
                    randomizer = _randomizer(NUMBER, mechanism, chosen.epsilon)
                    started = time.perf_counter()
                    model = fit(randomizer.privatize({"value": truth}), seed=seed)
                    seconds = time.perf_counter() - started
                    drawn = model.sample(_DRAWN, seed=seed).column("value").to_numpy()
                    found = np.searchsorted(np.sort(drawn), _GRID, side="right") / _DRAWN
                    error = 2 * float(np.abs(found - _law(law))[:-1].mean())
                    yield {
                        "work": "numbers", "law": law, "method": mechanism, "epsilon": chosen.epsilon,
                        "people": people, "seed": seed, "error": error, "seconds": round(seconds, 1),
                    }  # fmt: skip


def measure_places(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """W₂ of towns and its excess, in unit coordinates."""
    schema = Schema.from_toml(SCHEMA_TOML)
    column = schema.point_column("home")
    truth = _walk(column.encode_units("home", draw_people(_DRAWN // 4, seed=1000)))
    other = _walk(column.encode_units("home", draw_people(_DRAWN // 4, seed=1001)))
    between = sample_distance(truth, other, len(truth), repeats=1)
    for people in chosen.people:
        for seed in chosen.seeds:
            homes = draw_people(people, seed=seed)
            for mechanism in chosen.mechanism:
                release = _randomizer(schema, mechanism, chosen.epsilon).privatize(homes)
                started = time.perf_counter()
                model = fit(release, seed=seed)
                seconds = time.perf_counter() - started
                drawn = model.sample(_DRAWN // 4, seed=seed)
                points = np.stack([values.to_numpy() for values in drawn.columns], axis=1)
                fitted = _walk(to_unit(column.domain, points))
                distance = sample_distance(fitted, truth, len(truth), repeats=1)
                yield {
                    "work": "places", "law": "towns", "method": mechanism, "epsilon": chosen.epsilon,
                    "people": people, "seed": seed, "w2": distance, "between_samples": between,
                    "error": float(np.sqrt(max(distance**2 - between**2, _LEAST**2))),
                    "seconds": round(seconds, 1),
                }  # fmt: skip


def _walk(points: Array) -> Array:
    populations._POINTS = 3_000
    return populations._walk(points)


def measure_shares(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Total variation of the shares of 16 categories."""
    names = [str(number) for number in range(_CATEGORIES)]
    schema = Schema.from_dict({"columns": {"c": {"kind": "categorical", "categories": names}}})
    law = 1 / np.arange(1, _CATEGORIES + 1)
    law /= law.sum()
    for people in chosen.people:
        for seed in chosen.seeds:
            drawn = np.random.default_rng([seed, people]).choice(names, people, p=law)
            model = fit(
                Randomizer.calibrate(schema, chosen.epsilon).privatize({"c": drawn}), seed=seed
            )
            sampled = (
                model.sample(_DRAWN // 2, seed=seed).column("c").to_numpy(zero_copy_only=False)
            )
            shares = np.bincount(sampled.astype(int), minlength=_CATEGORIES) / len(sampled)
            error = float(np.abs(shares - law).sum() / 2)
            yield {
                "work": "shares", "law": "zipf", "method": "subset", "epsilon": chosen.epsilon,
                "people": people, "seed": seed, "error": error,
            }  # fmt: skip


def measure_floors(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Floors of numbers and of places by windows, near the uniform law, the towns, and of all laws."""
    schema = Schema.from_toml(SCHEMA_TOML)
    home, number = schema.point_column("home"), NUMBER.columns["value"]
    towns = home.encode_units("home", draw_people(200_000, seed=1000))
    law = towns, np.full(len(towns), 1 / len(towns))
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
        of_home = Randomizer.calibrate(schema, epsilon).mechanisms["home"]
        of_number = Randomizer.calibrate(NUMBER, epsilon).mechanisms["value"]
        for people in sorted({*chosen.people, 200_000}):
            common = {"epsilon": epsilon, "people": people}
            for work, mechanism, column, reference, name in (
                ("numbers", of_number, number, None, "uniform"),
                ("places", of_home, home, None, "uniform"),
                ("places", of_home, home, law, "towns"),
            ):
                floor = _floor(mechanism, column, people, reference)
                row = {"work": work, "law": name, "error": floor.error, "near": floor.near}
                yield common | row | {"worst": floor.worst, "private": floor.private}


def measure_members(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The fit's W₂ on laws of the worst family: two opposite corners, in about equal shares."""
    schema = populations.schema_of(2)
    randomizer = Randomizer.calibrate(schema, chosen.epsilon)
    floor = _floor(randomizer.mechanisms["x"], schema.columns["x"], 200_000, None)
    for seed in chosen.seeds:
        rng = np.random.default_rng(seed)
        share = 0.5 + 0.01 * rng.uniform(-1, 1)
        people = np.where(rng.random((200_000, 1)) < share, [[1.0, 1.0]], [[-1.0, -1.0]])
        release = randomizer.privatize({"x0": people[:, 0], "x1": people[:, 1]})
        drawn = fit(release, seed=seed).sample(200_000, seed=seed)
        points = np.stack([values.to_numpy() for values in drawn.columns], axis=1)
        truth = np.where(np.arange(3_000)[:, None] < 3_000 * share, [[1.0, 1.0]], [[-1.0, -1.0]])
        distance = sample_distance(_walk(points), truth, 3_000, repeats=1)
        yield {
            "work": "members", "epsilon": chosen.epsilon, "people": 200_000, "seed": seed,
            "w2": distance, "floor": floor.worst,
        }  # fmt: skip


def _floor(mechanism: Mechanism, column: Any, people: int, law: Any) -> Floor:
    floor = floor_of_points(mechanism, column, people, law)
    assert floor is not None
    return floor


def slope(rows: Rows) -> tuple[float, float, float]:
    """Slope of log mean error over log people, and the ends of its interval of 90 %."""
    people = in_order(rows, "people")
    errors = [np.array([row["error"] for row in select(rows, people=n)]) for n in people]
    rng = np.random.default_rng(0)

    def fitted(samples: list[Array]) -> float:
        means = [np.log(sample.mean()) for sample in samples]
        return float(np.polyfit(np.log(people), means, 1)[0])

    drawn = [fitted([rng.choice(e, len(e)) for e in errors]) for _ in range(2_000)]
    return fitted(errors), *np.quantile(drawn, [0.05, 0.95]).tolist()


def slopes(rows: Rows) -> str:
    """Rows of the table of exponents."""
    lines = []
    for work in ("numbers", "places", "shares"):
        for law in in_order(select(rows, work=work), "law"):
            of_law = select(rows, work=work, law=law)
            for epsilon in in_order(of_law, "epsilon"):
                for method in in_order(of_law, "method"):
                    found = select(of_law, epsilon=epsilon, method=method)
                    if len({row["people"] for row in found}) < 3:
                        continue
                    middle, low, high = slope(found)
                    mean = {
                        n: np.mean([row["error"] for row in select(found, people=n)])
                        for n in in_order(found, "people")
                    }
                    errors = ", ".join(f"{error:.4f}" for error in mean.values())
                    interval = f"{middle:.2f} ({low:.2f} to {high:.2f})"
                    lines.append(f"| {law} | {method} | {epsilon:g} | {errors} | {interval} |")
    return "\n".join(lines)


def draw(folder: Path) -> None:
    """Floors, ours and rivals over n and ε, in one picture."""
    rows, bounds = [], read_rows(folder, "floors")
    for name in ("places", "at"):
        rows += read_rows(folder, name)
    rivals = select(read_rows(folder.parent / "best_report", "nearest_towns"), tuned="as published")
    with styled():
        figure = new_figure(10.5, 3.6)
        axes = figure.subplots(1, 3)
        for axis, epsilon in zip(axes, (1.0, 2.0, 4.0), strict=True):
            near = select(bounds, work="places", law="towns", epsilon=epsilon)
            people = [row["people"] for row in near]
            axis.fill_between(people, [row["error"] for row in near], 1e-3, color=MUTED, alpha=0.3)
            axis.plot(
                people, [row["error"] for row in near], color=INK, label="floor near the towns"
            )
            axis.plot(
                people, [row["worst"] for row in near], "--", color=INK, label="floor for all laws"
            )
            axis.plot(
                people,
                [row["private"] for row in near],
                ":",
                color=INK,
                label="… by any ε-private mechanism",
            )
            for method, color in (("window", LEARNED), ("laplace", PRIVATE)):
                found = select(rows, work="places", epsilon=epsilon, method=method)
                axis.plot(
                    [row["people"] for row in found], [row["error"] for row in found], "o", ms=4,
                    color=color, label=f"privot, {method}",
                )  # fmt: skip
            found = select(rivals, epsilon=epsilon)
            names = in_order(found, "method")
            means = [np.mean([row["w2"] for row in select(found, method=name)]) for name in names]
            if names:  # W₂ of 3 000 random points of each, without that of two samples of the truth
                errors = np.sqrt(np.maximum(np.square(means) - _BETWEEN_RANDOM**2, _LEAST**2))
                places = [_RIVALS] * len(names)
                axis.plot(places, errors, "x", ms=5, color=RECEIVED, label="rivals, as published")
            axis.text(
                1_100,
                0.0048,
                "no method gets here\nfor all laws near the towns",
                fontsize=7,
                color=INK,
            )
            axis.set(xscale="log", yscale="log", xlabel="people", title=f"ε = {epsilon:g}")
            axis.set(ylim=(0.004, 0.6), xlim=(800, 2e6))
        axes[0].set_ylabel("W₂ of towns, square of side 2")
        handles = axes[-1].get_legend_handles_labels()
        figure.legend(*handles, fontsize=8, ncols=6, loc="outside lower center")
        figure.savefig(folder / "floors.png", dpi=130)


def write_page(folder: Path) -> None:
    """Write the picture, and the table of exponents into the page."""
    draw(folder)
    rows: Rows = []
    for name in ("numbers", "places", "shares"):
        rows += read_rows(folder, name)
    page = PAGE.read_text(encoding="utf-8")
    start, end = "<!-- table exponents -->\n", "\n<!-- end -->"
    before, rest = page.split(start)
    after = rest.split(end, 1)[1]
    head = "| law | reports | ε | error at 10³, 10⁴, 10⁵, 10⁶ people | slope (90 %) |\n"
    head += "|---|---|---|---|---|\n"
    with replacing_file(PAGE) as draft:
        draft.write_text(before + start + head + slopes(rows) + end + after, encoding="utf-8")


_WORKS = {
    "numbers": measure_numbers, "places": measure_places, "shares": measure_shares,
    "floors": measure_floors, "members": measure_members,
}  # fmt: skip


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("work", choices=[*_WORKS, "page"])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--people", type=int, nargs="+", default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--mechanism", nargs="+", default=["window", "laplace", "gaussian"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """One number of people after another, or the page."""
    if chosen.work == "page":
        write_page(PAGE.with_suffix(""))
    else:
        gather(_WORKS[chosen.work](chosen), chosen.output)
