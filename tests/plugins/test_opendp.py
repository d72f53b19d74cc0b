import pytest

dp = pytest.importorskip("opendp.prelude")

from privot import PrivotError, Randomizer, Schema, collect, fit  # noqa: E402
from privot.plugins.opendp import measurement  # noqa: E402

SCHEMA = Schema.from_toml('[columns.sex]\nkind = "categorical"\ncategories = ["f", "m"]')


@pytest.fixture(autouse=True)
def features():
    dp.enable_features("honest-but-curious", "contrib")


def test_the_privacy_map_is_the_randomizers():
    spent = measurement(Randomizer.calibrate(SCHEMA, epsilon=2.0))
    assert spent.map(0) == 0
    assert spent.map(1) == pytest.approx(2.0)
    assert not spent.check(1, 1.99)


def test_reports_are_collected_and_learned_from():
    randomizer = Randomizer.calibrate(SCHEMA, epsilon=3.0)
    report = measurement(randomizer)
    reports = [report({"sex": "f"}) for _ in range(900)] + [
        report({"sex": "m"}) for _ in range(100)
    ]
    model = fit(collect(reports, randomizer).release, seed=0)
    share = model.sample(10_000, seed=0)["sex"].to_pylist().count("f") / 10_000
    assert 0.8 < share < 0.98  # .9, with a standard error of .012 by reports: 6 deviations and more


def test_impossible_records_are_refused():
    report = measurement(Randomizer.calibrate(SCHEMA, epsilon=2.0))
    for record in ({"sex": "x"}, {}, "f"):  # outside of the domain, for which the map holds
        assert not report.input_domain.member(record)
        with pytest.raises(dp.OpenDPException):
            report(record)


def test_only_what_devices_draw_becomes_a_measurement():
    place = {"kind": "vector", "columns": ["x", "y"], "bounds": [[0, 1], [0, 1]]}
    schema = Schema.from_dict({"columns": {"place": place}})
    with pytest.raises(PrivotError, match="no program"):
        measurement(Randomizer.calibrate(schema, epsilon=2.0, delta=1e-6, mechanism="gaussian"))
