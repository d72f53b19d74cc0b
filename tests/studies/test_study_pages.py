"""The pages of results say what their rows say."""

from functools import partial
from pathlib import Path

import pytest

from privot.core.errors import PrivotError
from studies.__main__ import main
from studies.common.pages import fill, folder_of, pictures, provenance, rewrite, spread
from studies.common.rows import gather, read_rows
from studies.entropic import page as entropic
from studies.images import page as images
from studies.integral import page as integral
from studies.promise import page as promise
from studies.sliced import page as sliced

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PAGES = {
    "entropic": entropic,
    "images": images,
    "integral": integral,
    "central": sliced,
    "promise": promise,
}


def shown(text, name):
    """What a page shows as a table."""
    return text.split(f"<!-- table {name} -->\n")[1].split("\n<!-- end -->")[0]


@pytest.mark.parametrize("name", PAGES)
def test_every_table_is_that_of_the_rows(name):
    """On the page, and on the further pages in its folder."""
    page = RESULTS / f"{name}.md"
    folder = folder_of(page)
    known = dict(PAGES[name].tables_of(folder))
    for path in (page, *sorted(folder.glob("*.md"))):
        text = path.read_text(encoding="utf-8")
        if "<!-- table accounting -->" in text:  # half a minute of the accountant's: below
            known["accounting"] = partial(shown, text, "accounting")
        assert fill(text, known, "" if path == page else folder.name) == text, path.name


@pytest.mark.slow
def test_noise_on_the_page_is_the_accountants(tmp_path):
    folder = folder_of(RESULTS / "central.md")
    known = sliced.tables_of(folder)
    assert known["accounting"]() in (folder / "slices.md").read_text(encoding="utf-8")


def test_a_page_is_rewritten_between_its_marks_alone(tmp_path, capsys):
    page = tmp_path / "results.md"
    page.write_text("a\n<!-- table x -->\nold\n<!-- end -->\nb\n")
    rewrite(page, {"x": lambda: "new"})
    assert page.read_text() == "a\n<!-- table x -->\nnew\n<!-- end -->\nb\n"
    with pytest.raises(PrivotError, match="marks table 'x': known are y"):
        rewrite(page, {"y": lambda: ""})
    with pytest.raises(SystemExit, match="has no folder of rows"):
        main(["images.page", str(page)])


def test_further_pages_have_links_of_their_own(tmp_path):
    first, further = tmp_path / "a.md", tmp_path / "a" / "b.md"
    further.parent.mkdir()
    for page in (first, further):
        page.write_text("[x](y.md)\n<!-- table t -->\n<!-- end -->\n", encoding="utf-8")
    rewrite(first, {"t": lambda: "![p](a/p.png) [c](c.md) [d](#d)"})
    assert "![p](a/p.png) [c](c.md) [d](#d)" in first.read_text(encoding="utf-8")
    assert "![p](p.png) [c](../c.md) [d](#d)" in further.read_text(encoding="utf-8")
    assert further.read_text(encoding="utf-8").startswith("[x](y.md)")


def test_rows_are_read_as_they_were_written(tmp_path, capsys):
    rows = [{"σ": 1.0}, {"σ": 2.0}]
    gather(iter(rows), tmp_path / "new" / "some.json")
    assert read_rows(tmp_path / "new", "some") == [row | {"stem": "some"} for row in rows]
    assert capsys.readouterr().out.splitlines()[1] == '{"σ": 2.0}'


def test_how_rows_were_made_stands_beside_them():
    row = {"stem": "a_b", "command": "c", "seed": 3, "seconds": 1.4, "cores": 2, "threads": 1}
    made = provenance([row | {"date": "today", "plan": {"steps": 7}}, row | {"date": "today"}])
    assert "| `a_b` | `c` | 7 | 3 | 1 | 2, 1 used | today |" in made
    assert "| `a_b` | `c` |  | 3 |" in made
    assert pictures([row], Path("docs/results/x")) == "![a b](x/a_b.png)"
    assert spread([1.0, 3.0], 1) == "2.0 ± 1.4"
    assert spread([1.0], 1) == "1.0"
