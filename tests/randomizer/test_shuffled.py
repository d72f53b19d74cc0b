"""Shuffled reports: ε₀ from the promise, ε from the accepted count."""

import itertools
import math
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privot
from privot import PrivotError, Randomizer, Schema
from privot.audit import audit_randomizer
from privot.collector.collecting import without_impossible
from privot.device import write_batch
from privot.privacy import DistributedDP, PureDP
from privot.privacy.distributed import ReportLaw
from privot.privacy.shuffling import (
    calibrate_shuffling,
    shuffled_delta,
    shuffled_epsilon,
)
from privot.randomizer import Release, weight_pairs
from privot.randomizer.privatize import privatize_records
from privot.randomizer.reports.rows import ReportTable, shard_name, write_manifest
from privot.schema.schema import Promise
from privot.tables.files import TableBatches
from privot.waves import Panel, PanelGuarantee

PLACE = '[columns.home]\nkind = "vector"\ncolumns = ["x", "y"]\nbounds = [[0, 1], [0, 1]]\n'
TABLE = (
    '[columns.age]\nkind = "numeric"\nbounds = [0, 100]\nbins = 8\n'
    '[columns.sex]\nkind = "categorical"\ncategories = ["f", "m"]\n'
    '[columns.work]\nkind = "boolean"\n'
)
IMAGE = '[columns.image]\nkind = "array"\nshape = [4, 4]\nbounds = [0, 255]\n'
PROMISE = '[promise]\nepsilon = {}\nwhere = "shuffled"\ndelta = 1e-6\npeople = {}\n'


def calibrated(columns, epsilon, people, more="", **settings):
    return Randomizer.calibrate(
        Schema.from_toml(columns + PROMISE.format(epsilon, people) + more), **settings
    )


@pytest.mark.parametrize("columns", [PLACE, TABLE, IMAGE])
def test_the_least_batch_keeps_the_promise_and_hardly_more_noise_is_drawn(columns):
    randomizer = calibrated(columns, 0.5, 20_000)
    law, local = randomizer.report_law, randomizer.guarantee.epsilon
    assert isinstance(randomizer.guarantee, PureDP)
    assert local >= calibrate_shuffling(0.5, 20_000, 1e-6)
    assert shuffled_delta(law, 20_000, 0.5, 1e-6) <= 1e-6
    more = Randomizer.calibrate(Schema.from_toml(columns), 1.01 * local)
    assert shuffled_delta(more.report_law, 20_000, 0.5, 1e-6) > 1e-6
    assert randomizer.batch_guarantee(20_000).epsilon <= 0.5


def test_a_file_whose_least_batch_does_not_keep_its_promise_is_refused():
    kept = calibrated('[columns.bit]\nkind = "boolean"\n', 0.1, 1000)
    assert Randomizer.from_json(kept.to_json()).to_json() == kept.to_json()
    for epsilon0 in (1.01 * kept.guarantee.epsilon, 6.0):  # calibration is exact to .1 %
        schema = kept.schema.model_copy(update={"promise": None})
        weaker = replace(Randomizer.calibrate(schema, epsilon0), schema=kept.schema)
        with pytest.raises(PrivotError, match=r"promises ε = 0.1, .* do not keep it"):
            Randomizer.from_json(weaker.to_json())


def test_epsilon_is_of_the_accepted_count_and_small_batches_are_not_opened():
    randomizer = calibrated(TABLE, 0.5, 1000)
    rng = np.random.default_rng(0)

    def people(count):
        return {
            "age": rng.uniform(0, 100, count),
            "sex": rng.choice(["f", "m"], count),
            "work": rng.random(count) < 0.5,
        }

    least, more = (randomizer.privatize(people(count)).guarantee for count in (1000, 4000))
    expected = shuffled_epsilon(randomizer.report_law, 4000, 1e-6).epsilon
    assert more == DistributedDP(
        expected, 1e-6, "shuffled", 4000, floor=randomizer.guarantee.epsilon
    )
    assert more.epsilon < least.epsilon <= 0.5
    with pytest.raises(
        PrivotError, match="999 reports were accepted, and the promise is of a batch"
    ):
        _ = randomizer.privatize(people(999)).guarantee


def test_tables_do_not_say_whether_they_are_one_batch():
    """Nobody mixed a union of two: ε of twice as many people would be less than what holds."""
    randomizer = calibrated(PLACE, 1, 1000)
    places = np.random.default_rng(0).random((2, 1000))
    batches = [randomizer.privatize({"x": places[0], "y": places[1]}) for _ in range(2)]
    assert privot.count(batches[0]).guarantee == randomizer.batch_guarantee(1000)
    union = pa.concat_tables([batch.table for batch in batches])
    for table in (batches[0].table, union, union.sort_by("report_id")):
        with pytest.raises(PrivotError, match="tables do not say which reports were shuffled"):
            privot.count(table, randomizer)


def test_a_file_of_two_batches_is_neither_counted_nor_loaded_nor_collected(tmp_path):
    """Who appends one to the other would state ε of their union, which nobody mixed."""
    randomizer, path = calibrated(PLACE, 1, 1000), tmp_path / "both.parquet"
    places = np.random.default_rng(0).random((2, 1000))
    for name in ("first", "second"):
        randomizer.privatize({"x": places[0], "y": places[1]}).save(tmp_path / name)
    tables = [pq.read_table(tmp_path / name) for name in ("first", "second")]
    union = pa.concat_tables(tables)  # the randomizer is in its metadata
    first = tables[0].slice(0, 1)
    nothing = pa.table({name: pa.nulls(1, first.field(name).type) for name in first.column_names})
    # A fit leaves out impossible reports; the others are not put in order on the way.
    impossible = pa.concat_tables([nothing.cast(first.schema), *tables])
    written = pq.read_metadata(tmp_path / "first").metadata
    copied = union.sort_by("report_id").replace_schema_metadata(written)
    for table in (union, union.sort_by("report_id"), copied, impossible):
        pq.write_table(table, path)
        assert (
            Release.open(path).guarantee.epsilon
            < Release.load(tmp_path / "first").guarantee.epsilon
        )
        for read in (Release.load, privot.count, privot.collect, _collected, _possible):
            if table is impossible and read in (Release.load, privot.count):
                continue  # which name that report
            with pytest.raises(PrivotError, match="both.parquet is not one shuffled batch"):
                read(path)
    with pytest.raises(PrivotError, match="2 sources of shuffled reports are not one batch"):
        privot.collect([write_batch([b""]), write_batch([b""])], randomizer)


def test_shards_of_two_batches_are_no_release(tmp_path):
    """Each shard is as it was written, and both together are not in the order of ids."""
    randomizer = calibrated(PLACE, 1, 1000)
    table = {"x": np.full(1000, 0.5), "y": np.full(1000, 0.5)}
    randomizer.privatize(table).save(tmp_path / shard_name(0))
    write_manifest(tmp_path, [1000])
    assert len(privot.count(tmp_path)) == len(privot.collect(tmp_path).release) == 1000
    randomizer.privatize(table).save(tmp_path / shard_name(1))
    write_manifest(tmp_path, [1000, 1000])
    for read in (Release.load, privot.count, privot.collect):
        with pytest.raises(PrivotError, match="is not one shuffled batch"):
            read(tmp_path)


def test_a_shard_of_another_batch_is_noticed_in_its_place(tmp_path):
    """The other's second shard has ids above .94 · 2^128, and one's first up to .75, by 15 σ."""
    randomizer = calibrated(PLACE, 1, 1000)
    for name, count in (("one", 2000), ("other", 1600)):
        table = pa.table({"x": np.full(count, 0.5), "y": np.full(count, 0.5)})
        privatize_records(randomizer, TableBatches(table), tmp_path / name, part_rows=1500)
        assert len(Release.load(tmp_path / name)) == len(privot.count(tmp_path / name)) == count
    shutil.copy(tmp_path / "other" / shard_name(1), tmp_path / "one" / shard_name(1))
    for read in (Release.load, privot.count, privot.collect):
        with pytest.raises(PrivotError, match="is not one shuffled batch"):
            read(tmp_path / "one")


def _collected(path):
    return privot.collect(Release.open(path))


def _possible(path):
    with without_impossible(path, path.with_suffix(".csv"), strict=False):
        pass


def test_single_reports_of_two_batches_are_not_fitted_as_one():
    """Where a model needs single reports, nothing counts them, and all were of one batch once."""
    names = ["a", "b", "c", "d"]  # more coordinates than a map has
    columns = PLACE.replace('["x", "y"]', str(names)).replace("[[0, 1], [0, 1]]", str([[0, 1]] * 4))
    randomizer = calibrated(columns, 1, 300)
    one, other = (randomizer.privatize(dict.fromkeys(names, np.full(300, 0.5))) for _ in range(2))
    for parts in ((one.table, other.table), (one.table, one.table)):
        several = Release(ReportTable.of(*parts), randomizer)
        with pytest.raises(PrivotError, match="is not one shuffled batch"):
            privot.fit(several, steps=1)


def test_reports_in_the_order_of_records_are_not_shuffled():
    with pytest.raises(PrivotError, match="keep_order is True, and the schema promises shuffled"):
        calibrated(PLACE, 0.5, 1000).privatize({"x": [0.1], "y": [0.2]}, keep_order=True)


def test_the_floor_is_kept():
    assert calibrated(PLACE, 0.5, 20_000, "floor = 3\n").guarantee.epsilon <= 3.0
    assert calibrated(PLACE, 0.5, 20_000, "floor = 0.5\n").guarantee.epsilon <= 0.5


def test_it_travels_in_the_randomizer():
    randomizer = calibrated(TABLE, 0.5, 1000)
    again = Randomizer.from_json(randomizer.to_json())
    assert again.schema.promise == randomizer.schema.promise
    assert again.batch_guarantee(1234) == randomizer.batch_guarantee(1234)


def test_the_law_of_several_columns_is_that_of_any_mechanism_and_of_one_column_by_a_coin_a_mixture():
    several = calibrated(TABLE, 2.0, 1000, report="split", mechanism="laplace")
    assert several.report_law == ReportLaw.worst(several.guarantee.epsilon)
    schema = Schema.from_toml(TABLE.split("[columns.sex]")[1].join(["[columns.sex]", ""]))
    one = Randomizer.calibrate(schema, 2.0, report="split", report_columns=1)
    assert one.report_law.one == pytest.approx(ReportLaw.of_subsets(2.0, 1, 2).one, rel=1e-9)


@pytest.mark.parametrize(
    ("toml", "arguments", "message"),
    [
        (TABLE, {}, "epsilon is missing, and the schema promises nothing"),
        (TABLE + PROMISE.format(1, 1000), {"epsilon": 1.0}, "leave one of them out"),
        (
            TABLE + PROMISE.format(1, 1000).replace("shuffled", "central"),
            {},
            "where is 'central', where no record is randomized by itself",
        ),
    ],
)
def test_refusals(toml, arguments, message):
    with pytest.raises(PrivotError, match=message):
        Randomizer.calibrate(Schema.from_toml(toml), **arguments)


def test_a_model_has_the_guarantee_of_its_batch_and_of_several_the_weaker(tmp_path):
    randomizer = calibrated(TABLE, 0.5, 1000)
    rng = np.random.default_rng(1)
    many, few = (
        randomizer.privatize(
            {
                "age": rng.uniform(0, 100, count),
                "sex": rng.choice(["f", "m"], count),
                "work": rng.random(count) < 0.5,
            }
        )
        for count in (3000, 1200)
    )
    model = privot.fit(many, seed=0)
    assert model.guarantee == many.guarantee
    model.save(tmp_path / "model")
    assert privot.load(tmp_path / "model").guarantee == many.guarantee
    assert "If the shuffler is honest" in (tmp_path / "model" / "model.json").read_text()
    both = privot.fit([many, few], seed=0).guarantee
    assert (both.people, both.epsilon) == (1200, few.guarantee.epsilon)


def test_small_batches_are_not_fitted():
    randomizer = calibrated(PLACE, 0.5, 1000)
    rng = np.random.default_rng(2)
    few = randomizer.privatize({"x": rng.random(400), "y": rng.random(400)})
    with pytest.raises(PrivotError, match="400 reports were accepted"):
        privot.fit(few)


def test_batches_of_the_same_people_are_composed_at_the_promises_delta():
    randomizer = calibrated(PLACE, 0.5, 1000)
    one, four = (randomizer.batch_guarantee(1500, batches) for batches in (1, 4))
    assert one == randomizer.batch_guarantee(1500)
    assert (four.batches, four.delta, four.people) == (4, 1e-6, 1500)
    assert 1.9 * one.epsilon < four.epsilon < 2.5 * one.epsilon
    assert four.floor == 4 * one.floor
    with pytest.raises(PrivotError, match="900 reports were accepted"):
        randomizer.batch_guarantee(900, 4)
    for wrong in (randomizer, Randomizer.calibrate(Schema.from_toml(PLACE), 1.0)):
        with pytest.raises(PrivotError, match="0 cannot be"):
            wrong.batch_guarantee(1500, 0)


def test_a_panel_of_shuffled_waves_promises_one_batch_a_window_and_their_composition():
    randomizer = calibrated(PLACE, 0.5, 1000)
    panel = Panel("homes", window=6, start=0, length=3600, seed="public", waves=52)
    promise = randomizer.panel_guarantee(panel)
    assert promise.report == randomizer.batch_guarantee(1000)
    assert promise.in_all == randomizer.batch_guarantee(1000, 9)
    assert randomizer.panel_guarantee(panel, 5000).in_all.epsilon < promise.in_all.epsilon
    assert randomizer.panel_guarantee(replace(panel, waves=None)).in_all is None
    assert PanelGuarantee.from_dict(promise.to_dict()) == promise
    assert "in any 6 consecutive waves, given those before, ε = 1." in str(promise)
    assert str(promise).endswith("over 52, replace_one, per person, for any values")
    words = promise.describe()
    assert "Each wave is a batch." in words
    assert "If the shuffler is honest" in words
    assert "All 52 waves together promise ε = 1." in words
    by_sum = PanelGuarantee(promise.report, 6, 52)
    assert by_sum.in_all == promise.report.times(9)
    with pytest.raises(PrivotError, match="999 reports were accepted"):
        randomizer.panel_guarantee(panel, 999)


def test_pairs_that_are_weighed_keep_the_promise():
    """Forms of more cells have reports that shuffling hides less: ε₀ is found for those forms."""
    bins = "".join(
        f'[columns.{name}]\nkind = "numeric"\nbounds = [0, 1]\nbins = {count}\n'
        for name, count in {"a": 3, "b": 4, "c": 20, "d": 30}.items()
    )
    randomizer = calibrated(bins, 0.5, 20_000)
    for pair in (("a", "b"), ("c", "d")):
        weighed = weight_pairs(randomizer, {pair: 1000.0})
        assert weighed.batch_guarantee(20_000).epsilon <= 0.5
        assert shuffled_delta(weighed.report_law, 20_000, 0.49, 1e-6) > 1e-6


def test_a_randomizer_of_more_than_the_promise_is_refused():
    schema = Schema.from_toml(PLACE)
    made = Randomizer.calibrate(schema, 3.0)
    promises = {
        "shuffled": Promise(0.5, "shuffled", 1e-6, 1000, floor=2.0),
        "local": Promise(2.0),
        "central": Promise(0.5, "central", 1e-6, 1000),
    }
    for where, promise in promises.items():
        declared = schema.model_copy(update={"promise": promise})
        message = "no record is randomized" if where == "central" else "and the schema promises"
        with pytest.raises(PrivotError, match=message):
            Randomizer(declared, made.mechanisms)
    declared = schema.model_copy(update={"promise": Promise(3.0)})
    assert Randomizer(declared, made.mechanisms).guarantee.epsilon <= 3.0
    with pytest.raises(PrivotError, match="delta is 0.001, and the schema promises"):
        Randomizer.calibrate(declared, delta=1e-3)


def test_a_randomizer_of_shuffled_reports_is_audited():
    """The false-alarm rate is 1e-6."""
    randomizer = calibrated(TABLE, 2.0, 1000)
    found = audit_randomizer(randomizer, num_draws=20_000, confidence=1 - 1e-6)
    assert not found.refuted


def drawn_laws(program):
    """The law of a device's report by each record (r, k), from the published integers alone."""
    if program["joint"] is not None:
        (cells,) = program["joint"]["sets"]  # one form of all columns, one view: a set of one cell
        columns, share = [int(cells)], 1.0
        words = [2**64 - int(program["joint"]["sets"][cells]["out"], 16)]
        assert program["joint"]["sets"][cells]["size"] == program["joint"]["views"] == 1
    else:
        draws = [each["draw"] for each in program["split"]["reports"]]
        columns, share = [draw["values"] for draw in draws], program["split"]["choose"] / len(draws)
        words = [2**64 - (draw["values"] - 1) * int(draw["slot"], 16) for draw in draws]
    parts = []
    for size, own in zip(columns, words, strict=True):
        other = (1 - own / 2**64) / (size - 1)
        parts.append(share * (np.full((size, size), other) + np.eye(size) * (own / 2**64 - other)))
    records = itertools.product(*map(range, columns))
    return np.array([np.hstack([part[x] for part, x in zip(parts, each)]) for each in records])


def exact_delta(laws, people, epsilon):
    """The largest δ of all batches that differ in one record, by all multisets of reports."""

    def multisets(records):
        law = {(0,) * laws.shape[1]: 1.0}
        for record in records:
            following = Counter()
            for found, probability in law.items():
                for report in np.flatnonzero(laws[record]):
                    more = (*found[:report], found[report] + 1, *found[report + 1 :])
                    following[more] += probability * laws[record, report]
            law = following
        return law

    worst = 0.0
    for others in itertools.combinations_with_replacement(range(len(laws)), people - 1):
        batches = [multisets((record, *others)) for record in range(len(laws))]
        for first, second in itertools.permutations(batches, 2):
            excess = (p - math.exp(epsilon) * second[found] for found, p in first.items())
            worst = max(worst, sum(max(0.0, each) for each in excess))
    return worst


BITS = '[columns.a]\nkind = "boolean"\n[columns.b]\nkind = "boolean"\n'


@pytest.mark.parametrize(
    ("columns", "settings", "people"),
    [
        ('[columns.a]\nkind = "boolean"\n', {}, 7),
        ('[columns.a]\nkind = "categorical"\ncategories = ["x", "y", "z"]\n', {}, 4),
        (BITS, {"report": "split", "report_columns": 1}, 3),
    ],
)
def test_what_devices_draw_needs_no_more_than_is_printed_and_hardly_less(columns, settings, people):
    """From the published integers to ε, by none of the code that computes it."""
    promise = PROMISE.format(1.0, people).replace("1e-6", "0.01")
    randomizer = Randomizer.calibrate(Schema.from_toml(columns + promise), **settings)
    laws = drawn_laws(randomizer.program)
    assert laws.sum(axis=1) == pytest.approx(1.0)
    delta = exact_delta(laws, people, randomizer.batch_guarantee(people).epsilon)
    assert 0.9 * 0.01 < delta <= 0.01
