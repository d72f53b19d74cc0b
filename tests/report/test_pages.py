"""Reports are one file without a network, and escape what they are given.

A demo's folder is whole, or not there.
"""

import re
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import privot
from privot import FitSettings, Randomizer, Schema, fit
from privot.models import History
from privot.privacy import PureDP
from privot.report.pages import write_image_fit_report, write_results
from privot.report.panels import new_figure

SCHEMA = Schema.from_toml("""
unit = "<b>person</b>"
[columns.place]
kind = "vector"
columns = ["longitude", "latitude"]
bounds = [[0, 4], [10, 20]]
[columns."a<script>"]
kind = "categorical"
categories = ["red", "<i>"]
""")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    rng = np.random.default_rng(0)
    real = {
        "longitude": rng.uniform(0, 4, 300),
        "latitude": rng.uniform(10, 20, 300),
        "a<script>": rng.choice(["red", "<i>"], 300),
    }
    release = Randomizer.calibrate(SCHEMA, 4.0, report="split").privatize(real)
    model = fit(release, FitSettings(steps=20, batch_size=50))
    path = tmp_path_factory.mktemp("report") / "report.html"
    privot.write_report(privot.evaluate(model, real, num_rows=300), path)
    return path.read_text()


def test_one_file_without_a_network(page):
    sources = re.findall(r'(?:src|href)="([^"]{0,30})', page)
    assert sources
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert "@import" not in page
    assert re.findall(r"url\(([^)]{0,9})", page) == []


def test_names_from_the_schema_are_escaped(page):
    assert "<script" not in page
    assert "a&lt;script&gt;" in page
    assert "<b>person</b>" not in page


def test_says_what_is_promised_and_that_it_is_not_private_itself(page):
    assert "This report is not private" in page
    assert "e^4" in page


@dataclass
class Metrics:
    num_people: int = 3


def test_a_page_that_fails_leaves_no_folder(tmp_path):
    rows = [(i, 1.0, 1e-3, 0.0, 0.0) for i in range(3)]
    model = SimpleNamespace(history=History(rows), guarantee=PureDP(1.0))
    picture = ("picture.png", new_figure(1, 1))
    with pytest.raises(Exception, match="Undefined|undefined|has no attribute"):
        write_results(tmp_path / "demo", "demo.html", picture, model, Metrics(), {})
    assert not list(tmp_path.iterdir())


def test_images_that_were_reported_as_candidates_have_a_page_of_draws(tmp_path):
    """Their reports are no images; of a split report there are, beside the draws."""
    image = {"kind": "array", "shape": [4, 4], "bounds": [0, 1]}
    schema = Schema.from_dict({"columns": {"image": image}})
    people = {"image": [*np.random.default_rng(0).random((200, 4, 4))]}
    for report, received in (("auto", False), ("split", True)):
        randomizer = Randomizer.calibrate(schema, 8.0, report=report)
        assert bool(randomizer.candidates) != received
        release = randomizer.privatize(people)
        model = fit(release, FitSettings(steps=2, batch_size=32))
        write_image_fit_report(tmp_path / "page.html", model, release)
        page = (tmp_path / "page.html").read_text()
        assert ("Noise is wider than pixels" in page) == received
        assert page.count("data:image/png") >= 1
