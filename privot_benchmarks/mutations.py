"""Which seeded bugs the tests of `make test` catch: one at a time, in a copy of the checkout.

    python privot_benchmarks/mutations.py                            # about half an hour on one core
    python privot_benchmarks/mutations.py --only "Laplace" --json laplace.json
    python privot_benchmarks/mutations.py --before docs/results/mutations/before.json

Two kinds of bugs. **Mutations** (`mutations.toml`) replace a text of the source by another. The part of
the suite that should notice is run on the copy with `-x -m "not slow"`: `make test` runs it too, so what
fails there fails `make test`. A text that is not found exactly once ends the command, so that whoever
moves a line moves its mutation. **Seeded bugs** (`tests/audit/seeded_bugs.py`) replace attributes of
mechanisms and randomizers, and are for `privot audit` to find: here it is asked whether a test of the
fast suite runs each, and passes.

A test that caught something has to pass on the copy without any bug, or it caught nothing. Examples of
hypothesis are the same in every run (as in CI), so that what is caught is caught again; statistics draw
afresh, and say how often they miss. Whether a test fails for the right reason is for a reader: `--json`
holds its message.

Runs are forks of one process that has imported what tests need beside the library, which none has.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".toml")
SEEDED = "seeded bugs"
SEEDED_TESTS = ("tests/audit/test_law.py", "tests/audit/test_streams.py")
_LEFT_OUT = (".*", "__pycache__", "node_modules", "build", "dist", "demo", "*.egg-info")
_OPTIONS = ("-q", "-n", "0", "-m", "not slow", "-p", "no:cacheprovider", "-o", "timeout=120")
_LONGEST, _LONGEST_MESSAGE = 900, 200  # seconds of one run of pytest; characters
_PATH = re.compile(r"/[\w.-]+/[^\s'\"]*")
_PASSED, _FAILED = 0, 1  # exit codes of pytest
_IMPORTED = (
    "hypothesis",
    "pyarrow.compute",
    "pydantic",
    "scipy.stats",
    "scipy.optimize",
    "torch",
    "numba",
)


@dataclass(frozen=True)
class Mutation:
    """A bug: `new` in the place of `old` in a file, and the tests that should notice."""

    group: str
    name: str
    wrong: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """The file's text with the bug.

        Raises:
            ValueError: if the text to replace does not occur exactly once.
        """
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.name!r}: {self.file} holds its text {count} times, not once")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Row:
    """What became of a bug."""

    group: str
    name: str
    wrong: str
    caught: bool
    by: str
    message: str
    seconds: float


@dataclass(frozen=True)
class Case:
    """A test that was run."""

    test: str
    passed: bool
    message: str
    seconds: float


def mutations() -> list[Mutation]:
    """All that are listed."""
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutation"]
    return [Mutation(**each | {"tests": tuple(each["tests"])}) for each in listed]


class _Recorder:
    """A plugin of pytest that writes each test's outcome to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or (report.when == "call" and report.passed):
            self._write(report.nodeid, report.passed, report.longrepr, report.duration)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(report.nodeid, False, report.longrepr, 0.0)

    def _write(self, test: str, passed: bool, why: object, seconds: float) -> None:
        crash = getattr(why, "reprcrash", None)
        words = " ".join(str(crash.message if crash else why or "").split())
        words = _PATH.sub("…", words)  # of this machine
        with open(self._path, "a", encoding="utf-8") as out:
            case = Case(test, passed, words[:_LONGEST_MESSAGE], seconds)
            out.write(json.dumps(asdict(case)) + "\n")


class Copy:
    """A copy of the checkout, where tests run."""

    def __init__(self, folder: Path) -> None:
        self.root, self._caches = folder / "checkout", folder / "caches"
        self._told, self._output = folder / "told", folder / "output"
        shutil.copytree(ROOT, self.root, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        self._changes = 0
        sources = [str(self.root / "src"), str(self.root)]
        os.environ |= {
            "PYTHONPATH": os.pathsep.join(sources),
            "NUMBA_CACHE_DIR": str(self._caches),
            "OMP_NUM_THREADS": "1",
            "CI": "1",
        }
        sys.path[:] = [*sources, *(path for path in sys.path if not _ours(path))]
        os.chdir(self.root)
        for name in _IMPORTED:
            importlib.import_module(name)

    @contextmanager
    def holding(self, mutation: Mutation) -> Iterator[None]:
        """The copy with a bug."""
        path = self.root / mutation.file
        text = path.read_text(encoding="utf-8")
        changed = mutation.applied(text)
        compile(changed, mutation.file, "exec")
        try:
            self._write(path, changed)
            yield
        finally:
            self._write(path, text)
            if "njit" in text:  # what was compiled of other files may hold the bug
                shutil.rmtree(self._caches, ignore_errors=True)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        # Python takes compiled modules for those of a source of the same size and second.
        self._changes += 1
        stamp = time.time() + 2 * self._changes
        os.utime(path, (stamp, stamp))

    def run(self, tests: Sequence[str], *options: str) -> tuple[int, list[Case]]:
        """Exit code and cases of pytest; -1 where it took too long."""
        self._told.write_text("")
        process = get_context("fork").Process(target=self._test, args=([*options, *tests],))
        process.start()
        process.join(_LONGEST)
        if process.exitcode is None:
            process.kill()
            process.join()
            return -1, []
        lines = self._told.read_text(encoding="utf-8").splitlines()
        return process.exitcode, [Case(**json.loads(line)) for line in lines]

    def _test(self, arguments: list[str]) -> None:
        with open(self._output, "w", encoding="utf-8") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        sys.exit(pytest.main([*_OPTIONS, *arguments], plugins=[_Recorder(self._told)]))


def _ours(path: str) -> bool:
    """Whether a path is of this checkout, and not of its copy."""
    return Path(path or ".").resolve() in (ROOT, ROOT / "src", ROOT / "privot_benchmarks")


def seeded_names() -> list[str]:
    """Names of the seeded bugs."""
    code = "import json; from audit.seeded_bugs import BUGS, MORE_BUGS\n"
    code += "print(json.dumps([*BUGS, *MORE_BUGS]))"
    paths = os.pathsep.join(["tests", os.environ["PYTHONPATH"]])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=dict(os.environ) | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    names: list[str] = json.loads(done.stdout)
    return names


def try_mutation(copy: Copy, mutation: Mutation) -> Row:
    """What the tests say of a mutation."""
    start = time.perf_counter()
    with copy.holding(mutation):
        code, cases = copy.run(mutation.tests, "-x")
    seconds = round(time.perf_counter() - start, 1)
    failed = [case for case in cases if not case.passed]
    about = mutation.group, mutation.name, mutation.wrong
    if code == -1:
        return Row(*about, True, "", f"no end within {_LONGEST} s", seconds)
    if code not in (_PASSED, _FAILED):
        message = failed[0].message if failed else f"exit code {code}"
        sys.exit(f"{mutation.name!r} keeps tests from running: {message}")
    by = failed[0] if failed else None
    return Row(*about, by is not None, by.test if by else "", by.message if by else "", seconds)


def try_seeded(copy: Copy) -> list[Row]:
    """Which of the seeded bugs a fast test runs, and whether the audit catches them there."""
    _, cases = copy.run(SEEDED_TESTS)
    rows = []
    for name in seeded_names():
        found = [case for case in cases if case.test.endswith(f"[{name}]")]
        caught = bool(found) and all(case.passed for case in found)
        by = found[0].test if found else ""
        message = "" if caught else (found[0].message if found else "no fast test runs it")
        seconds = round(sum(case.seconds for case in found), 1)
        rows.append(Row(SEEDED, name, "", caught, by, message, seconds))
    return rows


def markdown(rows: Sequence[Row], before: dict[str, bool]) -> str:
    """A table a group; `before` says what an earlier run caught."""
    lines = []
    for group in dict.fromkeys(row.group for row in rows):
        own = [row for row in rows if row.group == group]
        caught = sum(row.caught for row in own)
        lines += [f"**{group}**: {caught} of {len(own)} caught", ""]
        head = ["bug", "what is wrong", *(["before"] if before else []), "caught by", "seconds"]
        lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for row in own:
            told = {True: "caught", False: "**missed**", None: "not tried"}[before.get(row.name)]
            by = f"`{row.by.removeprefix('tests/')}`" if row.by else row.message
            cells = [row.name, row.wrong, *([told] if before else [])]
            cells += [by if row.caught else f"**missed** {row.message}", f"{row.seconds:.1f}"]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def save(path: Path, rows: Sequence[Row]) -> None:
    """Add rows to a file, in the place of those of the same bugs."""
    held = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    rest = [row for row in held if row["name"] not in {row.name for row in rows}]
    made = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "rows": rest + [asdict(row) for row in rows],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def checked(copy: Copy, rows: Sequence[Row]) -> list[Row]:
    """The rows, none of them caught by a test that fails without any bug."""
    tests = sorted({row.by for row in rows if row.by and row.group != SEEDED})
    if not tests:
        return [*rows]
    _, cases = copy.run(tests)
    passed = {case.test for case in cases if case.passed} - {c.test for c in cases if not c.passed}
    print(f"without any bug {len(passed)} of these {len(tests)} tests pass", file=sys.stderr)
    alone = "fails without the bug as well"
    return [
        row
        if row.group == SEEDED or not row.by or row.by in passed
        else replace(row, caught=False, message=alone)
        for row in rows
    ]


def main() -> int:
    """Print the table; exit code 1 where a bug was missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="bugs whose group or name holds this text")
    parser.add_argument("--json", type=Path, help="file to add the rows to, as they come")
    parser.add_argument(
        "--before", type=Path, help="such a file of an earlier run, to compare with"
    )
    settings = parser.parse_args()
    only, rows = settings.only, list[Row]()
    chosen = [each for each in mutations() if only in each.group or only in each.name]
    before = json.loads(settings.before.read_text())["rows"] if settings.before else []
    settings.json = settings.json and settings.json.absolute()
    with tempfile.TemporaryDirectory(prefix="privot-mutations-") as folder:
        copy = Copy(Path(folder))
        for each in chosen:  # refuses all that no longer fit before anything is run
            each.applied((copy.root / each.file).read_text(encoding="utf-8"))
        if only in SEEDED:
            rows += try_seeded(copy)
        for each in chosen:
            rows.append(row := try_mutation(copy, each))
            verdict = "caught" if row.caught else "MISSED"
            print(f"{verdict} {row.seconds:5.1f} s  {row.name}", file=sys.stderr, flush=True)
            if settings.json:
                save(settings.json, rows)
        rows = checked(copy, rows)
        os.chdir(ROOT)
    if settings.json:
        save(settings.json, rows)
    print(markdown(rows, {row["name"]: row["caught"] for row in before}))
    return 0 if all(row.caught for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
