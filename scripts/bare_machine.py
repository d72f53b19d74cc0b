"""Measure what a stranger gets: the README's commands in a fresh clone, with an empty home.

    python scripts/bare_machine.py          # the demo, its size, imports, `make test`, `make test-docs`
    python scripts/bare_machine.py --skip-tests --json measured.json

The commit that is checked out is cloned; changes that are not committed are not in it. Seconds are
those of the clock, of one run each but for imports, which are the least of five; megabytes (10^6 bytes)
are of all files that pip put into site-packages, without pip and setuptools. A command that fails ends
the measurement, with what it printed last.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_OURS = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")
# What this process was given and a stranger has not.
CLEARED = (
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "PRIVOT_DATA",
    "PRIVOT_STATE_DIR",
    "PYTHONDONTWRITEBYTECODE",
    "CI",
)


def seconds(folder: Path, home: Path, *command: str | Path) -> float:
    """How long a command takes; one that fails ends everything."""
    environment = {name: value for name, value in os.environ.items() if name not in CLEARED}
    environment |= {"HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    started = time.perf_counter()
    words = [*map(str, command)]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    taken = time.perf_counter() - started
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{last}")
    return taken


def megabytes(environment: Path) -> float:
    """Of all that pip installed there."""
    (packages,) = environment.glob("lib/python*/site-packages")
    ours = [path for path in packages.iterdir() if not path.name.startswith(NOT_OURS)]
    files = {file for path in ours for file in [path, *path.rglob("*")] if file.is_file()}
    return sum(file.stat().st_size for file in files) / 1e6


def measured(folder: Path, tests: bool) -> dict[str, float]:
    """Every figure, by what it is."""
    home, clone = folder / "home", folder / "privot"
    home.mkdir()
    run = seconds(folder, home, "git", "clone", "--quiet", ROOT, clone)
    python, privot = (clone / ".venv" / "bin" / name for name in ("python", "privot"))
    found = {"clone to map, s": run + seconds(clone, home, "make", "demo")}
    found["installed for the demo, MB"] = megabytes(clone / ".venv")
    found["the demo's own run, s"] = seconds(clone, home, privot, "demo", "-o", "demo", "--force")
    commands: tuple[tuple[str, list[str | Path]], ...] = (
        ("import privot.local, s", [python, "-c", "import privot.local"]),
        ("privot fit --help, s", [privot, "fit", "--help"]),
    )
    for name, command in commands:
        found[name] = min(seconds(clone, home, *command) for _ in range(5))
    if tests:
        seconds(clone, home, "make", ".venv/dev")
        found["make test, first run, s"] = seconds(clone, home, "make", "test")
        found["make test, s"] = seconds(clone, home, "make", "test")
        found["make test-docs, s"] = seconds(clone, home, "make", "test-docs")
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--skip-tests", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), not options.skip_tests)
    for name, value in found.items():
        print(f"{name:28} {value:8.1f}" if value >= 10 else f"{name:28} {value:8.2f}")
    if options.json:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        where = f"Python {platform.python_version()}, {platform.system()}, {platform.machine()}"
        made = {"date": date.today().isoformat(), "where": f"{where}, {cores} cores"}
        command = " ".join(["python", "scripts/bare_machine.py", *sys.argv[1:]])
        text = json.dumps(made | {"command": command, "measured": found}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
