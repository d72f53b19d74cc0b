"""What an install takes on the disk, and what its imports take: a device's, and those of the extras.

    python privot_benchmarks/device_install.py   # the table; some minutes, most of it pip's
    python privot_benchmarks/device_install.py --extras '' release --page docs/guides/install.md

Each install is the wheel in an environment of its own. Megabytes (10^6 bytes) are of all files in
site-packages but those of pip and setuptools, compiled Python among them. Seconds are the processor's,
of an import in a process that has just begun, without the start of Python itself: the least of
`--repeats` processes. With `--page`, the figures, and where they were measured, go beside the page as
JSON, and the page's table is written again from them.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import venv
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_OURS = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")
MODULES = ("privot", "privot.device", "privot.waves", "privot.randomizer", "privot.local")
TIMED = "import time; t = time.process_time(); import {0}; print(time.process_time() - t)"
TABLE = re.compile(r"(?<=<!-- measured -->\n\n).*(?=\n<!-- so far -->)", re.DOTALL)


def installed(folder: Path, extra: str) -> Path:
    """A new environment's Python, with the checkout and one of its extras."""
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    what = f"{ROOT}[{extra}]" if extra else str(ROOT)
    pip = [python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", what]
    subprocess.run(pip, check=True)
    return python


def megabytes(python: Path) -> tuple[float, int]:
    """Of all files that the install brought, and how many packages they are."""
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    mine = [path for path in packages.iterdir() if not path.name.startswith(NOT_OURS)]
    files = {file for path in mine for file in [path, *path.rglob("*")] if file.is_file()}
    count = sum(path.suffix == ".dist-info" for path in mine)
    return sum(file.stat().st_size for file in files) / 1e6, count


def seconds(python: Path, module: str, repeats: int) -> float | None:
    """The least that importing a module takes; None where it needs what is not installed."""
    command = [python, "-c", TIMED.format(module)]
    if subprocess.run(command, capture_output=True, cwd="/").returncode:
        return None
    runs = (
        subprocess.run(command, capture_output=True, cwd="/", check=True) for _ in range(repeats)
    )
    return min(float(done.stdout) for done in runs)


def measured(extras: list[str], repeats: int) -> dict[str, object]:
    """A row for each extra, and where they were measured."""
    rows = []
    for extra in extras:
        with tempfile.TemporaryDirectory() as folder:
            python = installed(Path(folder), extra)
            size, packages = megabytes(python)
            imports = {module: seconds(python, module, repeats) for module in MODULES}
        rows.append({"extra": extra, "megabytes": size, "packages": packages, "seconds": imports})
    where = f"Python {platform.python_version()}, {platform.system()}, {platform.machine()}"
    words = [
        "python",
        "privot_benchmarks/device_install.py",
        "--extras",
        *(e or "''" for e in extras),
    ]
    command = " ".join([*words, "--page", "docs/guides/install.md"])
    return {"date": date.today().isoformat(), "where": where, "command": command, "rows": rows}


def table(found: dict[str, object]) -> str:
    """The rows, as a page shows them."""
    lines = [
        "| `pip install` | packages | MB | " + " | ".join(f"`{name}`" for name in MODULES) + " |",
        "|---|---|---|" + "---|" * len(MODULES),
    ]
    for row in found["rows"]:
        name = f"`'.[{row['extra']}]'`" if row["extra"] else "`.`"
        times = ["" if t is None else f"{t:.2f} s" for t in row["seconds"].values()]
        lines.append(
            f"| {name} | {row['packages']} | {row['megabytes']:,.0f} | " + " | ".join(times) + " |"
        )
    told = f"Measured {found['date']}: {found['where']}, by `{found['command']}`."
    return "\n".join([*lines, "", told]) + "\n"


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--extras", nargs="*", default=["", "release", "maps", "learn", "networks"])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    found = measured(options.extras, options.repeats)
    print(table(found))
    if options.page:
        options.page.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
        write(options.page, found)


def write(page: Path, found: dict[str, object]) -> None:
    """Put the table where the page's mark is."""
    text, count = TABLE.subn(lambda _: table(found), page.read_text(encoding="utf-8"))
    if count != 1:
        sys.exit(f"{page} has {count} marks <!-- measured -->: leave one, and one <!-- so far -->")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
