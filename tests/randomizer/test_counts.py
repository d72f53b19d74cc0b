"""Counts: of reports in any parts the same, in files that are checked, and all that a fit reads."""

import hashlib
import json
import zlib
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privot import Counts, FitSettings, Randomizer, Release, Schema, count, fit
from privot.core.errors import PrivotError
from privot.local import fit_waves
from privot.randomizer.reports import counts as module
from privot.randomizer.reports import rows as row_module
from privot.randomizer.reports.rows import ReportTable

NUMBER = {"kind": "numeric", "bounds": [0, 100]}
PLACE = {"kind": "vector", "columns": ["x", "y"], "bounds": [[0, 1], [0, 4]]}
TABLE = {
    "a": {"kind": "boolean"},
    "b": {"kind": "categorical", "categories": list("pqr")},
    "c": NUMBER | {"bins": 5, "nullable": True},
}


def randomizer(columns, epsilon=3.0, **how):
    return Randomizer.calibrate(Schema.from_dict({"columns": columns}), epsilon, **how)


RANDOMIZERS = {
    "places": randomizer({"p": PLACE}),
    "places that may be missing": randomizer({"p": PLACE | {"nullable": True}}),
    "a disk": randomizer({"p": {"kind": "vector", "columns": ["x", "y"], "radius": 4.0}}),
    "numbers that may be missing": randomizer({"c": NUMBER | {"nullable": True}}),
    "noise": randomizer({"p": PLACE}, mechanism="laplace"),
    "joint": randomizer(TABLE),
    "two of three": randomizer(TABLE, report="split", report_columns=2),
}
every_kind = pytest.mark.parametrize("kind", RANDOMIZERS)


@cache
def release_of(kind, number=300, seed=0):
    made_by, rng = RANDOMIZERS[kind], np.random.default_rng(seed)
    values = {
        "x": rng.beta(2, 5, number), "y": 3 * rng.random(number), "a": rng.random(number) < 0.3,
        "b": rng.choice(list("pqr"), number), "c": rng.uniform(0, 100, number),
    }  # fmt: skip
    if "missing" in kind or "c" in made_by.schema.columns:
        absent = rng.random(number) < 0.2
        values |= {name: pa.array(values[name], mask=absent) for name in ("x", "y", "c")}
    return made_by.privatize({name: values[name] for name in made_by.schema.table_columns})


def part_of(release, rows):
    return Release(ReportTable.of(release.table.take(pa.array(rows))), release.randomizer)


@every_kind
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_any_parts_in_any_order_have_the_counts_of_the_whole(kind, data):
    """Merging is associative and free of order, to the last byte: also of the ids that are sampled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_module, "MOST_IDS", 32)
        patch.setattr(module, "MOST_IDS", 32)
        patch.setattr(module, "_MIN_WAITING", 60)
        release, num = release_of(kind), data.draw(st.integers(1, 5))
        owner = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, num, len(release))
        parts = [count(part_of(release, np.flatnonzero(owner == k))) for k in np.unique(owner)]
        while len(parts) > 1:
            first = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
            second = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
            parts.append(first.merge(second))
        whole = count(release)
        assert parts[0].to_bytes() == whole.to_bytes()
        assert len(parts[0]) == 300
        # Of 33 ids or more below a limit, half are below the next: two or fewer in 10^7 of the cases.
        assert 2 < len(whole.ids.words) <= 32


@every_kind
def test_counts_are_those_of_equal_reports(kind):
    """The numbers of people are those of equal rows, by an independent count, and survive a file."""
    release = release_of(kind)
    counts = Counts.from_bytes(count(release).to_bytes())
    found = np.concatenate([group.people for group in counts.groups.values()])
    rows = release.table.drop_columns(["report_id"]).to_pylist()
    expected = np.unique([repr(row) for row in rows], return_counts=True)[1]
    if kind == "noise":  # several reports share a bin
        assert sum(found) == 300
    else:
        np.testing.assert_array_equal(np.sort(found), np.sort(expected))


@pytest.mark.parametrize("kind", ["places", "numbers that may be missing", "noise", "joint"])
def test_a_model_of_counts_is_that_of_the_reports_bit_for_bit(kind, tmp_path):
    release = release_of(kind)
    halves = [part_of(release, range(k, 300, 2)) for k in (1, 0)]
    for number, half in enumerate(halves):
        count(half).save(tmp_path / f"{number}")
    first, second = (Counts.load(tmp_path / f"{number}") for number in range(2))
    models = [fit(each, seed=3) for each in (release, first.merge(second))]
    assert models[0].made_with.keys() == models[1].made_with.keys()
    for name, array in models[0].arrays().items():
        np.testing.assert_array_equal(array, models[1].arrays()[name])


def test_waves_are_learned_from_counts():
    *waves, last = (release_of("places", seed=seed) for seed in (1, 2, 3))
    models = [fit_waves(each) for each in (waves, [*map(count, waves)])]
    one, other = (model.sample(50, seed=0, time=1.5) for model in models)
    assert one.equals(other)
    assert models[0].add(last, 3).people == models[1].add(count(last), 3).people


def test_a_report_is_not_counted_twice(tmp_path):
    release, other = release_of("places"), release_of("places", seed=1)
    counts = count(release)
    once_more = part_of(release, [7])
    for twice in (counts, count(once_more)):
        with pytest.raises(PrivotError, match="share .* by their ids: give each report once"):
            counts.merge(count(other), twice)
    with pytest.raises(PrivotError, match="share 1 reports"):
        count([release, once_more.table], release.randomizer)
    with pytest.raises(PrivotError, match="it is there twice"):
        count([once_more.table, release.table], release.randomizer)
    with pytest.raises(PrivotError, match="it is there twice"):
        count(part_of(release, [1, 2, 1]))
    with pytest.raises(PrivotError, match="of two randomizers"):
        counts.merge(count(release_of("noise")))


def test_batches_are_counted_as_the_release_is():
    release = release_of("joint")
    batches = release.table.to_batches(max_chunksize=70)
    for at_once in (100, 10**6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_ROWS_AT_ONCE", at_once)
            counted = count(iter(batches), release.randomizer)
        assert counted.to_bytes() == count(release).to_bytes()
    with pytest.raises(PrivotError, match="do not carry their randomizer"):
        count(batches)
    with pytest.raises(PrivotError, match="sources are none"):
        count([])


def forged(release, name, value):
    """The release with another value in its fifth row."""
    column = release.table.column(name)
    changed = column.to_pylist()
    changed[4] = value(changed[4])
    index = release.table.schema.get_field_index(name)
    table = release.table.set_column(index, name, pa.array(changed, column.type))
    return Release(ReportTable.of(table), release.randomizer)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("places", "x", lambda x: np.nan),
        ("places", "x", lambda x: 1e300),
        ("places", "y", lambda y: -np.inf),
        ("places", "x", lambda x: x + 1e-4),
        ("places", "x", lambda x: 99.0),
        ("places", "x", lambda x: None),
        ("places", "report_id", lambda number: None),
        ("joint", "report_id", lambda number: None),
        ("a disk", "x", lambda x: 7.9 if abs(x) < 2 else 0.01),
        ("places that may be missing", "p.missing", lambda flag: None),
        ("places that may be missing", "x", lambda x: 77.0),
        ("numbers that may be missing", "c", lambda c: c + 0.001),
        ("noise", "x", lambda x: 1e9),
        ("joint", "joint.cells", lambda cells: cells[::-1] if len(cells) > 1 else [9999]),
        ("two of three", "b", lambda b: "s"),
    ],
)
def test_what_no_device_sends_is_refused_with_its_row_and_reason(kind, name, value):
    release = forged(release_of(kind), name, value)
    reasons = release.randomizer.reasons(release.table)
    assert [row for row, reason in enumerate(reasons.to_pylist()) if reason] == [4]
    with pytest.raises(PrivotError, match="report 5: ") as refused:
        count(release)
    assert str(reasons[4]) in str(refused.value)


def test_flags_of_missing_places_are_of_the_middle_alone():
    kind = "places that may be missing"
    row = release_of(kind).table.column("p.missing").to_pylist().index(True)
    with pytest.raises(PrivotError, match="report 1: column 'p' holds what"):
        count(forged_at(part_of(release_of(kind), [row]), "x", 0.25))


def forged_at(release, name, value):
    index = release.table.schema.get_field_index(name)
    table = release.table.set_column(index, name, pa.array([value] * len(release), pa.float64()))
    return Release(ReportTable.of(table), release.randomizer)


def test_a_number_that_was_rounded_is_counted_in_its_cell():
    release = release_of("places")
    rounded = forged(release, "x", lambda x: np.nextafter(x, 9.0))
    assert rounded.table != release.table
    assert count(rounded).to_bytes() == count(release).to_bytes()


def sealed(content, change):
    """The file with other plain values in its head, or other numbers, and a checksum that fits."""
    packed = content[len(module._MAGIC) + 32 :]
    head, _, body = zlib.decompress(packed).partition(b"\n")
    fields, body = change(json.loads(head), bytearray(body))
    packed = zlib.compress(json.dumps(fields).encode() + b"\n" + body)
    return module._MAGIC + hashlib.sha256(packed).digest() + packed


def with_byte(place, value):
    def change(fields, body):
        body[place] = value
        return fields, body

    return change


def with_group(**changed):
    def change(fields, body):
        (key, rows, width), *others = fields["groups"]
        first = [changed.get("key", key), changed.get("rows", rows), changed.get("width", width)]
        return fields | {"groups": [first, *others]}, body

    return change


def test_files_are_checked():
    content = count(release_of("joint")).to_bytes()
    assert Counts.from_bytes(sealed(content, lambda *same: same)).to_bytes() == content
    for place in (20, 60, len(content) - 1):
        damaged = bytearray(content)
        damaged[place] ^= 1
        with pytest.raises(PrivotError, match="damaged"):
            Counts.from_bytes(bytes(damaged))
    with pytest.raises(PrivotError, match="no counts of this version"):
        Counts.from_bytes(b"privot counts 9\n" + content[16:])
    answers = json.loads(zlib.decompress(content[48:]).partition(b"\n")[0])["arrays"][0]
    assert answers[0] == "|u1"  # so that a byte is an answer, or the number of people who sent it
    for change in (
        with_byte(0, 255), with_byte(answers[1], 0), with_group(key=[9999]), with_group(key=[0, 1]),
        with_group(width=2), with_group(rows=1), lambda fields, body: (fields | {"groups": []}, body),
    ):  # fmt: skip
        with pytest.raises(PrivotError, match="answers that no device sends|damaged"):
            Counts.from_bytes(sealed(content, change))


def test_cells_outside_a_disk_are_no_answers():
    counts = count(release_of("a disk"))
    size = module.CountPlan.of(counts.randomizer).points.size
    for number in (0, size, 2**31 - 1):  # a corner of the square, and beyond it
        group = module.Counted(np.array([[number]], np.int32), np.array([1]))
        with pytest.raises(PrivotError, match="answers that no device sends"):
            Counts.from_bytes(Counts(counts.randomizer, {(0,): group}, counts.ids).to_bytes())


def test_what_is_learned_from_single_reports_is_not_counted():
    made_by = randomizer({"a": TABLE["a"], "x": NUMBER}, mechanism="laplace")
    with pytest.raises(PrivotError, match="reports of this randomizer are not counted"):
        count(made_by.privatize({"a": [True] * 9, "x": [1.0] * 9}))
    counts = count(release_of("noise"))
    with pytest.raises(PrivotError, match="counts hold none: give the release"):
        fit(counts, FitSettings(estimator="generator"))


def test_a_number_reported_as_a_code_is_counted_by_its_codes():
    made_by = randomizer({"c": NUMBER}, report="split", mechanism="subset_selection")
    assert module.grid_form(made_by) is None
    counts = count(made_by.privatize({"c": list(range(100))}))
    assert fit(counts).made_with["estimator"] == "latent_classes"


def test_halves_are_of_people_at_random():
    counts = count(release_of("joint", 20_000))
    halves = counts.halves(np.random.default_rng(0))
    assert sum(map(len, halves)) == 20_000
    # A binomial of 20 000 and ½ has a deviation of 71: six are 424.
    assert abs(len(halves[0]) - 10_000) < 424
    back = module.sum_counts(halves)
    assert back.to_bytes() == counts.to_bytes()
    # χ² of the division of each answer, about one per distinct answer with a deviation of √2.
    drawn = {key: dict(zip(map(bytes, g.answers), g.people)) for key, g in halves[0].groups.items()}
    gaps = [
        (2 * drawn[key].get(bytes(answer), 0) - people) ** 2 / people
        for key, group in counts.groups.items()
        for answer, people in zip(group.answers, group.people)
    ]
    assert abs(np.mean(gaps) - 1) < 6 * (2 / len(gaps)) ** 0.5
