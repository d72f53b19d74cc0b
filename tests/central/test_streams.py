"""Parquet, a file or a folder, that is read batch by batch: the same sums, and what is refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from central.declared_images import image_schema
from central.mixtures.tables import SCHEMA, people
from privot.central import SumSettings, fit
from privot.central.fitting import fit_of, raw_records
from privot.central.sums import Budget, SumMechanism, SumPlan
from privot.core.errors import PrivotError
from privot.privacy.ledger import Ledger, RepeatedRecords, accounts

ROWS = 9000  # more than two chunks


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path / "state"))


def images(count=ROWS):
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, count)
    pixels = rng.random((count, 16)) * (0.3 + 0.7 * label[:, None])
    lists = pa.FixedSizeListArray.from_arrays(pa.array(pixels.astype(np.float32).ravel()), 16)
    return pa.table({"image": lists, "label": pa.array([str(each) for each in label])})


RECORDS = {"table": (SCHEMA, people), "images": (image_schema((4, 4), 2), images)}


def write(table, folder):
    """A file, and a folder of files that do not end where chunks end."""
    pq.write_table(table, folder / "whole.parquet")
    (folder / "parts").mkdir()
    for number, (start, stop) in enumerate([(0, 1), (1, 5000), (5000, ROWS)]):
        path = folder / "parts" / f"{number}.parquet"
        pq.write_table(table.slice(start, stop - start), path, row_group_size=1700)
    return [folder / "whole.parquet", folder / "parts"]


@pytest.mark.parametrize("kind", RECORDS)
def test_sums_of_files_are_those_of_the_table(kind, tmp_path):
    """Without noise; the account of the records is the same as well."""
    schema, make = RECORDS[kind]
    table = make(ROWS)
    fitted = fit_of(schema, SumSettings(), Budget(1.0, 1e-5, ROWS), one_round=True)
    slots, vectors = fitted.query.answer(
        tuple(np.asarray(part) for part in fitted.records.encode(table))
    )
    expected = vectors.T @ vectors
    assert not slots.any()
    seen = []
    for source in (table, *write(table, tmp_path)):
        ledger = Ledger(SumPlan((1e12,), 1e-5, ROWS))
        mechanism = SumMechanism(fitted.chunks(raw_records(source, schema)), ledger)
        assert np.abs(mechanism.release(fitted.query).sums[0] - expected).max() < 0.5
        seen.append(mechanism._digest)
    assert len(set(seen)) == 1


def test_a_fit_of_files_is_in_the_account_of_the_table(tmp_path):
    schema, _ = RECORDS["images"]
    _, parts = write(images(), tmp_path)
    settings = SumSettings(components=1)
    assert fit(parts, schema, epsilon=8.0, method=settings).plan.records == ROWS
    with pytest.warns(RepeatedRecords, match="2 runs"):
        fit(images(), schema, epsilon=8.0, method=settings)


def test_a_bad_record_is_named_and_costs_nothing(tmp_path):
    table = people(ROWS)
    town = table["town"].to_pylist()
    town[8000] = "nowhere"
    wrong = table.set_column(table.column_names.index("town"), "town", pa.array(town))
    for source in write(wrong, tmp_path):
        with pytest.raises(PrivotError, match=r"row 8,001: column 'town'"):
            fit(source, SCHEMA, epsilon=4.0, checkpoint=tmp_path / "run")
    assert {path.name for path in tmp_path.iterdir()} <= {"whole.parquet", "parts", "state"}
    assert not accounts()


def test_files_that_change_between_rounds_are_refused(tmp_path):
    """Sums of two sets of people would have the noise of one."""
    schema, _ = RECORDS["images"]
    path, _ = write(images(), tmp_path)

    def change(step, *_):
        pq.write_table(images().take(np.arange(ROWS)[::-1]), path, compression="none")

    with pytest.raises(PrivotError, match=r"whole.parquet changed while it was read"):
        fit(path, schema, epsilon=8.0, checkpoint=tmp_path / "run", progress=change)
    settings = SumSettings()
    plan = fit_of(schema, settings, Budget(8.0, 1e-5, ROWS)).plan()
    assert Ledger(plan, tmp_path / "run.ledger", resume=True).spent == 1
