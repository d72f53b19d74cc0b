"""A demo's folder is whole, or not there."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from privot.demo.results import write_results
from privot.models import History
from privot.privacy import PureDP
from privot.report.style import new_figure


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
