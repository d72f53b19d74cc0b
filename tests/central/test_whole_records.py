"""A run knows its records as a whole: other labels of the same values are other records."""

import numpy as np
import pyarrow as pa
import pytest

from central.declared_images import image_schema, image_table
from central.halves import SHORT, data
from central.mixtures import labeled_points
from privot import integral
from privot.central import SliceSettings, SumSettings, fit, table_fit
from privot.core.errors import PrivotError
from privot.integral.learners import NetworkSettings
from privot.privacy.ledger import RepeatedRecords, accounts
from privot.schema import Schema

pytestmark = pytest.mark.usefixtures("little_noise")

SUMS, SLICES = SumSettings(components=2), SliceSettings(**SHORT, steps=4, generated=20)
CODES = Schema.from_dict(
    {
        "columns": {
            "size": {"kind": "categorical", "categories": ["s", "m", "l"]},
            "sick": {"kind": "boolean"},
        }
    }
)


def images():
    values, labels = data()
    return image_schema((6, 6), 2), image_table(values, labels), "label"


def vectors():
    return labeled_points.schema(), labeled_points.table(), "kind"


def codes():
    sizes = np.array(["s", "m", "l"])[np.arange(600) % 3]
    return CODES, pa.table({"size": sizes, "sick": np.arange(600) % 3 == 1}), "sick"


def with_other_labels(table, label):
    """The same values; the labels of two records change places, how many there are of each stays."""
    told = table[label].to_pylist()
    other = next(index for index, each in enumerate(told) if each != told[0])
    told[0], told[other] = told[other], told[0]
    return table.set_column(table.column_names.index(label), label, pa.array(told))


# Whose records they are is tested, not what is learned of them.
SHORTLY = NetworkSettings(hidden=(8,), steps=5, batch_size=64)


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setattr(table_fit, "_STEPS", 20)
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path / "state"))


class KilledError(Exception):
    pass


def kill(*at):
    raise KilledError


@pytest.mark.parametrize(
    ("records", "settings"),
    [(images, SUMS), (images, SLICES), (vectors, SUMS), (codes, SUMS), (codes, SLICES)],
    ids=["images-sums", "images-slices", "vectors-sums", "table-sums", "table-slices"],
)
def test_a_run_goes_on_with_its_own_labels_only(records, settings, tmp_path):
    schema, table, label = records()
    how = {"epsilon": 8.0, "method": settings, "checkpoint": tmp_path / "run"}
    with pytest.raises(KilledError):
        fit(table, schema, **how, progress=kill)
    ledger = (tmp_path / "run.ledger").read_bytes()
    with pytest.raises(PrivotError, match="counts a run on other records than these"):
        fit(with_other_labels(table, label), schema, **how, resume=True)
    assert (tmp_path / "run.ledger").read_bytes() == ledger
    fit(table, schema, **how, resume=True)


def test_methods_share_an_account_of_the_same_records(tmp_path):
    """Of images with labels, of images without, and of a table by slices and by draws."""
    values, labels = data()
    for columns in ((values,), (values, labels)):
        schema, table = image_schema((6, 6), len(columns)), image_table(*columns)
        fit(table, schema, epsilon=8.0, method=SUMS)
        with pytest.warns(RepeatedRecords, match="2 runs"):
            fit(table, schema, epsilon=8.0, method=SLICES)
    schema, table, _ = codes()
    fit(table, schema, epsilon=8.0, method=SLICES)
    settings = integral.ClippedRatioSettings(network=SHORTLY)
    model = integral.fit(table, schema, draws=3, epsilon=1.0, settings=settings)
    with pytest.warns(RepeatedRecords, match="2 runs"):
        model.save(tmp_path / "model")
    assert [len(account.runs) for account in accounts()] == [2, 2, 2]


@pytest.mark.slow
def test_a_number_by_another_schema_or_method_is_not_noticed():
    """As the page says: an account compares what a run reads of a record, and these read other parts."""
    table = pa.table({"age": np.linspace(0, 80, 600)})
    for top, method in ((80, SUMS), (80, SLICES), (90, SUMS)):
        column = {"kind": "numeric", "bounds": [0, top]}
        fit(table, Schema.from_dict({"columns": {"age": column}}), epsilon=8.0, method=method)
    assert [len(account.runs) for account in accounts()] == [1, 1, 1]
