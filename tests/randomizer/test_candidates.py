"""The candidates report: chosen for vectors and images, private by its file, collected like others."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from privot.audit import audit_randomizer
from privot.collector import collect
from privot.core.errors import PrivotError
from privot.randomizer import Randomizer, Release
from privot.randomizer.integrity import seal, unseal
from privot.randomizer.reports.candidates import INDEX, SEED
from privot.randomizer.reports.csv_reports import read_text, write_text
from privot.randomizer.reports.rows import ReportTable
from privot.schema import Schema

VECTOR = """
[columns.v]
kind = "vector"
columns = ["a", "b", "c", "d", "e"]
radius = 1.0
"""
BOX = """
[columns.v]
kind = "vector"
columns = ["a", "b", "c", "d"]
bounds = [[0, 10], [0, 10], [0, 10], [-1, 1]]
"""
IMAGE = '[columns.ink]\nkind = "array"\nshape = [6, 6]\nbounds = [0, 255]\n'
LABEL = '[columns.shape]\nkind = "categorical"\ncategories = ["bar", "dot", "ring"]\n'
AGE = '[columns.age]\nkind = "numeric"\nbounds = [0, 100]\n'
PLACE = '[columns.place]\nkind = "vector"\ncolumns = ["x", "y"]\nradius = 1.0\n'


def made(text, epsilon=4.0, **options):
    return Randomizer.calibrate(Schema.from_toml(text), epsilon, **options)


def vectors(count, seed=0):
    x = np.random.default_rng(seed).standard_normal((count, 5)) * 0.2 + [0.5, 0, 0, -0.2, 0]
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    return dict(zip("abcde", x.T, strict=True))


def moments(release):
    report = release.randomizer.candidates
    return report.moments(report.read(release.table))


@pytest.mark.parametrize(
    ("text", "columns"),
    [(VECTOR, ["v"]), (IMAGE, ["ink"]), (VECTOR + LABEL, ["v", "shape"]), (IMAGE + AGE, ["ink", "age"])],
)  # fmt: skip
def test_a_vector_or_an_image_and_its_label_are_one_report_of_the_whole_budget(text, columns):
    randomizer = made(text)
    assert randomizer.candidates.columns == columns
    assert randomizer.parts == [randomizer.candidates]
    assert str(randomizer.guarantee) == "ε = 4 (pure), local, per person"
    assert list(randomizer.types) == [SEED, INDEX, "report_id"]


def test_with_further_columns_there_are_no_candidates():
    for more in (AGE, PLACE):
        randomizer = made(VECTOR + LABEL + more, epsilon=3.0)
        assert randomizer.candidates is None
        assert "v" in randomizer.mechanisms


def test_who_names_a_mechanism_gets_it():
    for options in ({"mechanism": "laplace"}, {"mechanism": "gaussian", "delta": 1e-6}):
        randomizer = made(VECTOR, **options)
        assert randomizer.candidates is None
        assert randomizer.mechanisms["v"].kind == options["mechanism"]
    assert made(VECTOR, report="split").candidates is None
    two = VECTOR + VECTOR.replace("columns.v", "columns.w").replace('"a", "b"', '"f", "g"').replace(
        '"c", "d", "e"', '"h", "i", "j"'
    )
    assert made(two).candidates is None
    for named in ("auto", "candidates"):
        assert made(VECTOR, mechanism=named) == made(VECTOR)
    with pytest.raises(PrivotError, match="delta 1e-06 is not needed"):
        made(VECTOR, delta=1e-6)
    for refused in ({"report": "split"}, {"report_columns": 1}):
        with pytest.raises(PrivotError, match="'candidates' is for one image"):
            made(VECTOR, mechanism="candidates", **refused)
    with pytest.raises(PrivotError, match="'candidates' is for one image"):
        made(AGE, mechanism="candidates")


def test_labels_of_too_many_values_are_none():
    wide = '[columns.ink]\nkind = "array"\nshape = [28, 28]\nbounds = [0, 255]\n'
    for count, there in ((100, True), (500, False)):
        codes = ", ".join(f'"{i}"' for i in range(count))
        many = f'[columns.code]\nkind = "categorical"\ncategories = [{codes}]\n'
        assert (made(wide + many).candidates is not None) == there


@pytest.mark.parametrize("text", [VECTOR, BOX, IMAGE + LABEL, VECTOR + LABEL])
def test_json_holds_all_of_it(text):
    randomizer = made(text)
    again = Randomizer.from_json(randomizer.to_json())
    assert again == randomizer
    assert again.to_json() == randomizer.to_json()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("epsilon", 3.0, "states ε = 4"), ("column", "w", "lacks parts"),
     ("dimension", 1000, "power of two"),
     ("coordinates", 4, "give all"), ("closest", 0, "closest"), ("label_weight", 0.3, "label_weight"),
     ("label", "v", "lacks parts")],
)  # fmt: skip
def test_altered_files_are_refused(field, value, message):
    fields = unseal(made(VECTOR).to_json())
    fields["candidates"] |= {field: value}
    with pytest.raises(PrivotError, match=message):
        Randomizer.from_json(seal(**fields))


def test_columns_are_covered_once():
    randomizer, labeled = made(VECTOR), made(VECTOR + LABEL)
    with pytest.raises(PrivotError, match="cover each once"):
        replace(labeled, candidates=randomizer.candidates)
    with pytest.raises(PrivotError, match="not as the schema declares"):
        report = labeled.candidates
        replace(report, features=replace(report.features, num_labels=2))


def test_moments_are_those_of_the_records():
    table = vectors(12_000)
    release = made(VECTOR, epsilon=8.0).privatize(table)
    z = release.randomizer.candidates.coordinates.encode(np.stack(list(table.values()), axis=1))
    found, stddev = moments(release)
    assert stddev < 0.006
    # Of each coordinate the false-alarm rate is 2e-8.
    assert np.abs(found.first[0] - z.mean(axis=0)).max() < 5.6 * stddev
    assert abs(z.mean(axis=0)[0]) > 25 * stddev


def test_missing_vectors_and_labels_are_told_apart():
    table, shares = vectors(10_000), [0.7, 0.2, 0.1]
    shape = np.random.default_rng(1).permutation(
        np.repeat(["bar", "dot", "ring"], [7000, 2000, 1000])
    )
    table["a"] = np.where(np.arange(10_000) % 5 == 0, np.nan, table["a"])
    release = made(VECTOR + "nullable = true\n" + LABEL, epsilon=8.0).privatize(
        table | {"shape": shape}
    )
    found, stddev = moments(release)
    # Four statistics, each with a false-alarm rate of 2e-8.
    assert abs(found.missing - 0.2) < 5.6 * stddev
    assert np.abs(found.shares - shares).max() < 5.6 * stddev / np.sqrt(0.02)


def test_records_outside_are_projected_and_none_is_refused():
    far = {name: np.array([1e300, -1e9, 0.0, 1e-300]) for name in "abcde"}
    assert len(made(VECTOR).privatize(far)) == 4


def test_reports_that_no_device_sends_are_found():
    randomizer = made(VECTOR)
    table = randomizer.privatize(vectors(6)).table
    most = randomizer.candidates.mechanism.codebook.num_candidates
    indices = pa.array([0, most - 1, most, 2**32 - 1, None, 3], pa.uint32())
    seeds = pa.array([0, 2**64 - 1, 1, 2, 3, None], pa.uint64())
    for name, column in ((INDEX, indices), (SEED, seeds)):
        table = table.set_column(table.column_names.index(name), name, column)
    assert [why is None for why in randomizer.reasons(table).to_pylist()] == [True] * 2 + [
        False
    ] * 4


def test_reports_are_collected_from_text_and_files(tmp_path):
    randomizer = made(VECTOR + LABEL)
    table = vectors(50) | {"shape": ["dot"] * 50}
    release = randomizer.privatize(table)
    release.save(tmp_path / "release.parquet")
    again = Release.load(tmp_path / "release.parquet")
    assert again.table.sort_by("report_id").equals(release.table.sort_by("report_id"))
    assert len(again.randomizer.candidates.read(again.table).seeds) == 50
    write_text(tmp_path / "reports.csv", release.rows.pieces())
    (text,) = read_text(tmp_path / "reports.csv", randomizer, print)
    assert text.equals(release.table)
    both = collect([again, Release(ReportTable.of(text), randomizer)])
    assert len(both.release) == 50


def test_a_strangers_text_spoils_no_report(tmp_path):
    """Seeds use all 64 bits, more than any signed integer holds."""
    randomizer = made(VECTOR)
    release = randomizer.privatize(vectors(40))
    write_text(tmp_path / "reports.csv", release.rows.pieces())
    identity = "0" * 32
    with open(tmp_path / "reports.csv", "a") as file:
        for seed, index in ((2**64, 3), (-1, 3), ("x", 3), (2**64 - 1, "3.5"), (2**64 - 1, 3)):
            file.write(f"{seed},{index},{identity}\n")
    (text,) = read_text(tmp_path / "reports.csv", randomizer, print)
    assert text.slice(0, 40).equals(release.table)
    fine = [why is None for why in randomizer.reasons(text).to_pylist()]
    assert fine == [True] * 40 + [False] * 4 + [True]


def test_expected_noise_says_what_a_report_is():
    (row,) = made(VECTOR + LABEL).expected_noise()
    assert row["columns"] == ["v", "shape"]
    assert "of 256 public directions" in row["in_words"]
    json.dumps(row)


def test_an_audit_passes_and_finds_much_of_epsilon(no_streams):
    """The false-alarm rate is 1e-6; the bound is 1.47 on average, with a standard deviation of 0.1."""
    randomizer = made(VECTOR + LABEL, epsilon=2.0)
    result = audit_randomizer(randomizer, num_draws=3_000, confidence=1 - 1e-6)
    assert not result.refuted
    assert 0.4 * 2 < result.columns[0].epsilon_lower <= 2


def test_laplace_noise_is_taken_where_its_means_err_less():
    """Of few numbers at a large ε; whoever names candidates gets them."""
    small, large = made(VECTOR, 4.0), made(VECTOR, 40.0)
    (row,) = small.expected_noise()
    assert row["stddev"] < row["laplace"]
    assert large.mechanisms["v"].kind == "laplace"
    (row,) = made(VECTOR, 40.0, mechanism="candidates").expected_noise()
    assert row["stddev"] > row["laplace"]
    laplace = made(VECTOR, 4.0, mechanism="laplace").mechanisms["v"]
    (row,) = small.expected_noise()
    assert row["laplace"] == pytest.approx(laplace.variance**0.5)


def test_the_stated_error_of_a_mean_is_that_of_means():
    """A standard deviation of 150 numbers is within 6 %, so the false-alarm rate is 4e-7."""
    table = vectors(300)
    randomizer = made(VECTOR, 4.0)
    report, x = randomizer.candidates, np.stack(list(table.values()), axis=1)
    z, errors = report.coordinates.encode(x).mean(axis=0), []
    for _ in range(30):
        found, _ = moments(randomizer.privatize(table))
        errors.append((found.first[0] - z) * report.coordinates.large_length)
    assert np.std(errors) * np.sqrt(300) == pytest.approx(report.stddev, rel=0.3)
