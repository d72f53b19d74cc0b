"""Record what commands write, with randomness and clock replaced, and compare with an earlier record.

    python scripts/digests.py --save before.json       # about a minute
    python scripts/digests.py --compare before.json    # exit code 1 where data differ

For changes that are not meant to change results: the same seeds and the same entropy have to give
the same reports, models and samples, bit for bit. What is printed and what is a page may differ
where words were changed: that is listed, and is for a reader. `os.urandom`, which all noise is
drawn from, is replaced by SHAKE-256 of a counter that every command sets anew, and the clock stands
still. **This is not private**: what this script writes is thrown away. Ledgers are left out, whose
lines are dated.

Digests are compared on one machine only: libraries of linear algebra round differently elsewhere.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

_TEXT = (": prints", ".html", ".md", ".svg", ".png")


class _Counted:
    """Bytes that look random and are the same in every run."""

    def __init__(self, purpose: str) -> None:
        self.purpose, self.calls = purpose, 0

    def __call__(self, size: int) -> bytes:
        self.calls += 1
        return hashlib.shake_256(f"{self.purpose} {self.calls}".encode()).digest(size)


# Apart, so that one temporary file more, whose name is random, does not change the noise.
_ENTROPY, _SECRETS = _Counted("entropy"), _Counted("secrets")


def _freeze() -> None:
    """Before the library is imported: it has to find these under the names that it imports."""
    os.urandom = _ENTROPY
    random._urandom = _SECRETS  # type: ignore[attr-defined]  # what `secrets` draws by
    time.time = lambda: 1767268800.0
    time.perf_counter = time.monotonic = lambda: 0.0
    time.time_ns = lambda: 1767268800 * 10**9
    os.environ |= {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "NO_COLOR": "1"}


PLACES = """
unit = "person"
[columns.home]
kind = "vector"
columns = ["x", "y"]
bounds = [[0, 2], [-1, 1]]
"""
TABLE = """
unit = "person"
[columns.age]
kind = "numeric"
bounds = [17, 90]
[columns.income]
kind = "numeric"
bounds = [0, 100]
nullable = true
[columns.sex]
kind = "categorical"
categories = ["Female", "Male"]
[columns.works]
kind = "boolean"
[columns.town]
kind = "categorical"
categories = ["a", "b", "c", "d"]
"""
VECTORS = """
unit = "person"
[columns.home]
kind = "vector"
columns = ["x", "y"]
bounds = [[0, 2], [-1, 1]]
[columns.sex]
kind = "categorical"
categories = ["Female", "Male"]
"""
POINTS = """
unit = "person"
[columns.x]
kind = "numeric"
bounds = [-4, 4]
[columns.y]
kind = "numeric"
bounds = [-4, 4]
"""
IMAGES = """
unit = "person"
[columns.image]
kind = "array"
shape = [8, 8]
bounds = [0, 255]
[columns.label]
kind = "categorical"
categories = ["0", "1", "2"]
"""


def _write_records() -> None:
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv

    for name, text in (
        ("places", PLACES),
        ("table", TABLE),
        ("vectors", VECTORS),
        ("points", POINTS),
        ("images", IMAGES),
    ):
        Path(f"{name}.toml").write_text(text)
    rng = np.random.default_rng(0)
    count = 3000
    town = rng.integers(0, 4, count)
    sex = (rng.random(count) < 0.3 + 0.1 * town).astype(int)
    age = np.clip(rng.normal(35 + 8 * town, 10), 17, 90)
    income = np.clip(rng.gamma(2, 10 + 5 * sex), 0, 100)
    works = rng.random(count) < 0.4 + 0.004 * age
    x, y = np.clip(rng.normal(1, 0.3, count), 0, 2), np.clip(rng.normal(0, 0.2, count), -1, 1)
    sexes = np.array(["Female", "Male"])[sex]
    missing = rng.random(count) < 0.1
    columns = {
        "places": {"x": x, "y": y},
        "vectors": {"x": x, "y": y, "sex": sexes},
        "points": {"x": np.clip(x * 2 - 2, -4, 4), "y": np.clip(y * 4, -4, 4)},
        "table": {
            "age": age,
            "income": pa.array(income, mask=missing),
            "sex": sexes,
            "works": np.where(works, "true", "false"),
            "town": np.array(list("abcd"))[town],
        },
    }
    for name, values in columns.items():
        csv.write_csv(pa.table(values), f"{name}.csv")
    labels = rng.integers(0, 3, 300)
    pixels = np.clip(rng.normal(80 + 60 * labels[:, None, None], 30, (300, 8, 8)), 0, 255)
    np.savez("images.npz", image=pixels.astype(np.uint8), label=labels.astype(str))


def _local(name: str, options: str, fit: str = "", suffix: str = "csv") -> list[str]:
    """Calibrate, privatize, fit and sample; options of the first and of the third."""
    records = f"{name.split('_')[0]}.{suffix}"
    schema = f"{name.split('_')[0]}.toml"
    return [
        f"calibrate {schema} {options} -o {name}.json",
        f"privatize {records} -r {name}.json -o {name}.parquet",
        f"fit {name}.parquet -o {name}_model --seed 1 {fit}",
        f"sample {name}_model -n 500 -o {name}_samples.{suffix} --seed 2",
    ]


COMMANDS = [
    *_local("places", "--epsilon 4"),
    *_local("places_laplace", "--epsilon 4 --mechanism laplace"),
    *_local("table", "--epsilon 4"),
    *_local("vectors", "--epsilon 6"),
    *_local("points_gaussian", "--epsilon 4 --delta 1e-5 --mechanism gaussian", "--steps 60"),
    *_local(
        "images_generator",
        "--epsilon 200 --mechanism laplace",
        "--steps 20 --batch-size 50",
        "npz",
    ),
    "plan table.toml --epsilon 4 --people 3000 --json",
    "check table_model table.parquet -o check.html --seed 3",
    "evaluate table_model --against table.csv -o evaluate.html --seed 3",
    "evaluate places_model --against places.csv -o evaluate_places.html --seed 3",
    "audit places_laplace.json --exact --json",
    "plan table.toml --epsilon 4 --people 1000 --rehearsals 1 --simulate rehearsal --seed 7",
    "account noise laplace --help",
    "central fit table.csv --schema table.toml --epsilon 2 -o sums_model --seed 4",
    "sample sums_model -n 500 -o sums_samples.csv --seed 2",
    "central fit images.npz --schema images.toml --epsilon 5 -o sums_images --seed 4 --low-pass 3",
    "central fit table.csv --method slices --schema table.toml --epsilon 5 -o slices_model --seed 4 "
    "--steps 20",
    "integral fit points.csv --schema points.toml --epsilon 1 --draws 20 -o integral_model --seed 5",
    "integral sample integral_model -n 5 -o integral_samples.csv",
    *(f"privatize table.csv -r table.json -o wave_{wave}.parquet" for wave in range(3)),
    "fit wave_0.parquet wave_1.parquet wave_2.parquet --waves -o waves_model --seed 6",
    "waves show waves_model --column age --json",
]


def _ran(words: list[str]) -> str:
    """What a command printed, its exit code in front."""
    from privot.cli import main

    printed, code = io.StringIO(), 0
    sys.argv = ["privot", *words]
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return f"exit code {code}\n{printed.getvalue()}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def record(only: str) -> dict[str, str]:
    """Digests of what each command prints and of every file that it makes or changes."""
    digests: dict[str, str] = {}
    seen: dict[Path, str] = {}
    _write_records()
    for number, command in enumerate(COMMANDS):
        if only not in command:
            continue
        _ENTROPY.calls = _SECRETS.calls = number * 10**6
        printed = _ran(command.split())
        print(f"{printed.splitlines()[0]}: privot {command}", file=sys.stderr)
        if not printed.startswith("exit code 0"):
            print(printed, file=sys.stderr)
        digests[f"{command}: prints"] = _digest(printed.encode())
        for path in sorted(Path().rglob("*")):
            if "ledger" in str(path) or not path.is_file():
                continue
            if seen.get(path) != (digest := _digest(path.read_bytes())):
                seen[path] = digests[f"{command}: {path}"] = digest
    return digests


def main() -> int:
    """Record, then save or compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--save", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--only", default="", help="commands that hold this text")
    chosen = parser.parse_args()
    before = json.loads(chosen.compare.read_text()) if chosen.compare else None
    save = chosen.save and chosen.save.absolute()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["PRIVOT_STATE_DIR"] = f"{folder}/state"
        digests = record(chosen.only)
        os.chdir("/")
    if save:
        save.write_text(json.dumps(digests, indent=1) + "\n")
    if before is None:
        return 0
    changed = [
        name for name in before.keys() | digests.keys() if before.get(name) != digests.get(name)
    ]
    data = [name for name in changed if not name.endswith(_TEXT)]
    print("\n".join(sorted(changed)))
    print(
        f"of {len(digests)} digests {len(data)} of data differ, {len(changed) - len(data)} of text"
    )
    return 1 if data else 0


if __name__ == "__main__":
    _freeze()
    sys.exit(main())
