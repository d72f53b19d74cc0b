"""Every figure that is printed about privacy, read back: none may be below the exact value.

Ten thousand random guarantees of all kinds, composed ones among them, through `str` and `describe`, and
the lines of `privot account`, `calibrate` and `plan` for random budgets. A figure that bounds a loss
is held to *exact ≤ printed < exact + one unit of its last digit*, a figure that bounds one from below
to the mirror of it; a factor e^x to both: not below e^ε, and within a unit of e to what is printed as x.

Usage:
    python privot_benchmarks/printed_figures.py
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import random
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import mpmath

from privot.cli import main as privot
from privot.privacy import (
    ApproximateDP,
    GeoIndistinguishability,
    IntegralPrivacy,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
    compose,
)

NUMBER = r"(\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?)"
UNITS = ("person", "household", "visit")


@dataclass(frozen=True)
class Figure:
    """A number as it is printed, the exact one behind it, and how many digits were asked for."""

    text: str
    exact: float
    digits: int
    upward: bool = True

    @property
    def safe(self) -> bool:
        """Whether the number is not on the wrong side, read back as the float that it is."""
        printed = float(self.text.replace(",", ""))
        return printed >= self.exact if self.upward else printed <= self.exact

    @property
    def near(self) -> bool:
        """Whether it is within one unit of the last digit asked for."""
        printed, exact = Decimal(self.text.replace(",", "")), Decimal(repr(float(self.exact)))
        if exact == 0:
            return printed == 0
        unit = Decimal(1).scaleb(min(0, exact.adjusted() + 1 - self.digits))
        if "," in self.text:
            unit = Decimal(1).scaleb(exact.adjusted() + 1 - self.digits)
        return abs(printed - exact) < unit


@dataclass(frozen=True)
class Factor:
    """e^x = number, as printed, and the exact ε behind both."""

    power: str
    text: str
    epsilon: float

    @property
    def safe(self) -> bool:
        """Whether neither x nor the number is too small."""
        with mpmath.workdps(40):
            exact = mpmath.exp(mpmath.mpf(self.epsilon))
            printed = mpmath.mpf(self.text.replace(",", ""))
            return float(self.power) >= self.epsilon and printed >= exact

    @property
    def near(self) -> bool:
        """Whether the number is within a unit of its last digit of e to the printed x."""
        if not Figure(self.power, self.epsilon, 4).near:
            return False
        with mpmath.workdps(40):
            exact = mpmath.exp(mpmath.mpf(self.power))
            digits = 3 if exact < 10 else 2
            unit = mpmath.mpf(10) ** (mpmath.floor(mpmath.log10(exact)) + 1 - digits)
            return mpmath.mpf(self.text.replace(",", "")) - exact < unit


def figures(
    text: str, pattern: str, exact: float, digits: int, upward: bool = True
) -> list[Figure]:
    """All figures of a text that a pattern finds; at least one."""
    found = re.findall(pattern.replace("NUMBER", NUMBER), text)
    if not found:
        raise AssertionError(f"no figure of {pattern!r} in {text!r}")
    return [Figure(number, exact, digits, upward) for number in found]


def factors(text: str, *epsilons: float) -> list[Factor]:
    """The factors of a text, one for each ε in order; those without a number are left out."""
    told = re.findall(rf"e\^{NUMBER}(?: = {NUMBER})?( \(no )?", text)
    if len(told) != len(epsilons):
        raise AssertionError(f"{len(told)} factors in {text!r}, not {len(epsilons)}")
    return [
        Factor(power, number, epsilon)
        for (power, number, none), epsilon in zip(told, epsilons, strict=True)
        if number or not none
    ]


def of_pure(guarantee: PureDP | IntegralPrivacy) -> Iterator[Figure | Factor]:
    """What `str` and `describe` print of ε."""
    yield from figures(str(guarantee), "^ε = NUMBER", guarantee.epsilon, 4)
    yield from factors(guarantee.describe(), guarantee.epsilon)


def of_approximate(guarantee: ApproximateDP) -> Iterator[Figure | Factor]:
    """What is printed of ε and δ."""
    yield from figures(str(guarantee), "^ε = NUMBER", guarantee.epsilon, 4)
    yield from figures(str(guarantee), "δ = NUMBER", guarantee.delta, 3)
    yield from of_additive(guarantee.describe(), guarantee)


def of_additive(text: str, guarantee: ApproximateDP) -> Iterator[Figure | Factor]:
    """What a sentence with δ prints."""
    yield from factors(text, guarantee.epsilon)
    if guarantee.delta:
        yield from figures(text, "(?:plus|added) NUMBER", guarantee.delta, 3)


def of_zero_concentrated(guarantee: ZeroConcentratedDP) -> Iterator[Figure | Factor]:
    """What is printed of ρ, and of the (ε, δ) that it implies."""
    yield from figures(str(guarantee), "^ρ = NUMBER", guarantee.rho, 4)
    yield from figures(guarantee.describe(), "At δ = NUMBER", 1e-6, 3)
    yield from of_additive(guarantee.describe(), guarantee.to_approximate(1e-6))


def of_renyi(guarantee: RenyiDP) -> Iterator[Figure | Factor]:
    """What is printed of the least order, and of the (ε, δ) that the curve implies."""
    order, epsilon = min(zip(guarantee.orders, guarantee.epsilons, strict=True))
    yield from figures(str(guarantee), r"ε\(NUMBER\)", order, 4, upward=False)
    yield from figures(str(guarantee), r"\) = NUMBER", epsilon, 4)
    yield from of_additive(guarantee.describe(), guarantee.to_approximate(1e-6))


def of_geo(guarantee: GeoIndistinguishability) -> Iterator[Figure | Factor]:
    """What is printed of ε by distance."""
    yield from figures(str(guarantee), "^ε = NUMBER", guarantee.epsilon_per_unit, 4)
    if guarantee.epsilon_rounding:
        yield from figures(str(guarantee), "plus NUMBER", guarantee.epsilon_rounding, 2)
    yield from factors(guarantee.describe(), *map(guarantee.epsilon_at, (1.0, 2.0)))


PRINTED = {
    PureDP: of_pure,
    IntegralPrivacy: of_pure,
    ApproximateDP: of_approximate,
    ZeroConcentratedDP: of_zero_concentrated,
    RenyiDP: of_renyi,
    GeoIndistinguishability: of_geo,
}


def random_guarantee(coins: random.Random, kind: type):
    """A guarantee of a kind, of any size that makes sense and some that do not, some of few digits."""

    def positive(low: float, high: float) -> float:
        value = math.exp(coins.uniform(math.log(low), math.log(high)))
        return float(f"{value:.{coins.choice((1, 2, 4, 17))}g}")

    neighboring = coins.choice(("local", "replace_one", "zero_out", "any"))
    unit, epsilon = coins.choice(UNITS), positive(1e-9, 1e4)
    if kind is IntegralPrivacy:
        return IntegralPrivacy(epsilon, unit=unit)
    if kind is GeoIndistinguishability:
        rounding = coins.choice((0.0, positive(1e-9, 1e-3)))
        return GeoIndistinguishability(epsilon, unit=unit, epsilon_rounding=rounding)
    if kind is ApproximateDP:
        delta = coins.choice((0.0, *(positive(1e-300, 0.99) for _ in range(9))))
        return ApproximateDP(epsilon, delta, neighboring, unit)
    if kind is RenyiDP:
        orders = tuple(1 + positive(1e-3, 100) for _ in range(3))
        return RenyiDP(orders, tuple(positive(1e-6, 100) for _ in orders), neighboring, unit)
    return kind(epsilon, neighboring, unit)


def guarantees(count: int, seed: int) -> Iterator[object]:
    """Random guarantees of all kinds in turn, every fifth composed with another of its kind."""
    coins, kinds = random.Random(seed), list(PRINTED)
    for i in range(count):
        kind = kinds[i % len(kinds)]
        made = random_guarantee(coins, kind)
        if i % 5 == 0 and kind is not RenyiDP:
            made = compose(made, made)
        yield made


def run(arguments: str) -> str:
    """What a command prints on standard output."""
    out, before = io.StringIO(), sys.argv
    sys.argv = ["privot", *arguments.split()]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            privot()
    except SystemExit as stopped:
        if stopped.code:
            raise AssertionError(f"privot {arguments} ends with {stopped.code}") from None
    finally:
        sys.argv = before
    return out.getvalue()


def account_lines(coins: random.Random) -> Iterator[Figure]:
    """Lines of `privot account`, both ways, against their JSON."""
    epsilon, noise = coins.uniform(0.1, 8), coins.uniform(0.5, 9)
    sensitivity = coins.uniform(0.1, 4)
    for arguments, name, pattern in (
        (f"noise laplace --sensitivity {sensitivity} --epsilon {epsilon}", "scale", "scale NUMBER"),
        (f"noise laplace --sensitivity {sensitivity} --scale {noise}", "epsilon", "epsilon = NUMBER"),
        (
            f"noise gaussian --delta 1e-6 --sensitivity {sensitivity} --epsilon {epsilon}",
            "stddev",
            "deviation NUMBER on",
        ),
        (
            f"noise gaussian --delta 1e-6 --sensitivity {sensitivity} --stddev {noise}",
            "epsilon",
            "epsilon = NUMBER",
        ),
        (f"noise randomized-response --categories 5 --keep {coins.uniform(0.21, 0.99)}", "epsilon",
         "epsilon = NUMBER"),
        (f"shuffle --people 1000 --delta 1e-6 --epsilon {epsilon}", "epsilon",
         "give epsilon = NUMBER"),
    ):  # fmt: skip
        exact = json.loads(run(f"account {arguments} --json"))[name]
        yield from figures(run(f"account {arguments}"), pattern, exact, 6)
    arguments = f"account noise randomized-response --categories 5 --epsilon {epsilon}"
    keep = json.loads(run(f"{arguments} --json"))["keep"]
    yield from figures(run(arguments), "probability NUMBER", keep, 6, upward=False)
    arguments = f"account shuffle --people 1000 --delta 1e-6 --central-epsilon {epsilon}"
    local = json.loads(run(f"{arguments} --json"))["epsilon_local"]
    yield from figures(run(arguments), "reports of epsilon = NUMBER", local, 6, upward=False)


SCHEMA = """
[columns.sex]
kind = "categorical"
categories = ["f", "m", "x"]
[columns.age]
kind = "numeric"
bounds = [0, 100]
bins = 8
[columns.place]
kind = "vector"
columns = ["x", "y"]
bounds = [[0, 3], [0, 5]]
"""


def calibrate_lines(coins: random.Random, folder: Path) -> Iterator[Figure | Factor]:
    """Lines of `privot calibrate` and `privot plan`, against their JSON."""
    schema, epsilon = folder / "schema.toml", coins.uniform(0.1, 8)
    schema.write_text(SCHEMA)
    for more in ("", " --mechanism gaussian --delta 1.0049e-6"):
        arguments = f"calibrate {schema} --epsilon {epsilon} --report split{more}"
        arguments += f" -o {folder}/randomizer.json --force"
        told, text = json.loads(run(f"{arguments} --json")), run(arguments)
        spent, delta = told["guarantee"]["epsilon"], told["guarantee"].get("delta", 0.0)
        yield from figures(text, "json: ε = NUMBER", spent, 4)
        yield from factors(text, spent)
        if delta:
            yield from figures(text, "δ = NUMBER", delta, 3)
        for row in told["expected_noise"]:
            line = next(x for x in text.splitlines() if x.startswith(f"  {row['column']}:"))
            if "keep" in row:
                keep = float(Decimal(repr(row["keep"])).scaleb(2))
                yield from figures(line, "the truth with probability NUMBER%", keep, 3)
            else:
                yield from figures(line, "deviation NUMBER", row["stddev"][0], 4, upward=False)
    # A place on a curve has no cells, so that it takes a share.
    schema.write_text(SCHEMA.replace("bounds = [[0, 3], [0, 5]]", "support = [[0, 0], [3, 5]]"))
    arguments = f"plan {schema} --epsilon {epsilon} --people 5000"
    told, text = json.loads(run(f"{arguments} --json")), run(arguments)
    yield from figures(text, "values, 5,000 reports, ε = NUMBER", epsilon, 17)
    yield from figures(text, "NUMBER of ε for these", told["table"]["epsilon"], 4)
    yield from figures(text, "place: 5,000 reports, ε = NUMBER", told["columns"][0]["epsilon"], 4)


def main() -> None:
    """Print how many figures were read, and how many are on the wrong side or far off."""
    warnings.simplefilter("ignore")
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--guarantees", type=int, default=10_000)
    given.add_argument("--commands", type=int, default=40, help="random budgets a command")
    given.add_argument("--seed", type=int, default=0)
    asked, start = given.parse_args(), time.perf_counter()
    found: dict[str, list[Figure | Factor]] = {"guarantees": [], "commands": []}
    for guarantee in guarantees(asked.guarantees, asked.seed):
        found["guarantees"] += PRINTED[type(guarantee)](guarantee)
    coins = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(asked.commands):
            found["commands"] += account_lines(coins)
            found["commands"] += calibrate_lines(coins, Path(folder))
    for name, read in found.items():
        unsafe = [figure for figure in read if not figure.safe]
        far = [figure for figure in read if not figure.near]
        print(f"{name}: {len(read):,} figures, {len(unsafe)} on the wrong side, {len(far)} far off")
        for figure in (*unsafe[:3], *far[:3]):
            print(f"  {figure}")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
