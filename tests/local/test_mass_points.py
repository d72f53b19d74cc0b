"""What stands out of a curve of integers is one number, and a round one; the rest stays in its atom."""

import numpy as np
import pytest

from privot import Schema
from privot.local.classes.marginals import Curve, Pieces, place_mass_points
from privot.local.releases import Atoms, ReportedColumn

COLUMNS = {
    "hours": ({"kind": "numeric", "bounds": [1, 99], "integer": True}, 40),
    "price": ({"kind": "numeric", "bounds": [0, 99.75], "step": 0.25}, 40 * 4),
    "day": ({"kind": "datetime", "bounds": ["2024-01-01", "2026-12-31"]}, 365 * 55 + 14),
}


def made(name, excess):
    declared, meant = COLUMNS[name]
    column = Schema.from_dict({"columns": {name: declared}}).coded[name]
    atoms = Atoms.of(name, [ReportedColumn(column, True)])
    cells = atoms.cells
    own = int(np.flatnonzero((cells.low <= meant) & (meant < cells.high))[0])
    marginal = np.full(len(atoms.codes), 0.5 / (len(atoms.codes) - 1))
    marginal[own] = 0.5
    curve = Curve(marginal, np.array([own]), np.array([excess]))
    return atoms, own, meant, Pieces.bumps(curve, cells), column


@pytest.mark.parametrize("name", list(COLUMNS))
def test_the_excess_is_on_the_roundest_number(name):
    atoms, own, meant, pieces, column = made(name, 0.9)
    assert atoms.cells.high[own] - atoms.cells.low[own] > 1
    places, law = place_mass_points(column, atoms, pieces)
    assert places.cells.low[-1] == places.cells.high[-1] == meant
    shares = law @ pieces.shares
    assert shares[-1] == pytest.approx(0.45)
    assert shares[own] == pytest.approx(0.05)
    np.testing.assert_allclose(np.bincount(places.codes, shares),
                               np.bincount(atoms.codes, pieces.law @ pieces.shares))  # fmt: skip
    rng = np.random.default_rng(0)
    where, none = np.repeat([own, len(atoms.codes)], 50), np.zeros(100, np.int64)
    drawn = places.cells.draw(where, none, shares[:, None], rng)
    assert (drawn[50:] == meant).all()
    assert (drawn[:50] != meant).all()


def test_a_declared_spike_gets_no_mass_point():
    """40 is an atom of its own, so a peak of the interval around it is of other numbers."""
    spiked = {"kind": "numeric", "bounds": [1, 99], "integer": True, "spikes": [40]}
    column = Schema.from_dict({"columns": {"hours": spiked}}).coded["hours"]
    atoms = Atoms.of("hours", [ReportedColumn(column, True)])
    around = np.flatnonzero((atoms.cells.low <= 40) & (atoms.cells.high > 40))[:1]
    curve = Curve(np.full(len(atoms.codes), 1 / len(atoms.codes)), around, np.ones(1))
    places, law = place_mass_points(column, atoms, Pieces.bumps(curve, atoms.cells))
    assert len(places.codes) == len(law) == len(atoms.codes)


def test_numbers_that_are_not_counted_have_none():
    column = Schema.from_dict({"columns": {"x": {"kind": "numeric", "bounds": [0, 1]}}}).coded["x"]
    atoms = Atoms.of("x", [ReportedColumn(column, True)])
    curve = Curve(np.full(len(atoms.codes), 1 / len(atoms.codes)), np.array([9]), np.ones(1))
    places, law = place_mass_points(column, atoms, Pieces.bumps(curve, atoms.cells))
    assert len(places.codes) == len(law) == len(atoms.codes)
