"""Curves of numbers in several alphabets: smooth where people are, with spikes."""

import numpy as np
import pytest

from privot.local.classes.counts import Query
from privot.local.classes.marginals import (
    NUM_BUMPS,
    OrderedAtoms,
    curves_of_numbers,
    pieces_of_columns,
)
from privot.local.releases import Atoms, Coding
from privot.schema.columns.alphabet import Categories
from privot.schema.sampling import LineCells
from simulated_reports import joint_group

LAST = 64
ALPHABETS = [np.arange(LAST) // 8, np.minimum((np.arange(LAST) + 3) // 7, 8), np.arange(LAST) // 11]
SEX = np.arange(2)


def coding(codes):
    return Coding(codes, Categories(tuple(map(str, np.unique(codes)))))


def atoms_of_columns():
    number = tuple(map(coding, ALPHABETS))
    cells = LineCells(np.arange(LAST) * 1.0, np.arange(LAST) + 1.0, integer=True)
    return [Atoms((number,), ALPHABETS[0], cells), Atoms(((coding(SEX),),), SEX)]


def reports(law, count, seed=0):
    rng = np.random.default_rng(seed)
    atoms = atoms_of_columns()
    queries = [
        Query.of_codes(column, codes, alphabet.size)
        for column, each in enumerate(atoms)
        for codes, alphabet in each.codings[0]
    ]
    value = rng.choice(LAST, count, p=law)
    sex = rng.integers(0, 2, count)
    coded = np.stack([*(codes[value] for codes in ALPHABETS), sex], axis=1)
    sizes = [len(query.law) for query in queries]
    parts = np.array_split(coded, 3)
    groups = [joint_group(rng, part, (i, 3), sizes, 4.0) for i, part in enumerate(parts)]
    return atoms, queries, groups


def bell(spike=0.0):
    law = np.exp(-(((np.arange(LAST) - 20) / 9) ** 2) / 2)
    law = (1 - spike) * law / law.sum()
    law[40] += spike
    return law


def test_a_smooth_law_comes_back_from_few_codes():
    """Better than each alphabet's bins, of eight numbers, let it be; and nothing stands out."""
    law = bell()
    curve = curves_of_numbers(*reports(law, 60_000))[0]
    assert curve.marginal.sum() == pytest.approx(1)
    error = np.abs(np.cumsum(curve.marginal - law)).max()
    flat = np.bincount(ALPHABETS[0], law)[ALPHABETS[0]] / 8
    assert error < 0.012
    assert np.abs(np.cumsum(flat - law)).max() > 2.5 * error
    assert not len(curve.peaks)


def test_a_mass_point_survives():
    law = bell(spike=0.3)
    atoms, queries, groups = reports(law, 60_000)
    curve = curves_of_numbers(atoms, queries, groups)[0]
    assert np.abs(np.arange(LAST)[curve.peaks] - 40).max() <= 2
    assert curve.marginal[38:43].sum() > 0.28
    assert curve.marginal[curve.peaks] @ curve.excess == pytest.approx(0.3, abs=0.03)
    assert np.abs(np.cumsum(curve.marginal - law))[:36].max() < 0.02
    pieces, about = pieces_of_columns(atoms, queries, groups)
    assert pieces[0].law.shape[1] >= NUM_BUMPS + 1
    np.testing.assert_allclose(pieces[0].law @ pieces[0].shares, curve.marginal, atol=1e-9)
    assert about[0].law.shape == (8, pieces[0].law.shape[1])
    np.testing.assert_allclose([each.law.sum(axis=0) for each in about[-1:]], 1)


def test_slivers_are_no_places_to_jump():
    """Places on the axis are as many atoms away as lie around, whatever their widths."""
    edges = np.cumsum([0, *([10.0, 1e-3] * 20)])
    axis = OrderedAtoms(LineCells(edges[:-1], edges[1:], integer=False)).axis
    assert axis[0] == -1
    assert axis[-1] == 1
    gaps = np.diff(axis)[8:-8]
    assert gaps.max() < 1.2 * gaps.min()
    wide = np.cumsum([0, *(2.0 ** np.arange(20))])
    gaps = np.diff(OrderedAtoms(LineCells(wide[:-1], wide[1:], integer=False)).axis)[7:-7]
    assert gaps.max() < 1.2 * gaps.min()  # not of widths that double


def test_columns_of_one_alphabet_have_no_curve():
    atoms, queries, groups = reports(bell(), 3000)
    only = [groups[0]]
    one = Atoms(((atoms[0].codings[0][0],),), atoms[0].codes, atoms[0].cells)
    assert curves_of_numbers([one, atoms[1]], [queries[0], *queries[3:]], only) == {}


def test_a_tail_of_nobody_holds_next_to_nobody():
    """A bell of wide bounds; smoothness alone would leave some people at their far end."""
    law = bell()
    law[50:] = 0
    curve = curves_of_numbers(*reports(law / law.sum(), 60_000))[0]
    assert curve.marginal[58:].sum() < 1e-5
    assert np.abs(np.cumsum(curve.marginal - law / law.sum())).max() < 0.015
