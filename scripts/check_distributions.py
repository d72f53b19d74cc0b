"""What `pip install privot` gives: sdist and wheel are built, looked into, installed, and used.

    python scripts/check_distributions.py        # `make dist-check`; one or two minutes

The wheel is built from the sdist, so that the sdist holds what builds. One empty environment gets the
wheel alone, and draws a report as a person's device does; another gets its extra `release`, where a
schema becomes a randomizer and a release by the commands; a third gets `learn`, where the release
becomes a model and synthetic records, without PyTorch. Where the package registry cannot be reached,
nothing is checked, and one line says so.
"""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Beside src/privot; hatchling adds PKG-INFO and .gitignore.
AROUND = {
    "pyproject.toml", "README.md", "LICENSE", "NOTICE", "CHANGELOG.md", "CITATION.cff", "PKG-INFO",
    ".gitignore",
}  # fmt: skip

DEVICE = """
import json, sys
from pathlib import Path
from privot.device import Device
from privot.waves import DeviceLedger, Panel
suite = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
device = Device.from_json(suite["randomizer"])
panel = Panel("check", window=1, start=0, length=3600, seed="public")
ledger = DeviceLedger("ledger", "me", wait=False)
record = suite["vectors"][0]["record"]
print(len(ledger.report(device, record, panel, now=10).to_bytes()))
"""
SCHEMA = '[columns.age]\nkind = "numeric"\nbounds = [0, 100]\n'
PEOPLE = "age\n" + "40\n50\n" * 50


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """What a command prints; what goes wrong ends the check, with the last that it said."""
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        words = " ".join(map(str, command))
        raise SystemExit(
            f"{words}\n{done.stdout}{done.stderr.strip()}\nexit code {done.returncode}"
        )
    return done.stdout


def environment(folder: Path, *requirements: str) -> Path:
    """A new environment's Python, with these installed."""
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    limits = ("-c", ROOT / "constraints.txt")
    run(python, "-m", "pip", "install", "--quiet", *limits, *requirements)
    return python


def require_contents(sdist: Path, wheel: Path) -> None:
    """Every tracked file of the package is in both; nothing else of the checkout is in the wheel."""
    tracked = {line.removeprefix("src/") for line in run("git", "ls-files", "src").splitlines()}
    with tarfile.open(sdist) as archive:
        held = {m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()}
    assert held - {f"src/{name}" for name in tracked} == AROUND, held
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {name for name in names if ".dist-info/" not in name}
    assert ours == tracked, ours ^ tracked
    assert "privot/py.typed" in ours
    assert {Path(name).name for name in names - ours} >= {"LICENSE", "NOTICE", "METADATA"}


def require_device(python: Path, folder: Path) -> None:
    """Python and the wheel alone draw a report; the command line names its extra."""
    drawn = run(
        python, "-c", DEVICE, ROOT / "conformance" / "vectors" / "window_number.json", cwd=folder
    )
    assert int(drawn) > 0
    done = subprocess.run([python.parent / "privot", "--help"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'privot[release]'" in done.stderr, done.stderr


def require_release(python: Path, folder: Path) -> None:
    """The commands make a release, in an environment where PyTorch is not."""
    assert "None" in run(
        python, "-c", "from importlib.util import find_spec; print(find_spec('torch'))"
    )
    privot = python.parent / "privot"
    version = run(python, "-c", "from importlib.metadata import version; print(version('privot'))")
    assert run(privot, "--version") == f"privot {version}"
    assert "privatize" in run(privot, "--help")
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "people.csv").write_text(PEOPLE)
    run(privot, "schema", "check", "schema.toml", cwd=folder)
    run(privot, "calibrate", "schema.toml", "--epsilon", "2", cwd=folder)
    run(privot, "privatize", "people.csv", "-r", "randomizer.json", "-o", "r.parquet", cwd=folder)
    code = "import privot; print(len(privot.Release.load('r.parquet')))"
    assert run(python, "-c", code, cwd=folder) == "100\n"


def require_learn(python: Path, folder: Path) -> None:
    """The commands learn a model and draw from it, where PyTorch is not; what needs it says so."""
    privot = python.parent / "privot"
    assert "None" in run(
        python, "-c", "from importlib.util import find_spec; print(find_spec('torch'))"
    )
    run(privot, "fit", "r.parquet", "-o", "model", cwd=folder)
    run(privot, "sample", "model", "--num-rows", "5", "-o", "synthetic.csv", cwd=folder)
    assert len((folder / "synthetic.csv").read_text().splitlines()) == 6
    code = "import privot; privot.fit(privot.Release.load('r.parquet'), estimator)"
    code = code.replace("estimator", "privot.FitSettings(estimator='generator')")
    done = subprocess.run([python, "-c", code], cwd=folder, capture_output=True, text=True)
    assert "pip install 'privot[networks]'" in done.stderr, done.stderr


def main() -> None:
    """Run the checks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            builder = environment(folder / "builder", "build", "hatchling")
        except SystemExit as refused:
            last = str(refused).splitlines()[-2]
            print(f"the distributions are not checked, for pip cannot reach its registry: {last}")
            return
        built = folder / "built"
        run(builder, "-m", "build", "--no-isolation", "--outdir", built, ROOT)
        (sdist,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
        require_contents(sdist, wheel)
        require_device(environment(folder / "device", str(wheel)), folder)
        require_release(environment(folder / "release", f"{wheel}[release]"), folder)
        require_learn(environment(folder / "learn", f"{wheel}[learn]"), folder)
        for path in (sdist, wheel):
            print(f"{path.name}: {path.stat().st_size:,} bytes, whole, installed and used")


if __name__ == "__main__":
    main()
