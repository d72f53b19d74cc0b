"""Repeat the tests that chance, other processes or a clock could fail, beside busy processors.

    python scripts/repeat_tests.py                      # all tests once; those of chance 20 times more
    python scripts/repeat_tests.py --times 5 tests/collector

The first run finds which tests draw from the operating system's entropy (every exact mechanism does),
take generators without a seed, start processes or threads, open sockets, wait, or read a clock: in the
test itself or in a fixture that it uses. A test that does none of that repeats itself, and once is
enough. The others are run again and again beside two loops that never rest. Any failure is printed,
and is the exit code.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
EVERYTHING = ["tests", "src", "docs", "studies"]
LIST = "PRIVOT_TESTS_OF_CHANCE"
AUDITED = (
    "subprocess.Popen",
    "os.fork",
    "os.posix_spawn",
    "socket.bind",
    "socket.connect",
    "_thread.start_new_thread",
)
touched: set[str] = set()
fixtures_of_chance: set[str] = set()


def _watch(module: Any, name: str) -> None:
    """Note each call of a function by its name."""
    original = getattr(module, name)

    def noted(*arguments: Any, **options: Any) -> Any:
        touched.add(name)
        return original(*arguments, **options)

    setattr(module, name, noted)


def pytest_configure(config: pytest.Config) -> None:
    """Watch the sources of chance, as the plugin of the first run."""
    if LIST not in os.environ:
        return
    import privot.mechanisms.samplers

    watched = (
        (os, "urandom"),
        (secrets, "randbits"),
        (secrets, "token_bytes"),
        (secrets, "token_hex"),
    )
    waiting = ((time, "sleep"), (time, "monotonic"), (time, "perf_counter"))
    for module, name in (*watched, *waiting, (privot.mechanisms.samplers, "_stream")):
        _watch(module, name)
    sys.addaudithook(lambda event, _: touched.add(event) if event in AUDITED else None)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Generator[None, Any, Any]:
    """Remember which fixtures are a matter of chance: whoever uses them is, too."""
    before = set(touched)
    touched.clear()
    made = yield
    if touched:
        fixtures_of_chance.add(fixturedef.argname)
    touched.update(before)
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """List the test if chance touched it or one of its fixtures, or if Hypothesis chose its examples."""
    touched.clear()
    try:
        return (yield)
    finally:
        used = fixtures_of_chance & set(getattr(item, "fixturenames", ()))
        chosen = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        if LIST in os.environ and (touched or used or chosen):
            with open(os.environ[LIST], "a", encoding="utf-8") as file:
                file.write(item.nodeid + "\n")


def _by_chance(file: str) -> tuple[bool, float]:
    """Sort by chance, but tests before examples, whose modules pytest would import a second time."""
    return file.startswith("src"), random.random()


def _run(words: list[str], **added: str) -> int:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "2",
        "-m",
        "not slow",
        "--durations=0",
        "--durations-min=60",
    ]
    return subprocess.run([*command, *words], cwd=ROOT, env={**os.environ, **added}).returncode


def main() -> int:
    """Find the tests of chance, and repeat them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tests", nargs="*", help="folders or files; everything if none is named")
    parser.add_argument("--times", type=int, default=20, help="how often (default: %(default)s)")
    parser.add_argument(
        "--busy", type=int, default=2, help="loops beside the tests (default: %(default)s)"
    )
    chosen = parser.parse_args()
    words = chosen.tests or EVERYTHING
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "tests.txt"
        found.touch()
        failures = int(_run(["-p", "scripts.repeat_tests", *words], **{LIST: str(found)}) != 0)
        names = found.read_text(encoding="utf-8").splitlines()
        print(
            f"{len(names)} tests are a matter of chance, of other processes or of a clock",
            flush=True,
        )
        busy = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(chosen.busy)
        ]
        try:
            for time_ in range(chosen.times if names else 0):
                # In another order of files each time, so that what runs side by side differs.
                files = sorted({name.split("::")[0] for name in names}, key=_by_chance)
                order = {file: place for place, file in enumerate(files)}
                again = Path(folder) / "again.txt"
                again.write_text(
                    "\n".join(sorted(names, key=lambda name: order[name.split("::")[0]])),
                    encoding="utf-8",
                )
                failed = _run([f"@{again}"]) != 0
                print(
                    f"repetition {time_ + 1} of {chosen.times}: {'FAILED' if failed else 'passed'}",
                    flush=True,
                )
                failures += failed
        finally:
            for loop in busy:
                loop.kill()
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
