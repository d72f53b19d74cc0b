"""Several codings of one number: what they resolve, and their atoms."""

import numpy as np
import pytest

from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.schema.columns.alphabet import NUM_CODINGS, Bins, refine
from privot.schema.columns.numeric import decode_far

NUMBERS = (
    Bins((0.0, 5.0, 10.0), spikes=(2.0,), nullable=True),
    Bins((0.0, 1.0, 2.0, 7.5, 10.0), spikes=(2.0,), nullable=True),
)
# 4 and 5 are spikes, so that no other integer lies from 4 to 5, nor at 9 alone.
INTEGERS = tuple(
    Bins(edges, spikes=(0.0, 4.0, 5.0, 9.0), integer=True)
    for edges in [(0.0, 4.0, 8.0, 10.0), (0.0, 3.0, 6.0, 10.0), (0.0, 5.0, 7.0, 10.0)]
)


@pytest.mark.parametrize("codings", [NUMBERS, INTEGERS], ids=["numbers", "integers"])
def test_every_number_has_the_codes_of_its_atom(codings):
    atoms, codes = refine(codings)
    numbers = np.arange(-1.0, 12.0) if codings[0].integer else np.linspace(-1, 11, 481)
    if codings[0].nullable:
        numbers = np.append(numbers, np.nan)
    own = atoms.encode(numbers)
    for bins, table in zip(codings, codes, strict=True):
        assert table[own].tolist() == bins.encode(numbers).tolist()
    assert set(own) == set(range(atoms.size))  # every atom has a number
    assert len(np.unique(codes, axis=1).T) == atoms.size  # and some coding tells it from others


def test_the_atoms_of_one_coding_are_its_codes():
    atoms, codes = refine(NUMBERS[:1])
    assert atoms == NUMBERS[0]
    assert codes.tolist() == [list(range(4))]


def test_made_up_numbers_have_their_codes_and_half_of_the_outer_ones_lie_far_out():
    bins, rng = NUMBERS[0], np.random.default_rng(0)
    codes = rng.integers(0, bins.size, 4000)
    numbers = decode_far(bins, codes, rng)
    assert (bins.encode(numbers) == codes).all()
    for code, far in ((0, numbers < -1000), (1, numbers > 1000)):
        assert 0.4 < far[codes == code].mean() < 0.6


def test_codings_that_leave_no_integer_beside_the_spikes_cannot_be():
    with pytest.raises(PrivotError, match="leave no integer from 4 to 5"):
        refine([*INTEGERS, Bins((0.0, 4.0, 6.0, 10.0), (0.0, 4.0, 5.0, 9.0), integer=True)])


def column(more, kind="numeric"):
    return Schema.from_toml(f'columns.a = {{kind = "{kind}", {more}}}').columns["a"]


@pytest.mark.parametrize(
    "more",
    [
        "bounds = [0, 100], nullable = true",
        "bounds = [-1000, 99999]",
        "bounds = [1, 99], integer = true, spikes = [40]",
        "bounds = [-5, 20], integer = true, spikes = [0]",
        "bounds = [0, 16], integer = true",
        "bounds = [0.29, 2.77], decimals = 2",
        'bounds = [1, 100000], scale = "log"',
    ],
)
def test_a_number_that_declares_no_bins_is_asked_in_eight_codings(more):
    declared = column(more)
    alphabet, codings = declared.alphabet, declared.codings
    assert len(codings) == NUM_CODINGS
    assert codings[0] == alphabet
    others = len(alphabet.spikes) + alphabet.nullable
    for bins in codings:
        assert (bins.edges[0], bins.edges[-1]) == (alphabet.edges[0], alphabet.edges[-1])
        assert (bins.spikes, bins.nullable) == (alphabet.spikes, alphabet.nullable)
        assert 8 <= bins.size - others <= 12
    atoms = declared.atoms[0]
    values = atoms.edges[-1] - atoms.edges[0] if atoms.integer else np.inf
    assert atoms.num_bins >= min(55, values - others)


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ("bounds = [0, 100], bins = 10", "numeric"),
        ("bounds = [0, 100], bins = [0, 50, 100]", "numeric"),
        ("bounds = [1, 16], integer = true", "numeric"),
        ('bounds = [1, 40], integer = true, bins = "integers"', "numeric"),
        ('bounds = ["2024-01-01", "2024-12-31"], bins = 12', "datetime"),
    ],
)
def test_whoever_declares_bins_gets_these_alone(more, kind):
    declared = column(more, kind)
    assert declared.codings == (declared.alphabet,)


def test_masses_at_bounds_at_0_and_bumps_lie_in_atoms_of_their_own():
    amount, balance = column("bounds = [0, 100000]").atoms[0], column("bounds = [-500, 1000]")
    widths = np.diff(amount.edges)
    assert widths[0] < 5
    assert widths[-1] < 5
    assert widths.max() <= 2500
    whole = column("bounds = [-500, 100000], integer = true").atoms[0]
    for low in (-500, 0, 100000):
        assert low in whole.edges
        assert low + 1 in whole.edges
    assert 0.0 in balance.atoms[0].edges
    days = column('bounds = ["1960-01-01", "2024-12-31"]', "datetime").atoms[0]
    assert 0.0 not in days.edges  # 1970 is a day as any other


def test_bins_on_a_log_scale_begin_an_eighth_of_a_bin_later_each():
    atoms = column('bounds = [1, 10000], scale = "log"').atoms[0]
    np.testing.assert_allclose(np.diff(np.log(atoms.edges)), np.log(10) / 20, rtol=0.1)
