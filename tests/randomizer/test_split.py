"""Split reports: who reports what is fresh coins, and nothing else is left in the table."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from homes_and_ages import SCHEMA, people
from labeled_images import SCHEMAS, records, schema_of
from privot.core.errors import PrivotError
from privot.randomizer import Randomizer, Release, randomizer_from_noise
from privot.schema import Schema


def test_reported_columns_are_uniform_and_independent_of_the_record():
    """False-alarm rate 1e-6 each."""
    schema = Schema.from_toml(
        "\n".join(f'[columns.c{i}]\nkind = "numeric"\nbounds = [0, 1]' for i in range(4))
    )
    num = 60_000
    table = {f"c{i}": np.repeat([0.0, 1.0], num // 2) for i in range(4)}
    release = Randomizer.calibrate(schema, 4.0, report_columns=2, report="split").privatize(table)
    masks = np.stack([release.reports(f"c{i}")[1] for i in range(4)], axis=1)
    assert (masks.sum(1) == 2).all()
    subsets = masks @ (1 << np.arange(4))
    counts = [
        np.bincount(part, minlength=16) for part in (subsets[: num // 2], subsets[num // 2 :])
    ]
    seen = [c[c > 0] for c in counts]
    assert stats.chisquare(seen[0] + seen[1]).pvalue > 1e-6
    assert stats.chi2_contingency(np.stack(seen)).pvalue > 1e-6


def test_nothing_is_left_in_memory_under_a_null():
    """Arrow keeps a number beneath every null: of a column not reported, it must be no report."""
    release = Randomizer.calibrate(SCHEMA, 3.0, report_columns=1, report="split").privatize(
        people(500)
    )
    for name in ("longitude", "latitude", "age"):
        column = release.table[name].combine_chunks()
        beneath = np.frombuffer(column.buffers()[1], np.float64)[: len(column)]
        absent = column.is_null().to_numpy(zero_copy_only=False)
        assert 100 < absent.sum() < 500
        assert (beneath[absent] == 0).all()
        assert (beneath[~absent] != 0).all()


def test_reports_return_to_the_grid_they_were_drawn_on():
    """Through the table's units and back: every report has a likelihood."""
    schema = Schema.from_toml(
        "\n".join(
            f'[columns.c{i}]\nkind = "numeric"\nbounds = {bounds}'
            for i, bounds in enumerate(([0.1, 0.37], [-3, 100000.1], [1e6, 1e6 + 1]))
        )
    )
    raw = {"c0": [0.2] * 500, "c1": [5.0] * 500, "c2": [1e6] * 500}
    release = Randomizer.calibrate(schema, 3.0, report="split").privatize(raw)
    for name, mechanism in release.randomizer.mechanisms.items():
        reports, _ = release.reports(name)
        assert np.isfinite(mechanism.log_likelihood(reports, np.zeros((1, 1)))).all()


@pytest.mark.parametrize("more", SCHEMAS.values(), ids=SCHEMAS.keys())
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_reports_lie_on_the_grid_and_survive_a_file(tmp_path, more, mechanism):
    schema = schema_of(more)
    delta = 1e-5 if mechanism == "gaussian" else 0.0
    randomizer = randomizer_from_noise(
        schema, 0.7, delta, mechanism=mechanism, shares={"label": 4.0}
    )
    release = randomizer.privatize(records(300))
    release.save(tmp_path / "release.parquet")
    loaded = Release.load(tmp_path / "release.parquet")
    assert loaded.table.equals(release.table)
    assert loaded.randomizer.to_json() == randomizer.to_json()
    values, reported = loaded.reports("image")
    assert reported.all()
    assert values.dtype == np.float32
    assert values.shape == (300, schema.images["image"].domain.dimension)
    noise = randomizer.mechanisms["image"]
    cells = values.astype(np.float64) / noise.grid
    np.testing.assert_array_equal(cells, np.rint(cells))
    assert np.isfinite(noise.log_likelihood(values, np.zeros(values.shape[1]))).all()


def test_records_are_encoded_before_the_noise():
    """With next to no noise a report is the record: clipped, pulled to the ball, transformed."""
    schema = schema_of('radius = 3\ncenter = "lower"\ntransform = "dct"\nlow_pass = 3')
    data = records(20)
    randomizer = randomizer_from_noise(schema, 1e-4, 1e-5, shares={"label": 4.0})
    release = randomizer.privatize(data, keep_order=True)
    domain = schema.images["image"].domain
    units = data["image"].reshape(20, -1) / 127.5 - 1
    np.testing.assert_allclose(release.reports("image")[0], domain.encode(units), atol=2e-3)
    assert release.randomizer.count_outside(data)["image"] == 20


def test_altered_files_are_refused(tmp_path):
    release = randomizer_from_noise(schema_of(), 2.0, 1e-5, shares={"label": 4.0}).privatize(
        records(5)
    )
    table = release.table
    for bad in (
        pa.array([[np.nan] * 24] * 5, pa.list_(pa.float32(), 24)),
        pa.array([[1.0] * 23] * 5, pa.list_(pa.float32(), 23)),
        pa.array([[1.0] * 24] * 4 + [None], pa.list_(pa.float32(), 24)),
    ):
        altered = Release(
            type(release.rows).of(table.set_column(0, "image", bad)), release.randomizer
        )
        altered.save(tmp_path / "release.parquet")
        with pytest.raises(PrivotError, match="altered"):
            Release.load(tmp_path / "release.parquet")
