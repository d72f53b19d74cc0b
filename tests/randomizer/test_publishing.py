"""The place of a row tells nothing of the place of its record."""

import io

import numpy as np
import pyarrow as pa
import pytest

from numbered_people import RANDOMIZER, people, read_back, with_ids
from privot import Randomizer, Release, Schema, collect
from privot.randomizer.privatize import privatize_records
from privot.randomizer.publishing import bucket_rows, read_buckets, write_buckets
from privot.randomizer.reports.rows import REPORT_ID
from privot.tables.files import TableBatches

NUM = 5000


def who(release):
    return np.rint(release.table["person"].to_numpy()).astype(int)


def looks_uniform(order):
    """Correlation with the records' order, and between neighbors; 7 standard deviations are .1."""
    known = np.corrcoef(order, np.arange(NUM))[0, 1], np.corrcoef(order[:-1], order[1:])[0, 1]
    return np.array_equal(np.sort(order), np.arange(NUM)) and max(map(abs, known)) < 0.1


def in_memory(path):
    return RANDOMIZER.privatize(people(0, NUM))


def saved(path):
    in_memory(path).save(path)
    return Release.load(path)


def piped(path):
    pipe = io.BytesIO()
    privatize_records(RANDOMIZER, TableBatches(people(0, NUM)), pipe, part_rows=1024)
    pipe.seek(0)
    return read_back(pipe, RANDOMIZER)


def collected(path):
    """Files come in an order of their own, often that of names or of arrival."""
    return collect(
        RANDOMIZER.privatize(people(k, k + 50), keep_order=True) for k in range(0, NUM, 50)
    ).release


@pytest.mark.parametrize("release", [in_memory, saved, piped, collected])
def test_reports_come_in_random_order(release, tmp_path):
    assert looks_uniform(who(release(tmp_path / "release.parquet")))


def test_order_is_kept_by_explicit_choice_only():
    ordered = RANDOMIZER.privatize(people(0, NUM), keep_order=True)
    assert np.array_equal(who(ordered), np.arange(NUM))
    with pytest.raises(TypeError):
        RANDOMIZER.privatize(people(0, NUM), True)


def test_a_table_sorted_by_diagnosis_hides_who_is_who():
    """Whoever knows that the table was sorted guesses where the positives begin, from the votes."""
    schema = Schema.from_toml('[columns.hiv]\nkind = "boolean"\n')
    truth = np.arange(2000) >= 1800
    release = Randomizer.calibrate(schema, 1.0).privatize({"hiv": truth})
    votes = np.cumsum(release.table["joint.cells"].combine_chunks().flatten().to_numpy() - 0.5)
    guess = np.arange(2000) > np.argmin(votes)
    # Kept in order, at ε = 1, the guess is right for nine of ten of the positives.
    assert guess[truth].mean() < 0.5 or truth[guess].mean() < 0.5


def test_ids_are_random_and_everywhere(tmp_path):
    release = in_memory(tmp_path)
    ids = [release.table[REPORT_ID], in_memory(tmp_path).table[REPORT_ID]]
    ids = [each.to_pylist() for each in ids]
    assert len({*ids[0], *ids[1]}) == 2 * NUM
    assert ids[0] == sorted(ids[0])
    bits = np.unpackbits(np.frombuffer(b"".join(ids[0]), np.uint8)).reshape(NUM, 128)
    # Means of 128 bits of 5000 reports: 6 standard deviations are 0.042.
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.042
    assert release.table.schema.field(REPORT_ID).type == pa.binary(16)
    assert np.abs(np.corrcoef(bits[:, 0], who(release))[0, 1]) < 0.1


def test_a_bucket_is_a_uniform_share_of_every_part(tmp_path):
    paths = [tmp_path / f"{k}.arrow" for k in range(4)]
    for k, path in enumerate(paths):
        write_buckets(path, [with_ids(people(k * 5000, (k + 1) * 5000))], buckets=8)
    rows = bucket_rows(paths, 8)
    assert sum(rows) == 20_000
    # Binomial(20 000, 1/8): standard deviation 47.
    assert max(abs(n - 2500) for n in rows) < 7 * 47
    seen = np.concatenate([read_buckets(paths, b, b + 1)["person"].to_numpy() for b in range(8)])
    assert np.array_equal(np.sort(seen), np.arange(20_000))
    first = read_buckets(paths, 0, 1)["person"].to_numpy()
    share = np.bincount((first // 5000).astype(int), minlength=4)
    assert np.abs(share - 625).max() < 7 * 23.4
