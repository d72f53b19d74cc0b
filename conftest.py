"""What is collected, where it counts, and what was skipped for want of what.

Only modules that have doctests are imported for them. Ledgers have their witnesses in a folder of the
session, never in the account's own. Numerical libraries keep to one thread: there is a process of
tests for every core already. Garbage is not looked for among what was collected, which stays, and seldom
among the rest. Modules that compile most loops come first, those of the same loops in one process: the
others load from disk what would otherwise be compiled by every process at the same time.
"""

import gc
import os
import re
import tempfile
from collections import Counter

import pytest
from xdist.scheduler import LoadScopeScheduling

for _name in ("OMP", "MKL", "OPENBLAS", "NUMBA"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")
_state = tempfile.TemporaryDirectory(prefix="privot-state-")
os.environ["PRIVOT_STATE_DIR"] = _state.name

# What compiles the loops of optimal transport, and those of latent classes, the collector and trees;
# bad inputs make the second as long as the first.
_COMPILING = {
    "transport": ("tests/transport/",),
    "classes": (
        "tests/bad_inputs/",
        "tests/collector/test_store.py",
        "tests/integral/test_boosting.py",
        "tests/local/test_curvature.py",
        "tests/local/test_expectation.py",
    ),
}


class _CompilingFirst(LoadScopeScheduling):
    """A module is for one process, as by `--dist loadscope`; what compiles comes first."""

    def _split_scope(self, nodeid):
        for name, places in _COMPILING.items():
            if nodeid.startswith(places):
                return name
        return super()._split_scope(nodeid)

    def _assign_work_unit(self, node):
        for name in _COMPILING:
            if name in self.workqueue:
                self.workqueue.move_to_end(name, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Distribute tests so that each loop is compiled once."""
    return _CompilingFirst(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """A million objects of modules and tests are passed over once and for all, not again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Leave out the doctests of a Python file that has none: to look for them would import it."""
    found = yield
    if file_path.suffix != ".py" or ">>> " in file_path.read_text(encoding="utf-8"):
        return found
    return [each for each in found if type(each).__name__ != "DoctestModule"]


def pytest_terminal_summary(terminalreporter):
    """Say for each reason how many tests it skipped, and which files were skipped as a whole."""
    tests, files = Counter(), {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = _reason_of(report)
        if isinstance(report, pytest.TestReport):
            tests[reason] += 1
        else:
            files.setdefault(reason, set()).add(report.nodeid)
    for reason in sorted({*tests, *files}):
        parts = [_counted(tests[reason], "test")] if tests[reason] else []
        parts += [f"all of {name}" for name in sorted(files.get(reason, ()))]
        terminalreporter.write_line(f"skipped because {reason}: {', '.join(parts)}")


def _reason_of(report):
    """The reason, alike for `skipif` and for `importorskip` without one."""
    reason = report.longrepr[2].removeprefix("Skipped: ")
    missing = re.match(r"could not import '([\w.]+)'", reason)
    return f"{missing[1]} is not installed" if missing else reason


def _counted(number, noun):
    return f"{number} {noun}" + "s" * (number != 1)
