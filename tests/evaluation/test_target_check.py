"""What synthetic rows teach of a column, by reports alone, beside what it scores on people."""

import dataclasses

import pytest
from pydantic import TypeAdapter

import privot
from privot import PrivotError, Randomizer, Schema
from privot.evaluation.estimates import Interval, Rehearsed
from privot.evaluation.target_check import TargetCheck, check_target, require_target
from privot.local.releases import Releases
from rich_people import SCHEMA, people

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def fitted():
    release = Randomizer.calibrate(SCHEMA, 6.0).privatize(people(3000, 0))
    return privot.fit(release, seed=0), Releases.of(release)


def test_what_is_told_and_kept(fitted):
    model, releases = fitted
    told = check_target(model, releases, "rich", rehearsed_as(model, releases), 1.0, seed=0)
    assert (told.classifier, told.measure) == ("logistic regression", "AUC")
    assert 0.6 < told.reports.estimate < 0.9
    assert told.retained > 0.9  # the rehearsal's model is here the model itself
    assert told.finding.grade == "good"


def rehearsed_as(model, releases):
    """A rehearsal from which the model came out as it was."""
    return Rehearsed({}, {}, {}, model, releases)


def test_nobody_was_asked_two_columns():
    alone = Randomizer.calibrate(SCHEMA, 6.0, report_columns=1).privatize(people(400, 0))
    model = privot.fit(alone, seed=0)
    told = check_target(
        model, Releases.of(alone), "rich", rehearsed_as(model, Releases.of(alone)), 1.0, seed=0
    )
    assert told.reports is None
    assert told.finding.words == "no report covers rich together with another column"


def test_in_words():
    told = TargetCheck("rich", "logistic regression", "AUC", Interval(0.81, 0.78, 0.84), 0.92)
    assert told.finding.grade == "good"
    assert str(told.finding) == (
        "predicting rich: logistic regression learned from synthetic records has AUC 0.81 on people "
        "(0.78 to 0.84), and retains 92% of what real records would teach, by rehearsal"
    )
    fair = dataclasses.replace(told, retained=0.8)
    assert fair.finding.grade == "fair"
    wide = dataclasses.replace(told, reports=Interval(0.6, 0.5, 0.7))
    assert wide.finding.grade == "unknown"
    assert "too few to distinguish it from a guess" in wide.finding.words
    nothing = dataclasses.replace(told, retained=None)
    assert "it is independent of all other columns in the model" in nothing.finding.words
    assert TypeAdapter(TargetCheck).validate_python(dataclasses.asdict(told)) == told


def test_refused_targets():
    with pytest.raises(PrivotError, match=r"target 'town' is none of \['size', 'color'"):
        require_target(SCHEMA, "town")
    alone = Schema.from_toml('[columns.rich]\nkind = "boolean"')
    with pytest.raises(PrivotError, match="or alone: name one that others may predict"):
        require_target(alone, "rich")
