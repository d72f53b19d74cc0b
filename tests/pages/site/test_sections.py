"""Docstrings for the site: sections are lists, doctests are code, mathematics stays as it is."""

import importlib.util
from pathlib import Path

SITE = Path(__file__).parents[3] / "site"


def load(name):
    spec = importlib.util.spec_from_file_location(name, SITE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WRITTEN = """What $x^2$ is.

Arguments:
    x: A number,
        of any size.
    *rest: Others.

Examples:
    >>> square(2)
    4

    Text in between.

    >>> square(3)
    9

References:
    Euclid, *Elements*.
"""


def test_sections_become_lists_and_doctests_code():
    lines = load("sections").to_markdown(WRITTEN).splitlines()
    assert lines[0] == "What $x^2$ is."
    start = lines.index("**Arguments**")
    assert lines[start + 2 : start + 5] == [
        "- `x`: A number,",
        "  of any size.",
        "- `*rest`: Others.",
    ]
    first = lines.index("```python")
    assert lines[first : first + 4] == ["```python", ">>> square(2)", "4", "```"]
    assert lines.count("```python") == lines.count("```") == 2
    assert "Text in between." in lines
    assert "Euclid, *Elements*." in lines


def test_every_public_package_has_a_page():
    pages = {path.stem for path in (SITE.parent / "docs" / "api").glob("*.md")} - {"index"}
    listed = (SITE.parent / "docs" / "api" / "index.md").read_text().split()
    assert pages <= set(listed)
    for page in pages:
        assert f"```{{public}} privot.{page}\n" in (SITE.parent / f"docs/api/{page}.md").read_text()
