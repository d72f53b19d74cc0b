"""Bins made of a model's draws: equal mass, round edges, tails and shared values of their own."""

import numpy as np
import pyarrow as pa
import pytest

from privot import Schema
from privot.schema.columns.alphabet import equal_mass, roundest

RNG = np.random.default_rng(0)


def shares(values, edges):
    return np.histogram(values, [-np.inf, *edges, np.inf])[0] / len(values)


@pytest.mark.parametrize(
    "values",
    [RNG.normal(size=20_000), RNG.lognormal(7, 1.5, 20_000), RNG.random(20_000)],
    ids=["normal", "lognormal", "uniform"],
)
def test_inner_bins_hold_equal_mass_and_outer_ones_a_hundredth(values):
    edges, spikes = equal_mass(values, 12, False, roundest)
    held = shares(values, edges)
    assert spikes == []
    assert len(held) == 12
    assert (held[[0, -1]] < 0.0125).all()
    assert (np.abs(held[2:-2] - 0.1) < 0.042).all()  # edges move by a fifth of a bin at either end


def test_edges_are_written_with_few_digits():
    edges, _ = equal_mass(RNG.lognormal(7, 1.5, 20_000), 12, False, roundest)
    assert max(len(f"{edge:g}".strip("0").replace(".", "")) for edge in edges) <= 2


def test_what_many_share_is_a_spike_and_the_rest_has_integers_on_both_sides():
    hours = np.concatenate([np.full(9_000, 40.0), RNG.integers(1, 100, 11_000)])
    edges, spikes = equal_mass(hours, 10, True, roundest)
    assert spikes == [40.0]
    rest = hours[hours != 40]
    assert (shares(rest, edges) > 0).all()
    assert edges == [round(edge) for edge in edges]


def test_one_value_makes_no_edge():
    assert equal_mass(np.full(50, 3.0), 10, False, roundest) == ([], [3.0])


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
    refined = {name: column.refined(name, drawn, 12) for name, column in schema.coded.items()}
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
    inside = [moment for moment in refined["day"].bins if moment[:4] in ("2020", "2021")]
    assert len(inside) >= 9
    assert sum(moment.endswith("-01") for moment in inside) >= 7  # the first of a month


@pytest.mark.parametrize("more", ["", "decimals = 2", "integer = true"])
@pytest.mark.parametrize("at_low", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("spikes", [[], [0, 1, 99, 100]])
def test_a_mass_at_a_bound_or_beside_a_spike_leaves_no_bin_empty(more, at_low, spikes):
    """Values beyond the bounds are projected to them: two in a hundred are no spike of twelve codes."""
    head = f'[columns.a]\nkind = "numeric"\nbounds = [0, 100]\nspikes = {spikes}\n'
    column = Schema.from_toml(head + more).coded["a"]
    place = np.random.default_rng(0).random(20_000)
    values = np.where(place < at_low, 0.0, np.where(place > 0.98, 100.0, np.floor(100 * place)))
    for num_codes in (2, 12, 40):
        bins = column.refined("a", pa.table({"a": values}), num_codes).alphabet
        assert 0.7 * num_codes <= bins.size <= num_codes + 2 + len(spikes)


def test_values_that_are_no_more_than_codes_have_a_code_each():
    """Each is shared by more people than a bin should hold: as spikes they would leave empty bins."""
    schema = Schema.from_toml("""
        [columns.a]
        kind = "numeric"
        integer = true
        bounds = [0, 20]
        spikes = [3]
        [columns.d]
        kind = "datetime"
        bounds = [2000-01-01, 2000-01-21]
    """)
    place = np.arange(21).repeat(100)
    drawn = pa.table({"a": place, "d": np.datetime64("2000-01-01") + place})
    for name, column in schema.coded.items():
        bins = column.refined(name, drawn, 30).alphabet
        assert (bins.num_bins, bins.size) == (21, 21)
