"""`privot calibrate` with a promise, from options or from the schema, and the batch that keeps it."""

import re

import pytest

from commands import typed
from privot.randomizer import Randomizer
from privot.schema.schema import Promise

SCHEMA = '[columns.works]\nkind = "boolean"\n'
OPTIONS = "--epsilon 0.5 --where shuffled --delta 1e-6 --people 1000"


@pytest.fixture
def run(tmp_path):
    """Run `privot …` in a folder with a schema and 1 500 people."""
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "people.csv").write_text("works\n" + "true\nfalse\nfalse\n" * 500)
    (tmp_path / "few.csv").write_text("works\n" + "true\nfalse\n" * 300)
    return typed(tmp_path)


def test_options_and_a_declared_promise_give_one_randomizer(run, tmp_path):
    code, out, err = run(f"calibrate schema.toml {OPTIONS} -o options.json")
    assert (code, err) == (0, "")
    trusted = "δ = 1e-06 if the shuffler and 1,000 senders are honest, else"
    promised = re.search(rf"a batch of 1,000 reports: ε = (\S+), {trusted}", out)
    assert 0.499 < float(promised[1]) <= 0.5
    promise = '[promise]\nepsilon = 0.5\nwhere = "shuffled"\ndelta = 1e-6\npeople = 1000\n'
    (tmp_path / "declared.toml").write_text(promise + SCHEMA)
    assert run("calibrate declared.toml -o declared.json")[0] == 0
    randomizer = Randomizer.load(tmp_path / "options.json")
    assert randomizer == Randomizer.load(tmp_path / "declared.json")
    assert randomizer.schema.promise == Promise(0.5, "shuffled", 1e-6, 1000)


def test_a_batch_is_fitted_and_a_smaller_one_is_not(run):
    run(f"calibrate schema.toml {OPTIONS} -o r.json")
    assert run("privatize people.csv -r r.json -o people.parquet")[0] == 0
    code, out, _ = run("fit people.parquet -o model")
    assert code == 0
    assert "senders are honest" in out
    run("privatize few.csv -r r.json -o few.parquet")
    code, _, err = run("fit few.parquet -o few_model")
    assert code == 2
    assert "600 reports were accepted, and the promise is of a batch of 1,000 or more" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--where shuffled --delta 1e-6 --people 1000", "give --epsilon, or --noise instead"),
        ("--epsilon 1 --where shuffled --people 1000", "delta is 0, and where is 'shuffled'"),
        ("--epsilon 1 --where nowhere", "where is 'nowhere': choose one of local"),
        ("--epsilon 1 --people 1000", "people is 1000, which 'local' has no use for"),
        (OPTIONS.replace("shuffled", "central"), "use privot.central"),
        ("", "give --epsilon, or --noise instead of it, or declare"),
        ("--noise 1 --delta 1e-6 --where shuffled --people 1000", "leave out [promise], --where"),
    ],
)
def test_refusals(run, tmp_path, options, message):
    code, _, err = run(f"calibrate schema.toml {options} -o r.json")
    assert code == 2
    assert message in err
    assert not (tmp_path / "r.json").exists()


def test_options_beside_a_promise_are_not_ignored(run, tmp_path):
    promise = '[promise]\nepsilon = 1\nwhere = "shuffled"\ndelta = 1e-6\npeople = 1000\n'
    schema = (tmp_path / "schema.toml").read_text()
    (tmp_path / "schema.toml").write_text(schema + promise)
    for options, message in {
        "--people 2000": "leave out --where, --people and --floor",
        "--floor 3": "leave out --where, --people and --floor",
        "--delta 1e-9": "delta is 1e-09, and the schema promises",
        "--noise 1": "--noise promises what it gives",
    }.items():
        code, _, err = run(f"calibrate schema.toml {options} -o r.json")
        assert (code, message in err) == (2, True)
