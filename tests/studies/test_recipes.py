"""Every recipe runs from the one command line; every command on record is one that it takes."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

from privot.central import CentralModel
from privot.demo.datasets import LabeledImages
from studies import recipes
from studies.__main__ import main
from studies.common.image_features import ImageClassifier, save_classifier
from studies.recipes import RECIPES, listing, parser_of

ROOT = Path(__file__).parents[2]


def recorded():
    """Commands in pages, rows and docstrings, by where they stand."""
    places = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    places += [*sorted((ROOT / "docs").rglob("*.json")), *sorted((ROOT / "studies").rglob("*.py"))]
    for place in places:
        text = place.read_text(encoding="utf-8").replace("\\\n", " ")
        for words in re.findall(r"python -m studies (\w+\.\w+[^`\"\n]*)", text):
            yield pytest.param(words, id=f"{place.relative_to(ROOT)}: {words}"[:100])


@pytest.mark.parametrize("words", sorted(set(recorded()), key=str))
def test_a_command_on_record_is_understood(words):
    name, *rest = shlex.split(words, comments=True)
    assert name in RECIPES
    chosen = parser_of(name).parse_args(rest)
    assert callable(chosen.run)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_explains_itself(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        parser_of(name).parse_args(["--help"])
    assert RECIPES[name].split()[0] in capsys.readouterr().out


def test_every_module_with_a_command_is_listed():
    found = {
        ".".join(path.relative_to(ROOT / "studies").with_suffix("").parts)
        for path in (ROOT / "studies").rglob("*.py")
        if "\ndef run(chosen" in path.read_text(encoding="utf-8")
    }
    assert found == set(RECIPES)


def test_without_a_name_all_are_listed(capsys):
    main([])
    assert listing() in capsys.readouterr().out
    with pytest.raises(SystemExit, match="recipe 'sliced.magic' is not known"):
        main(["sliced.magic"])


def test_what_is_recorded_names_no_folder_of_this_machine(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setitem(RECIPES, "common.spy", "A spy.")
    spy = type("Spy", (), {"run": staticmethod(seen.append)})
    spy.options = staticmethod(lambda parser: parser.add_argument("paths", nargs="+"))
    monkeypatch.setattr(recipes, "import_module", lambda name: spy)
    main(["common.spy", str(tmp_path), str(tmp_path / "mnist.npz"), "docs/results"])
    assert seen[0].command == "python -m studies common.spy DIR mnist.npz docs/results"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Made-up data under the names of the real ones, and recipes that judge hundreds of draws."""
    rng = np.random.default_rng(0)
    for name, side in (("mnist", 28), ("usps", 16)):
        arrays = {}
        for part, num in (("train", 450), ("test", 100)):
            labels = np.arange(num) % 10
            images = rng.integers(0, 40, (num, side, side)) + 20 * labels[:, None, None]
            arrays |= {f"x_{part}": images.astype(np.uint8), f"y_{part}": labels.astype(np.uint8)}
        np.savez(tmp_path / f"{name}.npz", **arrays)
    places = {"longitude": rng.uniform(-5, 1, 3000), "latitude": rng.uniform(50, 58, 3000)}
    pc.write_csv(pa.table(places), tmp_path / "places.csv")
    save_classifier(ImageClassifier(), tmp_path / "judge.safetensors")
    monkeypatch.setattr("studies.sliced.images.accuracies.__defaults__", (200,))
    monkeypatch.setattr("studies.sliced.rivals.NUM_SYNTHETIC", 200)
    monkeypatch.setattr("studies.sliced.frechet.NUM_JUDGED", 100)
    for module in ("reports.points", "integral.accidents"):
        monkeypatch.setattr(f"studies.{module}.ACCIDENTS", "places.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


QUICK = (
    "reports.points towns --people 1000 --mechanism window laplace/grid -o out/rows.json",
    "sliced.toy --sizes 20 --draws 2 -o out",
    "tables.bayesian_network --people 300 -o out/rows.json",
    "sliced.timing --releases 2 -o out/rows.json",
    "sliced.sheets --data {0}/mnist.npz --epsilon 200 -o out/sheets.png",
    "sliced.images --data {0}/mnist.npz --epsilon 200 --low-pass 2 --residual-low-pass 2 "
    "--count 100 -o out",
    "sliced.images --data {0}/mnist.npz --epsilon 200 --components 1 --low-pass 2 "
    "--residual-low-pass 2 --count 100 --cnn -o out",
    "sliced.components --data {0}/mnist.npz --epsilon 200 --residual-low-pass 7 --count 100 -o out",
    "sliced.vectors --data {0}/mnist.npz --methods mixture real --side 3 --epsilon 200 --count 100 "
    "-o out",
    "integral.clients --clients 2 --epsilons 1 --only optimum -o out/rows.json",
)
LONGER = (
    "sliced.vectors --data {0}/mnist.npz --methods dp_merf gaussian --side 3 --epsilon 200 "
    "--count 100 -o out",
    "sliced.rivals --data {0}/mnist.npz --method published --steps 2 -o out",
    "integral.audit --epsilons 1 --together --draws 1000 -o out/rows.json",
    "tables.many_reports --people 200 -o out/rows.json",
    "entropic.manifolds --small -o out",
    "entropic.manifold_losses --steps 3 -o out",
    "sliced.adaptation --data {0} --pair mnist_usps --methods source --seeds 0 -o out",
    "integral.curves three --epsilons 1 --methods boost together -o out/rows.json",
    "integral.bernstein three --epsilons 1 -o out/rows.json",
    "integral.bounds three --epsilons 1 --seeds 0 -o out/rows.json",
    f"integral.panels three --epsilons 1 --rows {ROOT}/docs/results/integral -o out/panels.png",
    "integral.accidents --data {0} --epsilons 1 -o out/rows.json --picture out/map.png",
)


IMAGES = (
    "entropic.denoising --setting gaussian2",
    "entropic.higher_privacy --kind laplace",
    "entropic.noise_sweep",
    "entropic.noisy_wasserstein",
    "entropic.size_sweep",
    "images.recipe --seconds 0.01 --only plain --only labeled",
)


JUDGING = ("denoising", "higher_privacy", "image_fits")


@pytest.fixture
def images(folder, monkeypatch):
    """Recipes on images take made-up digits, and judge a hundred."""

    def made_up(name, folder):
        arrays = np.load(folder / f"{name}.npz")
        return LabeledImages(name, **arrays)

    monkeypatch.setattr("studies.common.image_recipe.load_images", made_up)
    judging = ("common.image_recipe", "images.recipe", *(f"entropic.{name}" for name in JUDGING))
    for module in judging:
        monkeypatch.setattr(f"studies.{module}.NUM_JUDGED", 100)
    for module in ("measures", "noise_sweep", "size_sweep"):
        monkeypatch.setattr(f"studies.entropic.{module}.NUM_POINTS", 20)
    for name in ("_TIMED_STEPS", "_FEWEST_STEPS", "_STEPS_OF_REGRESSION"):
        monkeypatch.setattr(f"studies.images.recipe.{name}", 3)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("words", IMAGES, ids=lambda words: words.split()[0])
def test_it_runs_on_made_up_images(images, words):
    if words.startswith("entropic.denoising"):
        pytest.importorskip("pywt", reason="PyWavelets is not installed")
    written = run(
        images, f"{words} --data {{0}} --steps 8 --classifier {{0}}/judge.safetensors -o out"
    )
    row = json.loads(next(path for path in written if path.suffix == ".json").read_text())
    assert row["command"].startswith(f"python -m studies {words} --data DIR --steps 8")


def run(folder, words):
    main(shlex.split(words.format(folder)))
    written = [path for path in (folder / "out").iterdir() if path.stat().st_size > 2]
    assert written
    return written


@pytest.mark.parametrize("words", QUICK, ids=lambda words: words.split()[0])
def test_it_runs_at_tiny_size(folder, words):
    run(folder, words)


@pytest.mark.slow
@pytest.mark.parametrize("words", LONGER, ids=lambda words: words.split()[0])
def test_it_runs_at_small_size(folder, words):
    run(folder, words)


def test_a_kept_model_is_judged(folder):
    run(
        folder,
        "sliced.images --data {0}/mnist.npz --epsilon 200 --components 1 --low-pass 2 "
        "--residual-low-pass 2 --count 100 --augment --model model -o out",
    )
    assert CentralModel.load(folder / "model").releases == 2
    run(
        folder,
        "sliced.frechet model --data {0}/mnist.npz --classifier {0}/judge.safetensors -o out",
    )
    assert (folder / "out" / "frechet_model.json").exists()
