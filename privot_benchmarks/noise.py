"""Throughput of the exact samplers on one core, beside OpenDP and diffprivlib where installed.

    python privot_benchmarks/noise.py   # a table, about half a minute
    python privot_benchmarks/noise.py --json   # the same for scripts

All run in this process, one thread, best of several repeats. OpenDP adds noise on the same grid
through its vector interface; where a rival has no vector interface, single values are timed.
A rival that cannot be imported is named with the reason: diffprivlib 0.6.6 asks for scikit-learn
below 1.6, so install both in an environment of their own.
Numbers differ between machines and with what else runs: quote the ratios.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from importlib.metadata import version

import numpy as np

from privot import Randomizer, Schema
from privot.mechanisms import Gaussian, Laplace, RandomizedResponse, SubsetSelection, Window
from privot.mechanisms.gaussian import sample_rounded_gaussian
from privot.mechanisms.laplace import sample_discrete_laplace
from privot.schema.domains import Box, L2Ball
from studies.rivals.planar_laplace import PlanarLaplace
from studies.rivals.unary_encoding import UnaryEncoding

NUM_CATEGORIES, EPSILON, DELTA = 5, 1.0, 1e-6
UNIT = Box((-1.0,), (1.0,))


def best_seconds(action: Callable[[], object], repeats: int) -> float:
    """Least seconds of several calls: what the machine can do when nothing disturbs it."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def own_rates(count: int, repeats: int) -> dict[str, float]:
    """Values per second of our samplers and mechanisms."""
    laplace = Laplace.calibrate(UNIT, EPSILON)
    gaussian = Gaussian.calibrate(UNIT, EPSILON, DELTA)
    response = RandomizedResponse(NUM_CATEGORIES, EPSILON)
    subsets = SubsetSelection(100, 2.0)
    numbers, codes = np.zeros((count, 1)), np.arange(count) % NUM_CATEGORIES
    unary, planar = UnaryEncoding(100, 2.0), PlanarLaplace.calibrate(L2Ball(2, 1.0), EPSILON)
    cells, places = codes[: count // 100], np.zeros((count // 4, 2))
    number, square = (Window.for_domain(Box((-1.0,) * d, (1.0,) * d), 4.0) for d in (1, 2))
    disk = Window.for_domain(L2Ball(2, 1.0), 4.0)
    actions = {
        "laplace: noise": lambda: sample_discrete_laplace(count, laplace.scale / laplace.grid),
        "laplace: privatize": lambda: laplace.privatize(numbers),
        "gaussian: noise": lambda: sample_rounded_gaussian(count, gaussian.stddev / gaussian.grid),
        "gaussian: privatize": lambda: gaussian.privatize(numbers),
        "randomized response: privatize": lambda: response.privatize(codes),
    }
    rates = {name: count / best_seconds(action, repeats) for name, action in actions.items()}
    reports = {
        "subset selection, 12 of 100 cells: reports": (lambda: subsets.privatize(cells), cells),
        "unary encoding, 100 categories: reports": (lambda: unary.privatize(cells), cells),
        "planar laplace: places": (lambda: planar.privatize(places), places),
        "window: numbers": (lambda: number.privatize(numbers), numbers),
        "window: places in a square": (lambda: square.privatize(places), places),
        "window: places in a disk": (lambda: disk.privatize(places), places),
    }
    return rates | {
        name: len(records) / best_seconds(action, repeats)
        for name, (action, records) in reports.items()
    }


def calibration_milliseconds(repeats: int) -> dict[str, float]:
    """Milliseconds to calibrate a randomizer for 100 columns."""

    def schema(num_numeric: int) -> Schema:
        number = {"kind": "numeric", "bounds": [0, 10]}
        code = {"kind": "categorical", "categories": ["a", "b", "c"]}
        columns = [number] * num_numeric + [code] * (100 - num_numeric)
        return Schema.from_dict({"columns": {f"c{i}": c for i, c in enumerate(columns)}})

    numbers, mixed = schema(100), schema(50)
    calls = {
        "100 numbers, laplace": lambda: Randomizer.calibrate(numbers, 4.0),
        "100 numbers, gaussian": lambda: Randomizer.calibrate(
            numbers, 4.0, DELTA, mechanism="gaussian"
        ),
        "50 numbers, 50 codes, 50 reported, gaussian": lambda: Randomizer.calibrate(
            mixed, 4.0, DELTA, mechanism="gaussian", report_columns=50
        ),
    }
    return {name: best_seconds(call, repeats) * 1e3 for name, call in calls.items()}


def record_microseconds(repeats: int) -> dict[str, float]:
    """Microseconds for one record of 10 columns, one call a column (or one for all)."""
    laplace = Laplace.calibrate(UNIT, EPSILON)
    joint = Laplace.calibrate(Box((-1.0,) * 10, (1.0,) * 10), EPSILON)
    response = RandomizedResponse(NUM_CATEGORIES, EPSILON)
    number, row, code = np.zeros((1, 1)), np.zeros((1, 10)), np.zeros(1, np.int64)
    records = {
        "10 numeric columns, a call each": lambda: [laplace.privatize(number) for _ in range(10)],
        "5 numeric, 5 categorical, a call each": lambda: [
            (laplace.privatize(number), response.privatize(code)) for _ in range(5)
        ],
        "10 numeric columns, one call": lambda: joint.privatize(row),
    }
    loops = 200
    return {
        name: best_seconds(lambda a=action: [a() for _ in range(loops)], repeats) / loops * 1e6
        for name, action in records.items()
    }


def opendp_rates(count: int, repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """The same from OpenDP: values per second, and microseconds for one 10-column record."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    laplace = Laplace.calibrate(UNIT, EPSILON)
    gaussian = Gaussian.calibrate(UNIT, EPSILON, DELTA)
    numbers = dp.atom_domain(T=float, nan=False)
    vectors, rows = dp.vector_domain(numbers, size=count), dp.vector_domain(numbers, size=10)
    exponent = {m: int(np.log2(m.grid)) for m in (laplace, gaussian)}
    their_laplace, their_row = (
        dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=laplace.scale, k=exponent[laplace])
        for domain in (vectors, rows)
    )
    their_gaussian = dp.m.make_gaussian(
        vectors, dp.l2_distance(T=float), scale=gaussian.stddev, k=exponent[gaussian]
    )
    keep = RandomizedResponse(NUM_CATEGORIES, EPSILON).probabilities[0]
    their_response = dp.m.make_randomized_response(list(range(NUM_CATEGORIES)), prob=keep)
    values, row = [0.0] * count, [0.0] * 10
    rates = {
        "laplace: privatize": count / best_seconds(lambda: their_laplace(values), repeats),
        "gaussian: privatize": count / best_seconds(lambda: their_gaussian(values), repeats),
        "randomized response: privatize": count
        / best_seconds(lambda: [their_response(3) for _ in range(count)], repeats),
    }
    seconds = best_seconds(lambda: [their_row(row) for _ in range(200)], repeats) / 200
    return rates, {"10 numeric columns, one call": seconds * 1e6}


def diffprivlib_rates(count: int, repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """The same from diffprivlib, which noises one value a call (in floats, off any grid)."""
    from diffprivlib.mechanisms import Gaussian as TheirGaussian
    from diffprivlib.mechanisms import Laplace as TheirLaplace

    laplace = TheirLaplace(epsilon=EPSILON, sensitivity=2.0)
    gaussian = TheirGaussian(epsilon=EPSILON, delta=DELTA, sensitivity=2.0)
    rates = {
        f"{name}: privatize": count
        / best_seconds(lambda m=m: [m.randomise(0.0) for _ in range(count)], repeats)
        for name, m in (("laplace", laplace), ("gaussian", gaussian))
    }
    loop = best_seconds(lambda: [laplace.randomise(0.0) for _ in range(10)], 50)
    return rates, {"10 numeric columns, a call each": loop * 1e6}


def versions(packages: list[str]) -> dict[str, str]:
    """What the numbers were measured with."""
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


RIVALS = {"opendp": opendp_rates, "diffprivlib": diffprivlib_rates}


def main() -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=4_000_000, help="values a call, ours")
    parser.add_argument("--rival-count", type=int, default=50_000, help="values a call, rivals")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()

    rates = own_rates(options.count, options.repeats)
    record = record_microseconds(options.repeats)
    result = {
        "values_per_second": {"privot": rates},
        "record_microseconds": {"privot": record},
        "calibration_milliseconds": {"privot": calibration_milliseconds(options.repeats)},
        "versions": versions(["numpy", "cryptography"]),
        "skipped": [],
    }
    for name, measure in RIVALS.items():
        try:
            their_rates, their_record = measure(options.rival_count, 3)
        except ImportError as error:  # missing, or at odds with what else is installed
            result["skipped"].append(f"{name}: {error}")
            continue
        result["values_per_second"][name] = their_rates
        result["record_microseconds"][name] = their_record
        result["versions"] |= versions([name])
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for title, table, factor, better in (
        ("million values a second", result["values_per_second"], 1e-6, max),
        ("microseconds a record", result["record_microseconds"], 1.0, min),
        ("milliseconds a calibration", result["calibration_milliseconds"], 1.0, min),
    ):
        print(f"\n{title}")
        for name, ours in table["privot"].items():
            line = f"  {name:45s} {ours * factor:10.3f}"
            for rival in RIVALS:
                if name in table.get(rival, {}):
                    theirs = table[rival][name]
                    ratio = ours / theirs if better is max else theirs / ours
                    line += f"   {rival} {theirs * factor:.3f} (×{ratio:.1f})"
            print(line)
    print("\n" + ", ".join(f"{name} {number}" for name, number in result["versions"].items()))
    for reason in result["skipped"]:
        print(f"\nskipped {reason}")


if __name__ == "__main__":
    main()
