"""Measure how far random numbers of tests stay from their limits, in standard deviations.

    python scripts/margins_of_tests.py tests/wire tests/local --times 10
    python scripts/margins_of_tests.py --times 15 --below 4

Tests run again and again. Each comparison of two numbers in an `assert`, and each `approx`, is recorded
with both sides; whatever is the same in all runs is left out. What is printed is the mean distance from
the limit over its standard deviation, least first: at 5, a Gaussian number fails once in millions of
runs. A few runs estimate it roughly, so a row is a reason to look, not a verdict. Left out are p-values,
whose limit is the rate of false alarms itself, and tests by Hypothesis, whose examples vary.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest
from _pytest.assertion import rewrite

ROOT = Path(__file__).parents[1]
FOLDER, RUN = "PRIVOT_MARGINS", "PRIVOT_MARGINS_RUN"
MOST_OF_A_LINE = 40  # comparisons of one line of a test, as of a loop
SMALLEST_LIMIT = 1e-4  # below it a limit is that of a p-value
NUMBERS = {"__builtins__": {}, "np": np, "inf": math.inf, "abs": abs, "min": min, "max": max}
APPROX = re.compile(r"^\(?(.+?) == (?:approx\()?(\S+) ± (\S+?)\)?$")
seen: Counter[tuple[str, int]] = Counter()


class _Links(ast.NodeTransformer):
    """Divide `assert a < b < c` into two: of a chain that holds, pytest explains the last link alone."""

    def visit_Assert(self, node: ast.Assert) -> Any:
        """Evaluate each side once, and assert link by link."""
        if not isinstance(node.test, ast.Compare) or len(node.test.ops) == 1:
            return node
        sides = [node.test.left, *node.test.comparators]
        parts: list[ast.stmt] = [
            ast.Assign([ast.Name(f"_side_{k}", ast.Store())], side) for k, side in enumerate(sides)
        ]
        for k, operator in enumerate(node.test.ops):
            names = [ast.Name(f"_side_{k + more}", ast.Load()) for more in (0, 1)]
            parts.append(ast.Assert(ast.Compare(names[0], [operator], [names[1]]), node.msg))
        return [ast.fix_missing_locations(ast.copy_location(part, node)) for part in parts]


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest see the links of chains, as the plugin of a run."""
    explain = rewrite.rewrite_asserts

    def of_links(mod: ast.Module, *more: Any) -> None:
        explain(_Links().visit(mod), *more)

    vars(rewrite)["rewrite_asserts"] = of_links


def _number(node: ast.expr) -> float:
    return float(eval(compile(ast.Expression(node), "", "eval"), NUMBERS))


def _distances(explanation: str) -> Iterator[tuple[float, float]]:
    """Yield distance and limit of each comparison that pytest explains by two numbers."""
    line = explanation.split("\n")[0]
    if near := APPROX.match(line):
        value = _number(ast.parse(near[1], mode="eval").body)
        yield float(near[3]) - abs(value - float(near[2])), float(near[3])
        return
    for found in ast.walk(ast.parse(line, mode="eval")):
        if isinstance(found, ast.Compare):
            sides = map(_number, [found.left, *found.comparators])
            low = next(sides)
            for operator, high in zip(found.ops, sides, strict=True):
                sign = -1 if isinstance(operator, ast.Gt | ast.GtE) else 1
                if isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                    yield sign * (high - low), min(abs(low), abs(high))
                low = high


def pytest_assertion_pass(item: pytest.Item, lineno: int, orig: str, expl: str) -> None:
    """Record the distances of one assertion, as the plugin of a run."""
    seen[item.nodeid, lineno] += 1
    chosen = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    if chosen or seen[item.nodeid, lineno] > MOST_OF_A_LINE or not re.search("[<>±]", expl):
        return
    try:
        found = [
            distance for distance, limit in _distances(expl) if limit > SMALLEST_LIMIT or not limit
        ]
    except (SyntaxError, NameError, TypeError, ValueError, AttributeError):
        return  # words, arrays, or what pytest has shortened
    where = [f"{item.nodeid}:{lineno}", seen[item.nodeid, lineno], found, " ".join(orig.split())]
    with open(Path(os.environ[FOLDER], f"{os.environ[RUN]}-{os.getpid()}"), "a") as file:
        file.write(json.dumps(where) + "\n")


def main() -> None:
    """Run the tests, and print what comes near its limit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tests", nargs="*", default=["tests"], help="as of pytest")
    parser.add_argument("--times", type=int, default=10, help="runs (default: %(default)s)")
    parser.add_argument("--below", type=float, default=5, help="deviations (default: %(default)s)")
    chosen = parser.parse_args()
    words = ["-q", "-n", "2", "-m", "not slow", "-p", "scripts.margins_of_tests"]
    words += ["-o", "enable_assertion_pass_hook=true"]
    found: dict[tuple[str, int, int], dict[str, float]] = defaultdict(dict)
    texts = {}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as compiled:
        # Tests that were compiled without the hook are not looked at.
        environment = {**os.environ, FOLDER: folder, "PYTHONPYCACHEPREFIX": compiled}
        for run in range(chosen.times):
            command = [sys.executable, "-m", "pytest", *words, *chosen.tests]
            subprocess.run(command, cwd=ROOT, env=environment | {RUN: str(run)})
        for file in Path(folder).iterdir():
            for line in file.read_text("utf-8").splitlines():
                where, count, distances, texts[where] = json.loads(line)
                for place, distance in enumerate(distances):
                    found[where, count, place][file.name.split("-")[0]] = distance
    least: dict[str, tuple[float, float, float]] = {}
    for (where, _, _), runs in found.items():
        values = [*runs.values()]
        if len(values) > 1 and (spread := stdev(values)) > 1e-9 * max(map(abs, values)):
            row = (abs(mean(values)) / spread, mean(values), spread)
            least[where] = min(least.get(where, row), row)
    for where, row in sorted(least.items(), key=lambda each: each[1]):
        if row[0] < chosen.below:
            print("{:5.1f} = {:.3g} / {:.3g}".format(*row), where, texts[where])


if __name__ == "__main__":
    main()
