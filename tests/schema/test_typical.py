"""Typical numbers: bins are narrow among them; they are declared, or made of a model's draws."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privot import Schema
from privot.core.errors import PrivotError
from privot.schema.columns.alphabet import choose_edges, roundest

RNG = np.random.default_rng(0)


@settings(max_examples=30)
@given(
    low=st.floats(-1e4, 1e4),
    parts=st.tuples(*[st.floats(0.01, 1e4)] * 4),
    bins=st.integers(1, 20),
)
def test_eight_tenths_of_the_bins_are_typical_and_half_of_them_below_the_median(low, parts, bins):
    first, median, last, high = low + np.cumsum(parts)
    for typical in ((first, median, last), (first, last)):
        edges = np.array(choose_edges(low, high, False, 10 * bins, typical=typical))
        assert (edges[0], edges[-1]) == (low, high)
        assert (np.diff(edges) > 0).all()
        middle = np.mean(typical) if len(typical) == 2 else median
        assert edges[[bins, 5 * bins, 9 * bins]] == pytest.approx([first, middle, last], rel=1e-6)
    assert np.diff(edges)[bins : 9 * bins] == pytest.approx((last - first) / (8 * bins), rel=1e-3)


def test_bounds_far_beyond_what_is_typical_leave_its_bins_alone():
    codings = [
        Schema.from_dict({"columns": {"a": declared | {"bounds": [0, high]}}}).coded["a"].codings
        for high in (20, 60, 6000)
        for declared in [{"kind": "numeric", "typical": [4, 11]}]
    ]
    for bins in zip(*codings, strict=True):
        inside = [[edge for edge in coding.edges if 4 <= edge <= 11] for coding in bins]
        assert inside[0] == inside[1] == inside[2]
        assert len(inside[0]) >= 8


@pytest.mark.parametrize("typical", [[4, 70], [-1, 9], [9, 4], [4, 4], [4, 12, 9]])
def test_what_is_typical_increases_within_the_bounds(typical):
    with pytest.raises(
        PrivotError, match="typical of column 'a'|does not increase within the bounds"
    ):
        Schema.from_dict(
            {"columns": {"a": {"kind": "numeric", "bounds": [0, 60], "typical": typical}}}
        )


@pytest.mark.parametrize(
    ("low", "high"), [(0.4301, 0.4302), (1e-9, 1.1e-9), (-7.3e6, -7.1e6), (1 / 3, 0.3333334)]
)
def test_the_roundest_number_is_between(low, high):
    found = roundest(low, high)
    assert low <= found <= high
    assert len(repr(found)) <= len(repr(low))


def test_columns_are_refined_as_they_declare_values():
    schema = Schema.from_toml("""
        [columns.paid]
        kind = "numeric"
        bounds = [0, 100000]
        nullable = true
        [columns.hours]
        kind = "numeric"
        bounds = [1, 99]
        integer = true
        spikes = [60]
        [columns.day]
        kind = "datetime"
        bounds = [2000-01-01, 2029-12-31]
        [columns.rooms]
        kind = "numeric"
        bounds = [1, 8]
        integer = true
        [columns.sex]
        kind = "categorical"
        categories = ["F", "M"]
    """)
    n = 20_000
    days = np.datetime64("2020-01-01") + RNG.integers(0, 730, n)
    hours = np.where(RNG.random(n) < 0.4, 40, RNG.integers(20, 60, n))
    paid = pa.array(RNG.exponential(500, n), mask=RNG.random(n) < 0.2)
    drawn = pa.table(
        {"paid": paid, "hours": hours, "day": days, "rooms": RNG.integers(1, 9, n)}
        | {"sex": ["F", "M"] * (n // 2)}
    )
    refined = {name: column.refined(name, drawn) for name, column in schema.coded.items()}
    assert refined["rooms"] == schema.columns["rooms"]
    assert refined["sex"] == schema.columns["sex"]
    assert refined["hours"].spikes == (40.0, 60.0)
    for name in ("paid", "hours", "day"):
        bins = refined[name].alphabet
        assert bins.edges[0] == schema.coded[name].alphabet.edges[0]
        assert bins.edges[-1] == schema.coded[name].alphabet.edges[-1]
        codes = refined[name].encode_codes(name, drawn)
        held = np.bincount(codes, minlength=bins.size) / n
        assert held[:10].max() < 0.15  # by equal bins, nearly all are in one or two
    assert all(moment.endswith("-01") for moment in refined["day"].typical)  # the first of a month
    assert [moment[:4] for moment in refined["day"].typical] == ["2020", "2021", "2021"]


@pytest.mark.parametrize("more", ["", "decimals = 2", "integer = true"])
@pytest.mark.parametrize("at_low", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("spikes", [[], [0, 1, 99, 100]])
def test_a_mass_at_a_bound_or_beside_a_spike_leaves_no_bin_empty(more, at_low, spikes):
    """Values beyond the bounds are projected to them: two in a hundred are no spike of twelve codes."""
    head = f'[columns.a]\nkind = "numeric"\nbounds = [0, 100]\nspikes = {spikes}\n'
    column = Schema.from_toml(head + more).coded["a"]
    place = np.random.default_rng(0).random(20_000)
    values = np.where(place < at_low, 0.0, np.where(place > 0.98, 100.0, np.floor(100 * place)))
    refined = column.refined("a", pa.table({"a": values}))
    low, median, high = refined.typical
    assert low <= 36
    assert 45 < median < 80
    assert 93 <= high < 100
    assert {*spikes} <= {*refined.spikes} <= {*spikes, 0.0}
    for bins in refined.codings:
        assert 8 <= bins.num_bins <= 12
