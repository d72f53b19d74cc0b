"""Words that nobody listed: reported with ε, found by a pilot, and categories of the others."""

import math

import numpy as np
import pyarrow as pa
import pytest

import privot
import privot.central
import privot.integral
from privot.core.errors import PrivotError
from privot.device import Device
from privot.device.device import ENCODERS
from privot.device.exact import check_randomizer
from privot.forecast.fits import forecast_fit
from privot.local.model import refine_words
from privot.local.words import _WordCounts, find_words

SCHEMA = privot.Schema.from_toml("""
    [columns.town]
    kind = "word"
    max_length = 5
    letters = "abcd"
    nullable = true
    [columns.member]
    kind = "boolean"
""")
RANDOMIZER = privot.Randomizer.calibrate(SCHEMA, 4.0)
SHARES = {"abba": 0.3, "cab": 0.2, "dacbd": 0.1, None: 0.1}


def people(count, seed):
    """Four answers, and rare ones; who says abba is a member."""
    rng = np.random.default_rng(seed)
    rare = ["".join(word) for word in rng.choice([*"abcd"], (count, 5))]
    known = rng.choice(len(SHARES) + 1, count, p=[*SHARES.values(), 1 - sum(SHARES.values())])
    towns = [[*SHARES, word][place] for place, word in zip(known, rare, strict=True)]
    return {"town": towns, "member": [town == "abba" for town in towns]}


@pytest.fixture(scope="module")
def pilot():
    return RANDOMIZER.privatize(people(20_000, 0))


@pytest.mark.parametrize("length", [4, 5, 32])
@pytest.mark.parametrize("rule", ["", 'out_of_bounds = "clip"'])
def test_devices_and_tables_encode_a_word_alike(length, rule):
    more = f"max_length = {length}\nnullable = true\n{rule}"
    text = f'[columns.town]\nkind = "word"\nletters = "aé d"\n{more}'
    randomizer = privot.Randomizer.calibrate(privot.Schema.from_toml(text), 1.0)
    encoding, column = randomizer.program["columns"]["town"], randomizer.schema.coded["town"]
    for word in (" DAé\t", "e\u0301a d", None, "", "d" * 40, "daß", "a"):
        try:
            cells = ENCODERS["word"](encoding, {"town": word})
        except PrivotError:
            with pytest.raises(PrivotError, match="has no word of at most"):
                column.encode_codings("town", pa.table({"town": pa.array([word], pa.string())}))
            assert not rule
            continue
        table = pa.table({"town": pa.array([word], pa.string())})
        assert column.encode_codings("town", table)[:, 0].tolist() == cells


def test_no_two_words_differ_by_more_than_epsilon():
    law, device = check_randomizer(RANDOMIZER.to_json()), Device.from_json(RANDOMIZER.to_json())
    assert law.holds
    assert math.log(law.total.factor) == pytest.approx(4.0, rel=1e-6)
    lengths = {
        len(device.report({"town": word, "member": True}).to_bytes()) for word in ("a", "dcbad")
    }
    assert len(lengths) == 1
    # The worst ratio over 2 000 reports is reached, and never exceeded, whatever the lengths.
    release = RANDOMIZER.privatize({"town": ["a", "dcbad"] * 1000, "member": [True] * 2000})
    words = pa.table({"town": ["a", "dcbad", "bb"], "member": [True] * 3})
    codes = SCHEMA.encode_codings(["town", "member"], words)
    for other in codes[1:]:
        both = (np.tile(row, (2000, 1)) for row in (codes[0], other))
        losses = RANDOMIZER.joint.log_ratio(release.joint_answers, *both)
        assert np.abs(losses).max() == pytest.approx(4.0, rel=1e-6)


def test_counts_of_words_are_unbiased(pilot):
    """Twelve words, within 5.5 deviations of their own half's counts: false alarms below 1e-6."""
    data = _WordCounts(SCHEMA.words["town"], privot.count(pilot), "town")
    words = ["abba", "cab", "dacbd", *("a", "b", "ad", "dd", "cabd", "abb", "bba", "dacb", "acbd")]
    symbols = np.array([data.column.symbols(word) for word in words])
    found = data.of_words(data.estimates, data.column.cells(symbols))
    expected = np.array([SHARES.get(word, 0) for word in words]) * data.total
    # Those who have a word vary by p(1 − p)/(p − q)², and which half of the people reports it is random.
    # 0.004 is three deviations of the frequent words that share cells by chance.
    stderr = np.sqrt(data.stderr**2 + 2 * expected)
    assert (np.abs(found - expected) < 5.5 * stderr + 0.004 * data.total).all()
    assert data.total == pytest.approx(10_000, abs=6 * 71)


def test_frequent_words_are_found_and_no_others(pilot):
    found = {word.word: word.people for word in find_words(privot.count(pilot), "town")}
    assert set(found) == {"abba", "cab", "dacbd"}
    assert all(abs(found[word] / 20_000 - SHARES[word]) < 0.04 for word in found)
    # Of 300 words to try that nobody frequently has, .05 are expected; four and more have p < 1e-6.
    rng = np.random.default_rng(3)
    tried = {"".join(word) for word in rng.choice([*"abcd"], (300, 5))} - {*SHARES}
    listed = {word.word for word in find_words(privot.count(pilot), "town", [*tried, "no!"])}
    assert len(listed - set(found)) < 4


def test_what_a_pilot_found_are_categories_of_the_others_who_are_fitted_with_it(pilot):
    refined, _ = refine_words(pilot, privot.fit)
    assert refined.columns["town"].categories == ("abba", "cab", "dacbd")
    assert refined.columns["town"].nullable
    others = privot.Randomizer.calibrate(refined, 4.0).privatize(people(10_000, 1))
    drawn = privot.fit([pilot, others], seed=0).sample(20_000, seed=0)
    town = np.array(drawn["town"].to_pylist(), object)
    assert (town == "abba").mean() == pytest.approx(0.3, abs=0.05)
    assert np.mean(drawn["member"].to_numpy(zero_copy_only=False)[town == "abba"]) > 0.9
    assert set(privot.fit(pilot).schema.columns) == {"member"}


@pytest.mark.parametrize("where", ["shuffled", "aggregated", "central"])
def test_words_are_for_local_reports_alone(where):
    """Elsewhere a word would be one of 512 cells, and samples would be made-up words."""
    promise = {"epsilon": 1, "where": where, "delta": 1e-6, "people": 1000}
    with pytest.raises(PrivotError, match="report them locally in a pilot"):
        privot.Schema.from_dict({"columns": SCHEMA.to_dict()["columns"], "promise": promise})


def test_curators_and_forecasts_refuse_words():
    table = people(100, 0)
    for use in (
        lambda: privot.central.fit(table, SCHEMA, epsilon=4.0),
        lambda: privot.fit([RANDOMIZER.privatize(table) for _ in "ab"], times=[1, 2]),
        lambda: privot.integral.fit(table, SCHEMA, epsilon=4.0, draws=2),
        lambda: forecast_fit(SCHEMA, 4.0, 100),
    ):
        with pytest.raises(PrivotError, match="report them locally in a pilot"):
            use()


def test_refusals(pilot):
    alone = privot.Schema.from_toml('columns.town.kind = "word"\ncolumns.town.letters = "ab"')
    release = privot.Randomizer.calibrate(alone, 4.0).privatize({"town": ["ab", "b"]})
    with pytest.raises(PrivotError, match="find the frequent ones by `privot schema new --pilot"):
        privot.fit(release)
    with pytest.raises(PrivotError, match="no word that is sure to be frequent"):
        refine_words(release, privot.fit)
    with pytest.raises(PrivotError, match="joint reports of their own"):
        privot.Randomizer.calibrate(SCHEMA, 4.0, report="split")
    with pytest.raises(PrivotError, match="different lower-case letters"):
        privot.Schema.from_toml('columns.town.kind = "word"\ncolumns.town.letters = "aA"')
    device = Device.from_json(RANDOMIZER.to_json())
    for record in ({"town": "abcdabcd"}, {"town": "z"}, {"town": 3}):
        with pytest.raises(PrivotError, match="'town'"):
            device.report(record | {"member": True}, word=lambda: pytest.fail("a word was drawn"))
