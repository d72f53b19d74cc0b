"""Questionnaires: which sheets there are, how often each is drawn, what is refused."""

import json
from itertools import product

import numpy as np
import pytest
from scipy import stats

from privot.core.errors import PrivotError
from privot.mechanisms import SubsetSelection
from privot.randomizer.reports.joint import FormDesign, JointReport

CODINGS = {"a": (2,), "b": (3, 4), "c": (5, 3, 2, 6)}
FORMS, WEIGHTS = ((0,), (0, 1), (0, 1, 2), (2,)), (1, 2, 4, 3)
DESIGN = FormDesign(CODINGS, FORMS, WEIGHTS)
FIRST = [0, 1, 3]  # the first coding of each column, among all


def own_cell(sheet, codes):
    """The cell of a person's codes of all codings, digit by digit."""
    cell = 0
    for (column, coding), size in zip(DESIGN.questions(sheet), DESIGN.shape(sheet), strict=True):
        cell = cell * size + codes[FIRST[column] + coding]
    return cell


def test_sheets_are_forms_in_views_that_pick_codings():
    assert DESIGN.views == 4
    assert DESIGN.num_sheets == 16
    for form, view in product(range(4), range(4)):
        sheet = 4 * form + view
        questions = DESIGN.questions(sheet)
        assert questions == tuple((c, view % len(list(CODINGS.values())[c])) for c in FORMS[form])
        assert DESIGN.shape(sheet) == tuple(list(CODINGS.values())[c][k] for c, k in questions)
        assert DESIGN.num_cells[sheet] == np.prod(DESIGN.shape(sheet))
    np.testing.assert_allclose(DESIGN.shares, np.repeat(WEIGHTS, 4) / 40)


def test_cells_are_those_of_the_codings_that_a_sheet_asks():
    rng = np.random.default_rng(0)
    sizes = [size for each in CODINGS.values() for size in each]
    codes = rng.integers(0, sizes, (200, len(sizes)))
    sheets = rng.integers(0, 16, 200).astype(np.int32)
    assert DESIGN.cell(sheets, codes).tolist() == list(map(own_cell, sheets, codes))


@pytest.mark.parametrize("weights", [WEIGHTS, tuple(2**27 * w for w in WEIGHTS)])
def test_forms_come_as_often_as_their_weights_and_views_equally_often(weights):
    """By looking up, and by searching. The false-alarm rate is 1e-6."""
    design = FormDesign(CODINGS, FORMS, weights)
    counts = np.bincount(design.draw(80_000), minlength=16)
    assert stats.chisquare(counts, 80_000 * DESIGN.shares).pvalue > 1e-6
    wrong = np.repeat([1, 2, 4, 4], 4) / 44
    assert stats.chisquare(counts, 80_000 * wrong).pvalue < 1e-6


def test_every_sheet_has_the_whole_epsilon_and_the_law_of_its_own_cells():
    epsilon, num = 1.5, 120_000
    report, codes = JointReport(DESIGN, epsilon), np.array([1, 2, 3, 4, 0, 1, 5])
    answers = report.privatize(np.broadcast_to(codes, (num, 7)))
    for sheet in range(16):
        rows = np.flatnonzero(answers.sheets == sheet)
        mechanism = SubsetSelection(int(np.prod(DESIGN.shape(sheet))), epsilon)
        sets = answers.cells[answers.offsets[rows][:, None] + np.arange(mechanism.subset_size)]
        truth = own_cell(sheet, codes)
        often = (sets == truth).any(axis=1).mean()
        inside = mechanism.probabilities[0]
        # 5.6 standard deviations: false-alarm rate 2e-8 each.
        assert abs(often - inside) < 5.6 * (inside * (1 - inside) / len(rows)) ** 0.5
    other = np.array([0, 0, 0, 0, 0, 0, 0])
    ratio = report.log_ratio(answers, *(np.broadcast_to(c, (num, 7)) for c in (codes, other)))
    assert epsilon * 0.999 < np.abs(ratio).max() <= epsilon


def test_the_intervals_of_drawn_sheets_cover_the_unit_interval_in_order():
    low, high = DESIGN.sheet_intervals(np.arange(16, dtype=np.int32))
    np.testing.assert_allclose(low[1:], high[:-1])
    assert (low[0], high[-1]) == (0.0, 1.0)
    np.testing.assert_allclose(high - low, DESIGN.shares)


def test_json_round_trip():
    report = JointReport(DESIGN, 2.0)
    assert JointReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report


def test_a_uniform_one_has_all_forms_of_one_length_in_lexicographic_order():
    design = FormDesign.uniform(dict.fromkeys("abcd", (2,)), 2)
    assert design.forms == ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
    assert set(design.weights) == {1}
    assert design.lengths == (2, 2)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"codings": {"a": (1,), "b": (2,)}}, "give each at least 2"),
        ({"codings": {"a": (2.0,), "b": (2,)}}, "give each at least 2"),
        ({"codings": {"a": (), "b": (2,)}}, "give each at least 2"),
        ({"forms": ()}, "there are 0 forms"),
        ({"forms": ((0, 1), (0, 1))}, "or repeated ones"),
        ({"forms": ((0, 1), (1, 0))}, r"form \[1, 0\] is no list of columns"),
        ({"forms": ((0, 1), (0, 2))}, r"form \[0, 2\] is no list of columns"),
        ({"forms": ((0, 1), ())}, r"form \[\] is no list of columns"),
        ({"forms": ((0,),), "weights": (1,)}, r"columns \['b'\] are in no form"),
        ({"weights": (1,)}, "weights do not fit 2 forms"),
        ({"weights": (1, 0)}, "give each a positive integer"),
        ({"weights": (1, 2.0)}, "give each a positive integer"),
        ({"weights": (1, 2**31 - 1)}, "with a sum of at most 2147483647"),
        ({"codings": {"a": (300,), "b": (300,)}}, r"\['a', 'b'\] have more than 65536 cells"),
        ({"codings": {"a": (2,) * 1021, "b": (2,) * 1019}}, "in 1040399 views are more than"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anyone_reports(changed, words):
    fields = {"codings": {"a": (2,), "b": (3,)}, "forms": ((0,), (0, 1)), "weights": (1, 1)}
    _ = FormDesign(**fields)
    with pytest.raises(PrivotError, match=words):
        FormDesign(**(fields | changed))
