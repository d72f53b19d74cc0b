"""Images as records: what is reported, what it promises, what survives a file."""

import numpy as np
import pytest

from labeled_images import SCHEMAS, records, schema_of
from privot.audit import audit_randomizer
from privot.core.errors import PrivotError
from privot.randomizer import randomizer_from_noise
from privot.schema.columns.array import tensor_values
from privot.tables.files import as_table, read_table, write_table


@pytest.mark.parametrize("more", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_the_audit_tries_images(more, no_streams):
    """False-alarm rate 1e-6."""
    randomizer = randomizer_from_noise(schema_of(more), 5.0, 1e-3, shares={"label": 1.0})
    result = audit_randomizer(randomizer, num_draws=2000, confidence=1 - 1e-6)
    assert not result.refuted
    assert [column.column for column in result.columns] == ["image", "label"]


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_tables_with_images_survive_a_file(tmp_path, suffix):
    table = as_table(records(7))
    path = tmp_path / f"records.{suffix}"
    write_table(table, path, schema_of())
    back = read_table(path, schema_of())
    np.testing.assert_array_equal(
        tensor_values(back.column("image")), tensor_values(table.column("image"))
    )
    assert back.column("label").to_pylist() == table.column("label").to_pylist()


def test_text_cannot_hold_images(tmp_path):
    with pytest.raises(PrivotError, match="cannot hold images: give npz"):
        write_table(as_table(records(7)), tmp_path / "records.csv", schema_of())
