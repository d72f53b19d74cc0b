"""The overlap of reports' laws, by which shuffled reports are accounted, against all their values."""

import itertools
import math

import numpy as np
import pytest

from privot.mechanisms import RandomizedResponse, SubsetSelection, Window
from privot.mechanisms.candidates.codebook import ClosestCandidates
from privot.privacy.distributed import ReportLaw
from privot.randomizer.reports.joint import FormDesign, JointReport
from privot.schema import Box


def of_categories(epsilon):
    mechanism, codes = RandomizedResponse(5, epsilon), np.arange(5)
    return mechanism, np.exp(mechanism.log_likelihood(codes[None], codes[:, None]))


def of_subsets(epsilon):
    mechanism = SubsetSelection(7, epsilon)
    sets = np.array(list(itertools.combinations(range(7), mechanism.subset_size)))
    return mechanism, np.exp(mechanism.log_likelihood(sets[None], np.arange(7)[:, None]))


def of_windows(epsilon):
    mechanism = Window.for_domain(Box((0.0,), (1.0,)), epsilon)
    cells = mechanism._grid
    reports = cells.units(cells.cells(np.arange(cells.num_report_cells)))
    records = np.linspace(-1, 1, 9)[:, None]
    return mechanism, np.exp(mechanism.log_likelihood(reports[None], records[:, None]))


@pytest.mark.parametrize("make", [of_categories, of_subsets, of_windows])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
def test_masses_are_those_of_all_reports(make, epsilon):
    mechanism, laws = make(epsilon)
    assert np.allclose(laws.sum(axis=1), 1)
    base, law = laws.min(axis=0), mechanism.report_law
    raised = laws > base * (1 + math.expm1(epsilon) / 2)
    assert np.allclose(laws, base * np.where(raised, math.exp(epsilon), 1.0), rtol=1e-9)
    found = []
    for first, second in itertools.combinations(raised, 2):
        one, both = base[first & ~second].sum(), base[first & second].sum()
        found.append(ReportLaw(law.epsilon0, one, both)._one_without_both)
    assert max(found) == pytest.approx(law._one_without_both, rel=1e-6)
    assert base.sum() == pytest.approx(2 * law.one + law.both + law.neither, rel=1e-6)


def test_a_joint_report_averages_its_forms():
    design = FormDesign.uniform({"sex": (2,), "age": (10,), "work": (9,)}, report_columns=2)
    laws = [SubsetSelection(cells, 2.0).report_law for cells in (20, 18, 90)]
    joint = JointReport(design, epsilon=2.0).report_law
    assert joint.one == pytest.approx(sum(law.one for law in laws) / 3, rel=1e-12)
    assert joint.both == pytest.approx(sum(law.both for law in laws) / 3, rel=1e-12)


def test_forms_of_one_size_are_not_one_form():
    """A person may hold 0 in one and 1 in the other, which bounds of one form do not cover."""
    codings = {"sex": (2,), "work": (2,)}
    for columns, one_form in ((1, False), (2, True)):
        design = FormDesign.uniform(codings, report_columns=columns)
        law = JointReport(design, epsilon=1.0).report_law
        assert law.one_form is one_form
        assert law.one == pytest.approx(SubsetSelection(2**columns, 1.0).report_law.one, rel=1e-12)


def test_candidates_support_their_closest():
    law = ClosestCandidates.for_dimension(100, epsilon=4.0).report_law
    inside, outside = ClosestCandidates.for_dimension(100, epsilon=4.0).probabilities
    assert law.one == pytest.approx(17 * outside, rel=1e-9)
    assert 2 * law.one + law.neither == pytest.approx(256 * outside, rel=1e-9)
    assert inside / outside <= math.exp(4.0)


def test_no_law_is_known_of_products_of_windows():
    window = Window(2.0, 2, 64, 8, "product")
    assert window.report_law is None
