"""`privot plan`: the table, the sentence, the next command; JSON; one-line refusals."""

import json

import pytest

from commands import typed
from few_settings import few_settings
from privot.randomizer import Randomizer, plan_reports
from privot.schema import Schema

SCHEMA = """
[columns.age]
kind = "numeric"
bounds = [0, 99]
integer = true
[columns.sex]
kind = "categorical"
categories = ["F", "M"]
[columns.works]
kind = "boolean"
nullable = true
[columns.region]
kind = "categorical"
categories = ["a", "b", "c", "d", "e"]
"""


@pytest.fixture
def run(tmp_path):
    """Run `privot …` in a folder with a schema; return (exit code, standard output, error)."""
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return typed(tmp_path)


def test_the_table_has_a_row_a_way_of_reporting(run):
    code, out, err = run("plan schema.toml --epsilon 4 --people 50000")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "4 columns of 2 to 10 values, 50,000 reports, ε = 4 per person"
    rows = [line for line in lines if line.startswith(("joint", "split"))]
    assert [row.split()[:2] for row in rows[1:]] == [
        [report, str(k)] for report in ("joint", "split") for k in (1, 2, 3, 4)
    ]
    assert rows[0].split()[0] == "joint"
    assert rows[0].endswith("<- recommended")
    alone = [False, *[True, False, False, False] * 2]
    assert [row.endswith("marginals only") for row in rows] == alone
    assert sum(row.endswith("<- recommended") for row in rows) == 1
    header = next(line for line in lines if line.startswith("report"))
    assert header.endswith("people for 0.05")
    # Numbers stand under their headings, at the right.
    for word in ("cells", "pair seen by", "one-way", "two-way"):
        end = header.index(word) + len(word)
        assert all(row[end - 1] != " " and row[end] == " " for row in rows), word


def test_numbers_are_those_of_the_library(run):
    _, out, _ = run("plan schema.toml --epsilon 2 --people 12345 --target-error 0.02 --json")
    fields = json.loads(out)["table"]
    table = plan_reports(Schema.from_toml(SCHEMA), 2.0, 12_345, target_error=0.02).table
    best = fields["recommended"]
    assert best["two_way"] == table.recommended.two_way
    assert best["people_needed"] == table.recommended.people_needed
    assert fields["options"][1]["two_way"] is None
    assert len(fields["options"]) == 9
    assert best in fields["options"]
    _, out, _ = run("plan schema.toml --epsilon 2 --people 12345 --target-error 0.02")
    assert f"{best['two_way']:.4f}" in out


@pytest.mark.parametrize("epsilon", ["1", "4", "8.5"])
def test_the_next_command_calibrates_what_is_recommended(run, tmp_path, epsilon):
    _, out, _ = run(f"plan schema.toml --epsilon {epsilon} --people 50000 --json")
    fields = json.loads(out)
    words = fields["command"].removeprefix("privot ")
    assert run(words)[0] == 0
    joint = Randomizer.load(tmp_path / "randomizer.json").joint
    assert list(joint.design.lengths) == fields["table"]["recommended"]["columns"]
    assert "--report-columns" not in words
    assert joint.epsilon == float(epsilon)
    _, out, _ = run(f"plan schema.toml --epsilon {epsilon} --people 50000")
    assert out.splitlines()[-1] == f"next: {fields['command']}"


def test_a_plan_states_what_no_method_undercuts(run, tmp_path):
    (tmp_path / "home.toml").write_text(
        '[columns.home]\nkind = "vector"\ncolumns = ["x", "y"]\nbounds = [[0, 1], [0, 1]]\n'
    )
    code, out, _ = run("plan home.toml --epsilon 2 --people 20000 --json")
    fields = json.loads(out)
    floor = fields["floors"]["home"]
    assert code == 0
    assert 0 < floor["error"] < fields["columns"][0]["options"][0]["error"] < 2 * floor["worst"]
    _, out, _ = run("plan home.toml --epsilon 2 --people 20000")
    (line,) = [line for line in out.splitlines() if "every method errs by W2 = " in line]
    assert 0.9 * floor["error"] < float(line.split("W2 = ")[1].split()[0]) <= floor["error"]


def test_too_few_people_are_told_so(run):
    _, few, _ = run("plan schema.toml --epsilon 1 --people 500")
    _, many, _ = run("plan schema.toml --epsilon 8 --people 500000")
    assert "larger than that of a guess without any reports" in few
    assert "guess" not in many
    for out in (few, many):
        assert "Latent classes" in out


def test_a_single_column_and_a_vector(run, tmp_path):
    (tmp_path / "one.toml").write_text('[columns.sex]\nkind = "boolean"\n')
    code, out, _ = run("plan one.toml --epsilon 1 --people 100")
    assert code == 0
    assert out.startswith("1 column of 2 values, 100 reports, ε = 1 per person")
    assert "marginals only" not in out
    (tmp_path / "two.toml").write_text(
        SCHEMA
        + '[columns.home]\nkind = "vector"\ncolumns = ["x", "y"]\nsupport = [[0, 0], [1, 1]]\n'
    )
    _, out, _ = run("plan two.toml --epsilon 4 --people 1000")
    assert "\n2 of ε for these columns" in out
    assert "split" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("plan nowhere.toml --epsilon 1 --people 10", "schema nowhere.toml cannot be read"),
        ("plan schema.toml --epsilon 0 --people 10", "epsilon 0.0 promises nothing"),
        ("plan schema.toml --epsilon 1 --people 0", "people 0 cannot be"),
        ("plan schema.toml --epsilon 1 --people 9 --target-error 2", "target_error is 2.0: give"),
    ],
)
def test_refusals_are_one_line_and_exit_with_2(run, arguments, message):
    code, out, err = run(arguments)
    assert (code, out) == (2, "")
    assert err.startswith("privot: ")
    assert message in err
    assert err.count("\n") == 1


def test_a_missing_option_exits_with_2(run):
    code, _, err = run("plan schema.toml --epsilon 1")
    assert code == 2
    assert "people" in err


def test_a_fit_is_foretold_by_rehearsals(run, tmp_path):
    with few_settings():
        foretold(run, tmp_path)


def foretold(run, tmp_path):
    (tmp_path / "small.toml").write_text(
        '[columns.a]\nkind = "boolean"\n[columns.b]\nkind = "boolean"\n'
        + "".join(f'[columns.{x}]\nkind = "numeric"\nbounds = [0, 2]\nbins = 2\n' for x in "cd")
    )
    words = "plan small.toml --epsilon 4 --people 300"
    code, out, _ = run(f"{words} --rehearse")
    assert code == 0
    told = next(line for line in out.splitlines() if line.startswith("to expect of `privot fit`"))
    assert told.endswith(
        "2 rehearsals of made-up people whose columns depend on each other as in a census."
    )
    fields = json.loads(run(f"{words} --rehearse --json")[1])["fit"]
    assert fields["made_up"]
    assert "KS of numbers 0." in told
    assert 0 < fields["ks"] < 1 > fields["rank_correlation"] > 0
    assert 0 < fields["one_way"] < fields["two_way"] < 0.5
    assert "fit" not in json.loads(run(f"{words} --json")[1])
    code, _, err = run(f"{words} --like nowhere")
    assert code == 2
    assert "nowhere" in err


def test_more_people_and_epsilon_err_less(run):
    _, out, _ = run("plan schema.toml --epsilon 2 --people 3000 --json")
    table = json.loads(out)["table"]
    found = {(cast["people"], cast["epsilon"]): cast["error"] for cast in table["forecasts"]}
    assert len(found) == 9
    assert found[3000, 2.0] == table["options"][0]["two_way"]
    assert found[300, 2.0] == pytest.approx(10 * found[30_000, 2.0])
    assert found[3000, 1.0] > found[3000, 2.0] > found[3000, 4.0]


TWO = '[columns.a]\nkind = "boolean"\n[columns.b]\nkind = "boolean"\n'
PROMISED = TWO + '[promise]\nepsilon = 1\nwhere = "central"\ndelta = 1e-6\npeople = 300\n'


def test_every_place_of_trust_has_a_row(run, tmp_path):
    (tmp_path / "two.toml").write_text(TWO)
    code, out, err = run("plan two.toml --epsilon 1 --people 300 --where all")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0].startswith("SIMULATED: 300 made-up people")
    assert [line.split()[0] for line in lines[3:7]] == [
        "local", "shuffled", "aggregated", "central"
    ]  # fmt: skip
    local, shuffled, aggregated, central = (line.split() for line in lines[3:7])
    assert local[1:4] == ["1", "0", "1"]
    assert shuffled[1:3] == ["1", "3.34e-05"]
    assert float(shuffled[3]) > 1
    assert aggregated[3] == central[3] == "none"
    assert [line.partition("   ")[2] for line in lines[3:7]]
    assert "one of two servers" in lines[5]
    assert any(line.startswith("without noise: 0.") for line in lines)


def test_the_schemas_promise_is_read_and_options_replace_it(run, tmp_path):
    (tmp_path / "two.toml").write_text(PROMISED)
    fields = json.loads(run("plan two.toml --where central --json")[1])
    assert fields["people"] == 300
    (row,) = fields["rows"]
    assert (row["where"], row["epsilon"], row["delta"]) == ("central", 1.0, 1e-6)
    fields = json.loads(run("plan two.toml --where local --epsilon 2 --people 400 --json")[1])
    assert (fields["people"], fields["rows"][0]["epsilon"]) == (400, 2.0)
    assert fields["rows"][0]["delta"] == 0


def test_a_comparison_is_drawn_and_stamped(run, tmp_path):
    (tmp_path / "two.toml").write_text(TWO)
    (tmp_path / "like.csv").write_text("a,b\n" + "true,false\nfalse,false\ntrue,true\n" * 20)
    words = "plan two.toml --epsilon 2 --people 300 --where central --like like.csv --simulate out"
    code, out, err = run(words)
    assert code == 0, err
    assert "people like those of like.csv" in out
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["SIMULATED-numbers.json", "SIMULATED-picture.png", "SIMULATED-report.html"]
    fields = json.loads((tmp_path / "out" / "SIMULATED-numbers.json").read_text())
    assert [row["epsilon"] for row in fields["rows"]] == pytest.approx([0.2, 0.6, 2.0, 6.0])
    page = (tmp_path / "out" / "SIMULATED-report.html").read_text()
    assert page.count("a curator, with all records (central)") == 4
    assert page.count("SIMULATED") >= 4


@pytest.mark.parametrize(
    ("schema", "options", "words"),
    [
        (TWO, "--epsilon 1 --where all", "people is missing, and the schema promises nothing"),
        (TWO, "--people 300 --where all", "epsilon is missing, and the schema promises nothing"),
        (
            TWO + "[promise]\nepsilon = 1\n",
            "--where all",
            "people is missing, and the schema promises",
        ),
        (TWO, "--epsilon 1 --people 300 --where local --delta 1e-6", "where reports need none"),
        (TWO, "--epsilon 1 --people 300 --where nowhere", "--where"),
        (TWO, "--epsilon 1 --people 300 --where all --rehearse", "leave out --rehearse"),
        (TWO, "--epsilon 1 --people 300 --delta 1e-6", "--delta only with --where"),
    ],
)
def test_comparisons_that_cannot_be_are_one_line(run, tmp_path, schema, options, words):
    (tmp_path / "two.toml").write_text(schema)
    code, out, err = run(f"plan two.toml {options}")
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
