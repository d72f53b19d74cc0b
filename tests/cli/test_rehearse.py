"""`privot plan --simulate`: every line is stamped, and so is every file; refusals are one line."""

import pytest

from commands import typed

SCHEMA = '[columns.uses]\nkind = "boolean"\n'


@pytest.fixture
def run(tmp_path):
    """Run `privot …` in a folder with a schema; return (exit code, standard output, error)."""
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "census.csv").write_text("uses\n" + "true\nfalse\n" * 50)
    return typed(tmp_path)


PLAN = "plan schema.toml --epsilon 1 --people 400 --simulate rehearsal --rehearsals 1"


def test_every_line_and_file_is_stamped(run, tmp_path):
    code, out, err = run(f"{PLAN} --like census.csv")
    assert code == 0, err
    assert len(out.splitlines()) == 3
    assert all(line.startswith("SIMULATED: ") for line in out.splitlines())
    assert all(path.name.startswith("SIMULATED-") for path in (tmp_path / "rehearsal").iterdir())
    code, _, err = run(f"{PLAN} --like census.csv")
    assert (code, len(err.splitlines())) == (2, 1)  # it is there


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (f"{PLAN} --like nowhere.csv", "nowhere.csv"),
        (f"{PLAN} --seed -1", "seed -1"),
        (f"{PLAN} --json", "leave out --json"),
        (f"{PLAN} --rehearse", "leave out --json and --rehearse"),
        ("plan schema.toml --epsilon 0 --people 400 --simulate rehearsal", "epsilon"),
        ("plan schema.toml --epsilon 1 --people 0 --simulate rehearsal", "people"),
    ],
)
def test_what_cannot_be_used_is_one_line(run, arguments, words):
    code, _, err = run(arguments)
    assert code == 2
    assert len(err.splitlines()) == 1
    assert words in err
