"""What a curator publishes is a function of the noisy sums, whatever records are behind them."""

import numpy as np
import pytest

from privot import Schema, central
from privot.central import sums

OLD = {"kind": "boolean"}
PLACE = {"kind": "vector", "columns": ["x", "y"], "bounds": [[0, 1], [0, 1]]}
SEX = {"kind": "categorical", "categories": ["f", "m"]}
ROWS = 300


@pytest.mark.parametrize(
    ("columns", "records"),
    [
        ({"old": OLD, "sex": SEX}, {"old": [True, False, True], "sex": ["f", "m", "m"]}),
        ({"place": PLACE}, {"x": [0.1, 0.9, -7.0], "y": [0.2, 0.8, 9.0]}),
    ],
)
def test_a_model_is_a_function_of_its_noisy_sums_alone(tmp_path, monkeypatch, columns, records):
    """Each kind of record stands alone in one data set, one of the places far out of bounds."""
    exact, first = sums.SumMechanism._exact_sums, {}

    def the_same(self, query):
        total = exact(self, query)  # which reads all records, as ever
        return first.setdefault(total.shape, total)

    monkeypatch.setattr(sums.SumMechanism, "_exact_sums", the_same)
    monkeypatch.setattr(
        sums, "sample_rounded_gaussian", lambda shape, stddev: np.zeros(shape, np.int64)
    )
    written = set()
    schema = Schema.from_dict({"columns": columns})
    for row in range(3):
        table = {name: [values[row]] * ROWS for name, values in records.items()}
        model = central.fit(table, schema, epsilon=5.0, delta=1e-5)
        model.save(tmp_path / str(row))
        files = sorted(path for path in (tmp_path / str(row)).rglob("*") if path.is_file())
        contents = tuple((path.name, path.read_bytes()) for path in files)
        written.add((contents, repr(model), str(model.guarantee)))
    assert len(written) == 1
