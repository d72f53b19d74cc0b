"""The rules of the house: where imports go, what they may do, and how large things may grow."""

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent / "src" / "privot"
STUDIES = TESTS.parent / "studies"
# Lower floors first. A package may import what stands before it, and itself.
FLOORS = [
    "core", "privacy", "schema", "transport", "wire", "device", "mechanisms", "models", "tables",
    "training", "waves", "randomizer", "audit", "collector", "local", "central", "aggregated",
    "campaign", "integral", "evaluation", "forecast", "report", "demo", "plugins", "cli",
    "__main__",
]  # fmt: skip
# What imports PyTorch, by the extra `networks`; nothing else may, nor import these when it is imported.
NETWORKS = (
    "transport/", "training/generators.py", "training/loop.py", "local/networks/", "central/",
    "integral/networks.py",
)  # fmt: skip
WITHOUT = (
    "transport/assignment.py", "transport/pair_loops.py", "transport/__init__.py",
    "central/__init__.py", "central/fitting.py", "central/sums.py", "central/table_fit.py",
    "central/pyramid.py",
)  # fmt: skip
ALONE = {"transport": {"core"}}
FORBIDDEN = {"training": {"randomizer", "privacy", "mechanisms", "schema"}}
MOST_LINES, MOST_ARGUMENTS = 60, 8
MOST_MODULE_LINES, MOST_MODULES = 600, 10
MOST_LINES_OF_ALL, MOST_FILES, MOST_FOLDERS = 62_838, 206, 32
# Modules that one sibling alone imports: each is a concept with a name in the literature, an engine, or
# loops that are compiled apart from what calls them.
CONCEPTS = {
    "local.waves.grid_drift", "local.waves.table_drift", "transport.pair_loops", "transport.sweeps",
    "wire.windows",
}  # fmt: skip
# Commands, whose options are their arguments; and functions that are still to be divided.
COMMANDS = {
    "account.noise", "account.shuffle", "account.slices", "campaign.aggregate", "campaign.new",
    "campaign.serve", "campaign.up",
    "central.adapt", "central.fit", "central.fit_integral", "evaluation.evaluate",
    "evaluation.plan", "models.collect", "models.demo", "models.fit", "models.sample",
    "randomizer.calibrate",
    "randomizer.privatize", "schema.new", "waves.new", "waves.report",
}  # fmt: skip
UNDIVIDED: set[str] = set()
CROWDED: set[str] = set()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> list[ast.AST]:
    return [*ast.walk(parsed(path))]


@cache
def imports(path: Path) -> set[str]:
    """Absolute names of everything that a module imports, at any depth."""
    names = set()
    for node in nodes(path):
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


def named(paths) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def test_imports_go_downward():
    assert not {floor(path) for path in modules()} - {*FLOORS}, "give it a place in FLOORS"
    above, forbidden = [], []
    for path in modules():
        here, names = floor(path), imports(path)
        ours = {n.split(".")[1] for n in names if n.startswith("privot.")}
        if any(FLOORS.index(name) > FLOORS.index(here) for name in ours):
            above.append(path)
        if ours & FORBIDDEN.get(here, set()) or ours - ALONE.get(here, ours) - {here}:
            forbidden.append(path)
    assert not named(above)
    assert not named(forbidden)


def needs_networks(path: Path) -> bool:
    name = str(path.relative_to(ROOT))
    return name.startswith(NETWORKS) and not name.startswith(WITHOUT)


def test_only_networks_need_torch():
    """Maps and tables, by noise or by noisy sums, do without: no import of theirs leads to PyTorch."""
    paths = named_modules()
    networks = {name for name, path in paths.items() if needs_networks(path)}
    # A package's own module holds a docstring alone, or what is imported when it is used.
    networks -= {name for name, path in paths.items() if path.name == "__init__.py"}
    heavy = [
        path
        for name, path in paths.items()
        if name not in networks
        and (top_imports(path) & networks or {n.split(".")[0] for n in imports(path)} & {"torch"})
        and not needs_networks(path)
    ]
    assert not named(heavy)


def top_imports(path: Path) -> set[str]:
    """Modules of ours that importing a module imports at once."""
    wanted = set()
    for node in parsed(path).body:
        if isinstance(node, ast.ImportFrom):
            wanted |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            wanted |= {alias.name for alias in node.names}
    return wanted


def test_imports_stand_at_the_top():
    """Only the command line imports late, so that `--help` answers at once."""
    late = [
        f"{path.relative_to(ROOT)}: {function.name}"
        for path in modules()
        if floor(path) != "cli"
        for function in nodes(path)
        if isinstance(function, ast.FunctionDef)
        and any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(function))
    ]
    assert not late


def test_the_wheel_knows_nothing_of_studies():
    """Recipes and rivals import the library, never the other way round."""
    assert not [
        path for path in modules() if any(n.split(".")[0] == "studies" for n in imports(path))
    ]


WITHOUT_PACKAGES = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {missing}:
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)
sys.meta_path.insert(0, Block())
import privot
schema = privot.Schema.from_toml('[columns.age]\\nkind = "numeric"\\nbounds = [0, 100]\\nbins = 16')
release = privot.Randomizer.calibrate(schema, epsilon=1.0).privatize({{'age': [40.0, 50.0] * 200}})
assert len(release) == 400

def refused(use, purpose, extra):
    try:
        use()
    except ModuleNotFoundError as error:
        assert purpose in str(error) and f"pip install 'privot[{{extra}}]'" in str(error), error
    else:
        raise AssertionError(purpose)
"""


def runs_without(missing: tuple[str, ...], code: str) -> None:
    code = WITHOUT_PACKAGES.format(missing=missing) + code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_releases_are_made_without_what_learns():
    """Who declares, calibrates and privatizes does so with the extra `release` alone."""
    runs_without(
        ("torch", "safetensors", "matplotlib", "jinja2", "numba"),
        'refused(lambda: privot.fit, "privot.fit needs safetensors", "learn")',
    )


def test_reports_are_collected_without_what_serves():
    """Files and bytes become a release with the extra `release` alone; a collector names its own."""
    code = """
assert len(privot.collect(release).release) == 400
import privot.cli.models, privot.cli.waves, privot.collector.waves
refused(lambda: privot.collector.Campaign, "privot.collector.Campaign needs starlette", "serve")
"""
    runs_without(("starlette", "uvicorn", "fsspec", "psycopg", "numba", "torch"), code)


def test_maps_and_tables_are_learned_without_torch(tmp_path):
    """Plans, densities on grids, latent classes, checks, samples, reports, tables by noisy sums."""
    code = f"""
import privot.demo.homes, privot.central
from privot.local.classes import class_fit
few = class_fit.LatentClassSettings(class_counts=(4,), strengths=(1.0,), starts=1, max_passes=60)
class_fit.SETTINGS = class_fit.RELEVANCE_SETTINGS = class_fit.CURVE_SETTINGS = few
folder = {str(tmp_path)!r}
model = privot.fit(release, seed=0)
model.save(folder + '/grid')
assert privot.load(folder + '/grid').sample(10, seed=1).equals(model.sample(10, seed=1))
two = privot.Schema.from_dict({{'columns': {{
    'sex': {{'kind': 'categorical', 'categories': ['a', 'b']}}, 'old': {{'kind': 'boolean'}}
}}}})
table = {{'sex': ['a', 'b', 'b'] * 200, 'old': [True, False, False] * 200}}
reports = privot.Randomizer.calibrate(two, epsilon=4.0).privatize(table)
model = privot.fit(reports, seed=0)
privot.write_report(privot.evaluate(model, table), folder + '/report.html')
privot.check(model, reports)
central = privot.central.fit(table, two, epsilon=4.0)
central.save(folder + '/central')
from privot.integral import ClippedRatioSettings
ages = privot.Schema.from_dict({{'columns': {{'age': {{'kind': 'numeric', 'bounds': [0, 100]}}}}}})
private = privot.integral.fit({{'age': [20.0, 50.0] * 50}}, ages, epsilon=4.0, draws=2)
private.save(folder + '/private')
assert privot.load(folder + '/private').sample(2).num_rows == 2
assert privot.load(folder + '/central').sample(5, seed=0).num_rows == 5
network = privot.FitSettings(estimator='generator')
refused(lambda: privot.fit(reports, network), "'generator' needs torch", 'networks')
by_network = ClippedRatioSettings(estimator='mlp')
refused(
    lambda: privot.integral.fit({{'age': [2.0]}}, ages, epsilon=4.0, draws=2, settings=by_network),
    "'mlp' needs torch", 'networks',
)
refused(lambda: privot.central.adapt, 'privot.central.adapt needs torch', 'networks')
refused(lambda: privot.transport.manhattan, 'privot.transport.manhattan needs torch', 'networks')
"""
    code += """
from privot.cli import main
two.save(folder + '/two.json')
sys.argv = ['privot', 'plan', folder + '/two.json', '--epsilon', '1', '--people', '10']
try:
    main()
except SystemExit as ended:
    assert not ended.code
"""
    runs_without(("torch", "sklearn", "pandas"), code)


def test_import_is_light():
    """`import privot` loads nothing but itself."""
    code = (
        "import sys, privot; print([m for m in ('torch', 'numpy', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@cache
def column_kinds() -> set[str]:
    """Names of the classes of columns: all that end so below schema/columns."""
    trees = [parsed(path) for path in (ROOT / "schema" / "columns").glob("*.py")]
    classes = {n.name for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}
    return {name for name in classes if name.endswith("Column")}


def test_nobody_asks_for_a_kind_of_column():
    """A kind owns what is done with it: others ask for its domain and alphabet."""
    kinds, own = column_kinds(), ROOT / "schema" / "columns"
    asking = {path for path in modules() if path.parent != own and asked_for(path) & kinds}
    assert not named(asking - {ROOT / "integral" / "records.py"})


def asked_for(path: Path) -> set[str]:
    """Names in `isinstance` and `issubclass`."""
    return {
        name.id
        for call in nodes(path)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in ("isinstance", "issubclass")
        for name in ast.walk(call)
        if isinstance(name, ast.Name)
    }


@cache
def mechanism_kinds() -> set[str]:
    """Names of all classes below mechanisms: mechanisms, their forms, what they have in common."""
    trees = [parsed(path) for path in (ROOT / "mechanisms").rglob("*.py")]
    return {n.name for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}


def test_nobody_asks_for_a_kind_of_mechanism():
    """A mechanism owns what is done with it: others ask what it takes, tells and promises."""
    kinds, own = mechanism_kinds(), ROOT / "mechanisms"
    asking = [p for p in modules() if own not in p.parents and asked_for(p) & kinds]
    assert not named(asking)


def test_modules_stay_short():
    """A module beyond 600 lines holds two concepts."""
    paths = [*modules(), *STUDIES.rglob("*.py")]
    long = {str(p): n for p in paths if (n := len(p.read_text().splitlines())) > MOST_MODULE_LINES}
    assert not long


def test_packages_stay_small():
    """A package of more than ten modules is two packages."""
    folders = Counter(p.parent.relative_to(ROOT) for p in modules() if p.name != "__init__.py")
    assert not {str(folder): number for folder, number in folders.items() if number > MOST_MODULES}


def test_modules_have_readers():
    """A module that one module of its package alone imports is a part of that one, or of `CONCEPTS`."""
    paths = named_modules()
    readers: dict[str, set[str]] = {name: set() for name in paths}
    for name, path in paths.items():
        for module in modules_read(path) & paths.keys():
            readers[module].add(name)
    lonely = {
        name.removeprefix("privot.")
        for name, own in readers.items()
        if len(own) == 1
        and paths[name].name != "__init__.py"
        and not name.startswith("privot.cli.")
        and {reader.rpartition(".")[0] for reader in own} == {name.rpartition(".")[0]}
    }
    assert lonely == CONCEPTS


def modules_read(path: Path) -> set[str]:
    """Names that could be modules, of everything that a module imports, at any depth."""
    read = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            read |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            read |= {alias.name for alias in node.names}
    return read


def test_public_methods_are_documented_here_or_where_they_override():
    """A method without a docstring has that of a base class, which `help` shows."""
    bases: dict[str, set[str]] = {}
    documented, bare = set(), []
    for path in modules():
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef):
                named = (ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases)
                bases[node.name] = bases.get(node.name, set()) | {*named}
                for method in node.body:
                    if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                        if ast.get_docstring(method):
                            documented.add((node.name, method.name))
                        elif not method.name.startswith("_") and not node.name.startswith("_"):
                            bare.append((node.name, method.name))
                    elif isinstance(method, ast.AnnAssign):  # a field that a property overrides
                        documented.add((node.name, ast.unparse(method.target)))

    def is_documented(name: str, method: str) -> bool:
        above = bases.get(name, set())
        return (name, method) in documented or any(is_documented(base, method) for base in above)

    assert len(bare) > 100
    assert [both for both in bare if not is_documented(*both)] == []


def test_the_wheel_stays_within_its_bounds():
    """What is added has to make room for itself."""
    paths = [ROOT / "__init__.py", *modules()]
    lines = sum(len(p.read_text().splitlines()) for p in paths)
    assert lines <= MOST_LINES_OF_ALL
    assert len(paths) <= MOST_FILES
    assert len({p.parent for p in paths}) <= MOST_FOLDERS


def named_modules() -> dict[str, Path]:
    """Every module by the name that it is imported by."""
    parts = {p: ("privot", *p.relative_to(ROOT).with_suffix("").parts) for p in modules()}
    return {".".join(names).removesuffix(".__init__"): path for path, names in parts.items()}


def functions():
    """Every function of the library, by "module.name"."""
    for path in modules():
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.stem}.{node.name}", node


def test_functions_stay_short():
    found = {name for name, f in functions() if f.end_lineno - f.lineno >= MOST_LINES}
    assert found <= COMMANDS | UNDIVIDED
    assert found >= UNDIVIDED, "a function was divided: take it from UNDIVIDED"


def test_functions_take_few_arguments():
    """More belong into a `NamedTuple` or settings; compiled loops and their parts are no exception."""
    many = set()
    for name, function in functions():
        given = function.args
        names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        if len(names) - (names[:1] in (["self"], ["cls"])) > MOST_ARGUMENTS:
            many.add(name)
    assert many <= COMMANDS | CROWDED
    assert many >= CROWDED, "a function takes fewer arguments: take it from CROWDED"


def test_modules_import_in_no_circle():
    """Not even among the modules of one folder, whether or not Python would find a way."""
    paths, needs = named_modules(), {}
    for name, path in paths.items():
        wanted = set()
        for node in parsed(path).body:
            if isinstance(node, ast.ImportFrom):
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                wanted |= inner & paths.keys() or {node.module}
            elif isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
        needs[name] = (wanted & paths.keys()) - {name}
    while free := {name for name, needed in needs.items() if not needed & needs.keys()}:
        needs = {name: needed for name, needed in needs.items() if name not in free}
    assert not needs


def test_imports_change_nothing():
    """Importing every module leaves the process as it was: it is the program's, not ours."""
    code = """
import ctypes, importlib, os, signal, sys, warnings
import matplotlib.pyplot, numpy, pyarrow, sklearn, torch  # what they do themselves is theirs
import privot

def state():
    return {
        "threads": (torch.get_num_threads(), pyarrow.cpu_count()),
        "dtype": torch.get_default_dtype(),
        "matmul": torch.get_float32_matmul_precision(),
        "grad": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "draws": torch.get_rng_state().tolist(),
        "numpy errors": numpy.geterr(),
        "numpy prints": numpy.get_printoptions(),
        "numpy draws": numpy.random.get_state()[1].tolist(),
        "environment": dict(os.environ),
        "warnings": list(warnings.filters),
        "signals": [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)],
        "hook": sys.excepthook,
        "styles": dict(matplotlib.rcParams),
    }

def mapped():
    # Blocks that the allocator maps one by one: those beyond its threshold.
    class Info(ctypes.Structure):
        _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "free", "fast", "blocks", *"abcdef")]
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Info
    return libc.mallinfo2().blocks

before = state()
for name in sys.argv[1:]:
    importlib.import_module(name)
after = state()
print([name for name in before if before[name] != after[name]])
if hasattr(ctypes.CDLL(None), "mallinfo2"):
    blocks = mapped()
    large = numpy.empty(30 * 2**20, numpy.uint8)
    assert mapped() == blocks + 1, "the allocator's threshold was raised"
"""
    names = [n for n in named_modules() if not n.endswith("__main__")]
    names = [n for n in names if not n.startswith("privot.plugins.")]  # each needs its library
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


def test_tests_mirror_packages():
    """The tests of a package are in a folder of its name."""
    packages = {floor(path) for path in modules() if path.parent != ROOT}
    missing = {name for name in packages if not [*(TESTS / name).rglob("test_*.py")]}
    assert not missing, "put the tests of a package into tests/<package>"
