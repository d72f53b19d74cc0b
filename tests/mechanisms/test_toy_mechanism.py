"""A mechanism of one's own, in one file, goes from a CSV to the report; the library is not edited."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import privot
from mechanisms.test_choice import choices
from privot.audit import audit_randomizer
from privot.local import FitSettings
from privot.mechanisms.mechanism import mechanism_from_dict
from privot.randomizer import Release
from round_table import SCHEMA, RoundTable, made_up_people


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """From a CSV, through files."""
    folder = tmp_path_factory.mktemp("toy")
    pa.csv.write_csv(made_up_people(), folder / "people.csv")
    made = privot.Randomizer.calibrate(SCHEMA, 6.0, mechanism="round_table")
    made.save(folder / "randomizer.json")
    device = privot.Randomizer.load(folder / "randomizer.json")
    assert device.mechanisms["hour"] == RoundTable(6, made.mechanisms["hour"].epsilon)
    assert device.mechanisms["night"].kind == "randomized_response"
    table = privot.tables.files.read_table(folder / "people.csv", SCHEMA)
    device.privatize(table).save(folder / "release.parquet")
    return Release.load(folder / "release.parquet")


def test_its_choice_and_its_words():
    made = RoundTable(4, 1.0)
    assert mechanism_from_dict(json.loads(json.dumps(made.to_dict()))) == made
    assert RoundTable.unfit(choices(2))
    assert np.exp(made.log_likelihood(np.arange(4), 1)).sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="'round_table' is not for column 'xy'"):
        plane = '[columns.xy]\nkind = "vector"\ncolumns = ["x", "y"]\nsupport = [[0, 0], [1, 1]]'
        privot.Randomizer.calibrate(privot.Schema.from_toml(plane), 1.0, mechanism="round_table")


def test_what_no_device_sends_is_found(release):
    assert release.randomizer.expected_noise()[0]["in_words"] == "its seat, or one near it"
    sent = pa.table({"hour": ["2h", "7h", None]})
    (half, _), (impossible, _) = release.randomizer.splits["hour"].faults(sent)
    assert not half.any()
    assert impossible.tolist() == [False, True, False]


@pytest.mark.parametrize("estimator", ["latent_classes", "generator"])
def test_it_is_learned_from_and_reported_on(release, estimator, tmp_path):
    short = {"steps": 150, "batch_size": 200, "learning_rate": 1e-2, "hidden": (16,)}
    settings = short if estimator == "generator" else {}
    model = privot.fit(release, FitSettings(estimator=estimator, seed=0, **settings))
    drawn = model.sample(4000, seed=1)
    share = np.mean(np.array(drawn["hour"].to_pylist()) == "4h")
    told = (release.reports("hour")[0][:, 0] == 4).mean()
    # Shares are ± .011, and .24 ± .008 above the reported ones: false alarms are below 1e-6.
    assert told + 0.18 < share < 2 / 3 + 1 / 18 + 0.06
    if estimator == "latent_classes":
        assert share == pytest.approx(2 / 3 + 1 / 18, abs=0.06)
    else:
        return  # a report knows what was drawn, not what drew it: one is enough
    model.save(tmp_path / "model")
    model = privot.load(tmp_path / "model")
    people = made_up_people()
    privot.write_report(privot.evaluate(model, people, num_rows=2000), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "hour" in page
    assert "4h" in page


def test_an_audit_passes_it_and_not_a_leak(release, monkeypatch, no_streams):
    """Refutes what is honest with probability 1e-6; a seat that is never left shows."""
    sure = {"num_draws": 2_000, "confidence": 1 - 1e-6}
    assert not audit_randomizer(release.randomizer, **sure).refuted
    honest = RoundTable.privatize
    monkeypatch.setattr(
        RoundTable, "privatize", lambda self, x: np.where(np.asarray(x) == 0, 0, honest(self, x))
    )
    assert audit_randomizer(release.randomizer, **sure).refuted
