"""Whether each extra has wheels for each version of Python: what pip would install, without installing.

    python privot_benchmarks/python_versions.py   # 3.11 to 3.14; minutes, and no CI
    python privot_benchmarks/python_versions.py --versions 3.14 --extras ray

The versions are those of constraints.txt, which the tests run with, and the platform is this one.
Markers of our own requirements are evaluated for the version asked about; pip evaluates those of theirs
for the Python that it runs on, so that what a dependency needs on one version only is not looked for.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
# To pip, 3.11 alone is 3.11.0, which the site's packages no longer run on: they ask for 3.11.5.
PATCH = 9
EXTRAS = (
    "release",
    "learn",
    "evaluate",
    "images",
    "duckdb",
    "polars",
    "ray",
    "serve",
    "docs",
    "oracles",
    "dev",
)
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def requirements(extra: str, version: str) -> list[str]:
    """What an extra stands for on a version of Python, other extras of ours among it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = []
    for text in project["optional-dependencies"][extra]:
        wanted = Requirement(text)
        if wanted.marker and not wanted.marker.evaluate(
            {"python_version": version, "python_full_version": f"{version}.{PATCH}"}
        ):
            continue
        if wanted.name == project["name"]:
            names += [
                name for each in sorted(wanted.extras) for name in requirements(each, version)
            ]
        else:
            names.append(text.partition(";")[0])
    return list(dict.fromkeys(names))


def refusal(names: list[str], version: str) -> str:
    """What pip says of them; nothing, where it would install them."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--dry-run",
            "--quiet",
            "--target",
            folder,
        ]
        command += [
            "--python-version",
            f"{version}.{PATCH}",
            "--only-binary=:all:",
            "-c",
            "constraints.txt",
        ]
        done = subprocess.run([*command, *names], cwd=ROOT, capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
    found = [line for line in said if re.search("No matching|conflict", line)] or said
    return found[0].removeprefix("ERROR: ") if done.returncode else ""


def main() -> None:
    """Print a line for each extra that cannot be had, or for all of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--versions", nargs="*", default=VERSIONS)
    parser.add_argument("--extras", nargs="*", default=EXTRAS)
    options = parser.parse_args()
    for version in options.versions:
        # What resolves together resolves alone, for every version is pinned.
        together = [name for each in options.extras for name in requirements(each, version)]
        if not refusal(list(dict.fromkeys(together)), version):
            print(f"Python {version}: {', '.join(options.extras)}", flush=True)
            continue
        for extra in options.extras:
            said = refusal(requirements(extra, version), version)
            print(f"Python {version}, {extra}: {said or 'all of it'}", flush=True)


if __name__ == "__main__":
    main()
