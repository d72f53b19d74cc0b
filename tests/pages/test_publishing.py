"""What is published beside the code: how to cite it, what is new, and what an install takes."""

import json
import re
import runpy
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest
import yaml

import privot
from privot_benchmarks import device_install

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
NOTES = ROOT / "scripts" / "release_notes.py"
# The Citation File Format 1.2.0: what a file and a reference may say, and what they must.
CITATION_KEYS = {
    "abstract", "authors", "cff-version", "commit", "contact", "date-released", "doi", "identifiers",
    "keywords", "license", "license-url", "message", "preferred-citation", "references", "repository",
    "repository-artifact", "repository-code", "title", "type", "url", "version",
}  # fmt: skip
PERSON_KEYS = {
    "family-names",
    "given-names",
    "name-particle",
    "name-suffix",
    "orcid",
    "affiliation",
}


def authors_are_people_or_named(authors):
    return bool(authors) and all({"name"} == {*a} or {*a} <= PERSON_KEYS for a in authors)


def test_the_citation_is_of_this_version_and_well_formed():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"authors", "cff-version", "message", "title"} <= {*cited} <= CITATION_KEYS
    assert cited["cff-version"] == "1.2.0"
    assert cited["type"] == "software"
    assert cited["version"] == PROJECT["version"] == privot.__version__
    assert cited["license"] == PROJECT["license"]
    assert {each["name"] for each in cited["authors"]} == {a["name"] for a in PROJECT["authors"]}
    for work in (cited, *cited["references"]):
        assert authors_are_people_or_named(work["authors"])
        assert work["title"]
        assert work["type"]


def test_the_date_of_the_citation_is_that_of_the_changelog():
    """A version without a section of its own is not released, and has no date."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    version = re.escape(PROJECT["version"])
    found = re.search(rf"^## \[{version}\] - (\d{{4}}-\d\d-\d\d)$", CHANGELOG, re.MULTILINE)
    released = date.fromisoformat(found[1]) if found else None
    assert cited.get("date-released") == released


def test_release_notes_are_the_section_of_their_version():
    sections = runpy.run_path(str(NOTES))["sections"]
    text = "# Changelog\n\n## Unreleased\n\n## [0.2.0] - 2027-01-02\n\n### Added\n- b\n\n## 0.1.0\n- a\n"
    assert sections(text) == {"Unreleased": "", "0.2.0": "### Added\n- b", "0.1.0": "- a"}
    assert "".join(sections(CHANGELOG).values()).count("\n- ") == CHANGELOG.count("\n- ")


@pytest.mark.parametrize(("version", "code"), [("Unreleased", 0), ("9.9", 1)])
def test_a_version_that_is_not_there_is_told_with_those_that_are(version, code):
    done = subprocess.run([sys.executable, NOTES, version], capture_output=True, text=True)
    assert done.returncode == code
    assert ("name one of Unreleased" in done.stderr) == bool(code)


def test_the_page_of_installs_shows_what_was_measured():
    page = ROOT / "docs" / "guides" / "install.md"
    found = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert device_install.table(found) in page.read_text(encoding="utf-8")
    alone, *extras = found["rows"]
    assert alone["extra"] == ""
    assert alone["packages"] == 1
    assert alone["megabytes"] < min(row["megabytes"] for row in extras) / 10
