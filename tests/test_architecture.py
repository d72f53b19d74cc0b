"""The house of DESIGN: imports go downward, and nothing below the line imports torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "privot"
STUDIES = Path(__file__).parents[1] / "studies"
# Lower floors first. A package may import what stands before it, and itself.
FLOORS = [
    "errors", "limits", "own_process", "files", "outputs", "model_folder", "schema", "privacy",
    "disk", "mechanisms", "tables", "release", "distributed", "datasets",
    "transport", "generators", "training", "local", "sliced", "integral", "models",
    "evaluation", "report", "demo", "cli", "__main__",
]  # fmt: skip
NO_TORCH = FLOORS[: FLOORS.index("transport")]
ALONE = {"transport": {"errors"}, "generators": {"errors"}}
FORBIDDEN = {"training": {"release", "privacy", "mechanisms", "schema"}}


def imports(path: Path) -> set[str]:
    """Absolute names of everything that a module imports, at any depth."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names.add(node.module)
    return names


def modules():
    return [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def floor(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_downward(path):
    here = floor(path)
    assert here in FLOORS, f"{here} has no place in the house: give it one in FLOORS"
    ours = {n.split(".")[1] for n in imports(path) if n.startswith("privot.")}
    above = {name for name in ours if FLOORS.index(name) > FLOORS.index(here)}
    assert not above
    assert not ours & FORBIDDEN.get(here, set())
    if here in ALONE:
        assert ours <= ALONE[here] | {here}
    if here in NO_TORCH:
        assert not {n for n in imports(path) if n.split(".")[0] in ("torch", "safetensors")}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_stand_at_the_top(path):
    """Only the command line imports late, so that `--help` answers at once."""
    if floor(path) == "cli":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            inner = [n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)]
            assert not inner, f"{path}:{node.name} imports inside a function"


def test_the_wheel_knows_nothing_of_studies():
    """Recipes and rivals import the library, never the other way round."""
    assert not [
        path for path in modules() if any(n.split(".")[0] == "studies" for n in imports(path))
    ]


def test_device_install_works_without_torch():
    """A device declares, calibrates and privatizes with torch nowhere in sight."""
    code = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('torch', 'safetensors', 'matplotlib', 'jinja2', 'numba'):
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
sys.meta_path.insert(0, Block())
import privot
schema = privot.Schema.from_toml('[columns.age]\\nkind = "numeric"\\nbounds = [0, 100]')
release = privot.Randomizer.calibrate(schema, epsilon=1.0).privatize({'age': [40.0, 50.0]})
assert len(release) == 2
try:
    privot.fit
except ModuleNotFoundError as error:
    assert "pip install 'privot[learn]'" in str(error), error
else:
    raise AssertionError('fit without torch')
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_import_is_light():
    """`import privot` loads nothing but itself."""
    code = (
        "import sys, privot; print([m for m in ('torch', 'numpy', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_modules_stay_one_concept():
    """A module beyond 300 lines holds two concepts."""
    paths = [*modules(), *STUDIES.rglob("*.py")]
    long = {str(p): n for p in paths if (n := len(p.read_text().splitlines())) > 300}
    assert not long
