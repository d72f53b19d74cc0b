"""Places of trust: people are counted exactly, facts are those of the systems, errors come true."""

import numpy as np
import pyarrow as pa
import pytest

import privot.central
from privot.aggregated import Encoder
from privot.central.fitting import SumSettings, fit_of
from privot.central.sums import Budget, contributions
from privot.collector.analyst import carrier_of
from privot.core.errors import PrivotError
from privot.device import Device
from privot.forecast import simulation
from privot.forecast.simulation import (
    errors_against,
    forecast_trust,
    promises_at,
    random_places,
    weighted_sums,
    z_order,
)
from privot.randomizer import Randomizer
from privot.schema import Schema
from privot.wire.report import SEAL_BYTES

PEOPLE = 20_000
MAP = Schema.from_dict(
    {
        "columns": {
            "home": {"kind": "vector", "columns": ["x", "y"], "bounds": [[0, 1], [0, 1]]},
        }
    }
)
TABLE = Schema.from_dict(
    {
        "columns": {
            "old": {"kind": "boolean"},
            "job": {"kind": "categorical", "categories": ["a", "b", "c"]},
        }
    }
)


def homes(number, seed):
    """Two towns."""
    rng = np.random.default_rng([seed, 99])
    near = rng.random(number)[:, None] < 0.6
    first, second = (
        rng.normal([0.3, 0.3], 0.05, (number, 2)),
        rng.normal([0.7, 0.6], 0.12, (number, 2)),
    )
    points = np.where(near, first, second).clip(0, 1)
    return pa.table({"x": points[:, 0], "y": points[:, 1]})


def rows(number, seed):
    """Two columns that depend on each other."""
    rng = np.random.default_rng([seed, 99])
    old = rng.random(number) < 0.4
    job = (rng.random(number)[:, None] > np.where(old[:, None], [0.2, 0.5], [0.5, 0.9])).sum(axis=1)
    return pa.table({"old": old, "job": np.array(["a", "b", "c"])[job]})


@pytest.mark.parametrize(("schema", "people"), [(MAP, homes), (TABLE, rows)])
def test_records_that_occur_several_times_are_counted_so(schema, people):
    fitted = fit_of(schema, SumSettings(), Budget(1.0, 1e-6, PEOPLE))
    records, times = fitted.records.encode(people(50, 0)), np.arange(50) % 4
    own = contributions(fitted.query, records)
    found = weighted_sums(fitted.query, records, times)
    assert found.tolist() == np.repeat(own, times, axis=0).sum(axis=0).tolist()
    assert found.sum() > 0


def test_people_do_not_depend_on_how_a_prior_was_drawn():
    """Two streams of one seed would draw certain rows; these means are within 7 deviations of ½."""
    drawn = pa.table({"u": np.random.default_rng([3, 0]).random(30_000)})
    mean = np.mean(simulation._resample(drawn, 30_000, 3)["u"].to_numpy())
    assert abs(mean - 0.5) < 7 * (2 / 12 / 30_000) ** 0.5


def test_facts_are_those_of_what_is_sent():
    promises = promises_at([1.0], 1000, delta=1e-6)
    found = forecast_trust(TABLE, promises, 1000, prior=rows(500, 0), rehearsals=1)
    local, shuffled, aggregated, central = found.rows
    assert [row.where for row in found.rows] == ["local", "shuffled", "aggregated", "central"]
    assert [row.delta for row in found.rows] == [0, 1e-6, 1e-6, 1e-6]
    record = {"old": True, "job": "b"}

    def report(promise):
        schema = TABLE.model_copy(update={"promise": promise})
        return Randomizer.calibrate(schema), schema

    randomizer, _ = report(promises[0])
    sent = Device.from_json(randomizer.to_json()).report(record).to_bytes()
    assert (local.epsilon0, local.report_bytes) == (randomizer.guarantee.epsilon, len(sent))
    randomizer, _ = report(promises[1])
    sent = Device.from_json(randomizer.to_json()).report(record).to_bytes()
    sealed = carrier_of(bytes(32), bytes(SEAL_BYTES + len(sent))).to_bytes()
    assert (shuffled.epsilon0, shuffled.report_bytes) == (randomizer.guarantee.epsilon, len(sealed))
    shares = Encoder.calibrate(TABLE.model_copy(update={"promise": promises[2]})).encode(record)
    assert (aggregated.epsilon0, aggregated.report_bytes) == (None, sum(map(len, shares)))
    assert (central.epsilon0, central.report_bytes) == (None, None)
    assert found.measure == "two_way"
    assert not found.made_up
    assert all(0 < row.predicted["two_way"] < 0.5 for row in found.rows)
    assert shuffled.epsilon0 > 1


def test_what_noise_would_hide_is_refused_where_it_would():
    found = forecast_trust(TABLE, promises_at([0.02], 150), 150, prior=rows(500, 0), rehearsals=1)
    words = {row.where: row.refused for row in found.rows}
    assert "noise alone would move every column" in words["central"]
    assert words["local"] is None
    with pytest.raises(PrivotError, match="noise alone would move"):
        forecast_trust(TABLE, promises_at([0.02], 150, where=["central"]), 150)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"where": ["local"], "delta": 1e-6}, "delta is 1e-06, and where is 'local'"),
        ({"where": ["central"], "floor": 4.0}, "floor is 4.0, which only 'shuffled'"),
        ({"delta": 0.0}, "delta is 0, and where is 'shuffled'"),
        ({"delta": 0.1}, "with 1,000 people, publishing one whole record"),
        ({"where": ["elsewhere"]}, "where is 'elsewhere': choose one of"),
    ],
)
def test_promises_that_cannot_be_are_refused(given, words):
    with pytest.raises(PrivotError, match=words):
        promises_at([1.0], 1000, **given)


def test_other_records_are_refused():
    columns = {"v": {"kind": "vector", "columns": ["x", "y"], "radius": 1.0}}
    with pytest.raises(PrivotError, match="not all codes, nor one place in a box"):
        forecast_trust(Schema.from_dict({"columns": columns}), promises_at([1.0], 100), 100)


def test_points_stand_near_their_neighbors_on_the_curve():
    points = np.random.default_rng(0).uniform(-1, 1, (4096, 2))
    order = z_order(points)
    assert sorted(order.tolist()) == list(range(4096))
    # Consecutive points are 1/48 of the side apart on average; at random .52 of it.
    assert np.linalg.norm(np.diff(points[order], axis=0), axis=1).mean() < 0.2


def test_random_places_are_of_the_box():
    table = random_places(MAP, 0)
    points = np.stack([column.to_numpy() for column in table.columns], axis=1)
    assert points.min() >= 0
    assert points.max() <= 1
    assert (points.std(axis=0) > 0.1).all()


def test_a_map_errs_by_what_was_predicted(monkeypatch):
    """Of eight runs the logarithm of the ratio is .000 ± .0075, by the same random numbers: 10 % is 12
    deviations away, a false alarm in fewer than one run in 10⁹ if it is Gaussian."""
    # One less than the size from which a distance begins with potentials, ten times the work.
    monkeypatch.setattr("privot.forecast.simulation._POINTS", 299)
    monkeypatch.setattr("privot.forecast.simulation._SUBSAMPLES", 60)
    number = 100_000
    (promise,) = promises_at([1.0], number, where=["central"])
    found = forecast_trust(MAP, [promise], number, prior=homes(number, 0), rehearsals=1)
    model = privot.central.fit(homes(number, 1), MAP, epsilon=1.0, delta=promise.delta)
    error = errors_against(MAP, homes(number, 2))(model.sample(number, seed=0), 0)["W2"]
    assert found.rows[0].predicted["W2"] == pytest.approx(error, rel=0.1)


def ten(number, seed):
    """Ten columns that two classes make dependent."""
    rng = np.random.default_rng([seed, 99])
    first = rng.random(number)[:, None] < 0.4
    shares = np.where(first, np.linspace(0.1, 0.8, 10), np.linspace(0.5, 0.4, 10))
    return pa.table(
        {f"c{i}": column for i, column in enumerate((rng.random((number, 10)) < shares).T)}
    )


def test_a_table_errs_by_what_was_predicted():
    """Means of four. Of eight runs the logarithm of the ratio is −.02 ± .04: 25 % is 5.8 deviations or
    more away, a false alarm in fewer than one run in 10⁷ if it is Gaussian."""
    schema = Schema.from_dict({"columns": {f"c{i}": {"kind": "boolean"} for i in range(10)}})
    (promise,) = promises_at([0.2], PEOPLE, where=["central"])
    found = forecast_trust(schema, [promise], PEOPLE, prior=ten(100_000, 0), rehearsals=4)
    distance, errors = errors_against(schema, ten(100_000, 1)), []
    for seed in range(2, 6):
        model = privot.central.fit(ten(PEOPLE, seed), schema, epsilon=0.2, delta=promise.delta)
        errors.append(distance(model.sample(200_000, seed=seed), seed)["two_way"])
    assert found.rows[0].predicted["two_way"] == pytest.approx(np.mean(errors), rel=0.25)
