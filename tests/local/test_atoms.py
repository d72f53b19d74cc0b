"""Atoms of numbers are where all their codes say."""

import numpy as np
import pyarrow as pa
import pytest

from privot import Schema
from privot.local.releases import Atoms, ReportedColumn

NUMBER = """
[columns.n]
kind = "numeric"
bounds = {}
bins = {}
spikes = {}
integer = {}
nullable = true
"""


def columns(*declared, integer=True):
    return [
        Schema.from_toml(NUMBER.format(*each, str(integer).lower())).coded["n"] for each in declared
    ]


@pytest.mark.parametrize("integer", [True, False])
def test_every_value_lies_in_the_atom_of_its_codes(integer):
    held = columns(
        ([0, 90], [0, 18, 40, 90], [30]), ([10, 99], [10, 30, 65, 99], [65]), integer=integer
    )
    atoms = Atoms.of("n", [ReportedColumn(column, False) for column in held])
    by_atom = np.stack([own[0].codes for own in atoms.codings], axis=1)
    values = np.arange(10, 99) if integer else np.arange(10, 99, 0.25)
    codes = np.stack([c.encode_codes("n", pa.table({"n": values.astype(float)})) for c in held], 1)
    which = (codes[:, None] == by_atom).all(axis=2)
    assert (which.sum(axis=1) == 1).all()
    low, high = (ends[which.argmax(axis=1)] for ends in (atoms.cells.low, atoms.cells.high))
    inside = np.where(high > low, (values >= low) & (values < high), values == low)
    assert inside.all()
    assert atoms.codes.tolist() == by_atom[:, 1].tolist()
    assert atoms.cells.points.tolist() == [30, 65]
    assert np.isnan(atoms.cells.low[by_atom[:, 1] == 4]).all()  # missing


def test_what_lies_beyond_the_newest_bounds_is_at_a_bound():
    held = columns(([0, 100], [0, 5, 100], []), ([10, 50], [10, 20, 50], []))
    atoms = Atoms.of("n", [ReportedColumn(column, False) for column in held])
    by_atom = np.stack([own[0].codes for own in atoms.codings], axis=1)
    (outside,) = np.flatnonzero((by_atom == [0, 0]).all(axis=1))
    assert (atoms.cells.low[outside], atoms.cells.high[outside]) == (10, 11)


def test_one_alphabet_has_its_codes_as_atoms():
    (column,) = columns(([0, 9], [0, 4, 9], [7]))
    atoms = Atoms.of("n", [None, ReportedColumn(column, True)])
    assert atoms.codings[0] == ()
    assert atoms.codes.tolist() == atoms.codings[1][0].codes.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(atoms.cells.low, [0, 4, 7, np.nan])
    np.testing.assert_array_equal(atoms.cells.high, [4, 10, 7, np.nan])
