"""What synthetic rows teach of a column, by reports alone, beside what it scores on people."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

import privot
from privot import PrivotError, Randomizer, Schema
from privot.evaluation.estimates import Interval
from privot.evaluation.linear import Linear
from privot.evaluation.telling import Telling, require_told, score, tell
from privot.local.releases import Releases

SCHEMA = Schema.from_toml("""
[columns.size]
kind = "numeric"
bounds = [0, 10]
bins = 5
[columns.color]
kind = "categorical"
categories = ["red", "green"]
[columns.coin]
kind = "boolean"
[columns.rich]
kind = "boolean"
nullable = true
""")
pytest.importorskip("sklearn")


def people(num, seed):
    rng = np.random.default_rng(seed)
    size = rng.uniform(0, 10, num)
    rich = size + rng.normal(0, 3, num) + 2 * (color := rng.random(num) < 0.4) > 6
    return {
        "size": size,
        "color": np.where(color, "red", "green"),
        "coin": rng.random(num) < 0.5,
        "rich": np.where(rng.random(num) < 0.1, None, rich).tolist(),
    }


@pytest.fixture(scope="module")
def fitted():
    release = Randomizer.calibrate(SCHEMA, 6.0).privatize(people(8000, 0))
    return privot.fit(release, seed=0), Releases.of(release)


@pytest.mark.parametrize("target", ["rich", "size"])
def test_the_interval_is_about_what_is_made(fitted, target):
    model, releases = fitted
    told = tell(model, releases, target, model, 1.0, seed=0)
    made = score(*Linear.of(model, target, 0).on(pa.table(people(20_000, 1))))
    width = told.reports.high - told.reports.low
    assert 0.005 < width < 0.2
    # Four standard errors, and as much as half of the reports and the shape of scores may do.
    assert abs(told.reports.estimate - made) < 4 * width / 3.29 + 0.02
    assert told.kept > 0.9  # the rehearsal's model is here the model itself
    assert told.finding.grade == "good"
    assert told.reports.estimate > (0.6 if target == "rich" else 0.1)


def test_a_coin_is_not_told(fitted):
    model, releases = fitted
    told = tell(model, releases, "coin", model, 1.0, seed=0)
    assert told.reports.low < 0.52
    assert told.finding.grade == "unknown"


def test_nobody_was_asked_two_columns():
    alone = Randomizer.calibrate(SCHEMA, 6.0, report_columns=1).privatize(people(400, 0))
    model = privot.fit(alone, seed=0)
    told = tell(model, Releases.of(alone), "rich", model, 1.0, seed=0)
    assert told.reports is None
    assert told.finding.words == "nobody was asked rich together with another column"


def test_in_words():
    told = Telling("rich", "logistic regression", "AUC", Interval(0.81, 0.78, 0.84), 0.92)
    assert told.finding.grade == "good"
    assert str(told.finding) == (
        "telling rich: logistic regression learned from synthetic records has AUC 0.81 on people (0.78 "
        "to 0.84), and keeps 92% of what people would teach, by rehearsal"
    )
    fair = dataclasses.replace(told, kept=0.8)
    assert fair.finding.grade == "fair"
    wide = dataclasses.replace(told, reports=Interval(0.6, 0.5, 0.7))
    assert wide.finding.grade == "unknown"
    assert "too few to say more than a guess" in wide.finding.words
    nothing = dataclasses.replace(told, kept=None)
    assert "the model ties it to no other column" in nothing.finding.words
    assert Telling.from_dict(dataclasses.asdict(told)) == told


def test_refused_targets():
    with pytest.raises(PrivotError, match=r"target 'town' is none of \['size', 'color'"):
        require_told(SCHEMA, "town")
    alone = Schema.from_toml('[columns.rich]\nkind = "boolean"')
    with pytest.raises(PrivotError, match="or alone: name one that others may tell"):
        require_told(alone, "rich")
