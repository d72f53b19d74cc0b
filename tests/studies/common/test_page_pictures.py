"""Pictures of pages are of the pages' own tables."""

import argparse
import shutil

import numpy as np
import pytest

from privot.core.errors import PrivotError
from studies.common import page_pictures
from studies.common.page_pictures import PICTURES, number, privacy, read_table
from studies.common.pages import RESULTS


@pytest.mark.parametrize("name", PICTURES)
def test_every_page_has_the_table_of_its_picture(name):
    figure = PICTURES[name]((RESULTS / f"{name}.md").read_text())
    shown = [line.get_xdata() for axis in figure.axes for line in axis.lines]
    bars = [
        patch.get_width() * patch.get_height() for axis in figure.axes for patch in axis.patches
    ]
    numbers = np.concatenate([*(np.ravel(x) for x in shown), np.array(bars, float)])
    assert len(numbers) >= 4
    assert np.isfinite(numbers).mean() > 0.8


def test_honest_audits_are_drawn_below_their_claim_and_broken_ones_above():
    axis = privacy((RESULTS / "privacy.md").read_text()).axes[0]
    ratios = [np.asarray(line.get_xdata(), float) for line in axis.lines[:-1]]
    assert sum((r <= 1).all() for r in ratios) == 8
    assert sum((r > 1).all() for r in ratios) == 4


def test_a_page_without_the_table_is_named():
    with pytest.raises(PrivotError, match="no table whose first heading is 'setting'"):
        read_table("# Nothing\n", "setting")
    assert np.isnan(number("–"))


def test_the_command_writes_beside_the_pages(tmp_path, monkeypatch):
    shutil.copy(RESULTS / "candidates.md", tmp_path)
    monkeypatch.setattr(page_pictures, "PICTURES", {"candidates": PICTURES["candidates"]})
    page_pictures.run(argparse.Namespace(folder=tmp_path))
    assert (tmp_path / "candidates" / "candidates.png").read_bytes().startswith(b"\x89PNG")
