"""A check by reports alone: what it says, that it is kept with the model, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import privot
from few_settings import few_settings
from privot import PrivotError, Randomizer, Schema
from privot.evaluation import estimates, target_check
from privot.evaluation.checking import Check
from privot.evaluation.estimates import CodeReports, contradicted_by, residuals
from privot.evaluation.target_check import KNOWN, CrossFit, Scores, report_moments
from privot.local.classes.mixture import LatentClasses
from privot.local.releases import Places, Releases
from privot.report import write_check_report
from privot.schema.sampling import LineCells

SCHEMA = Schema.from_toml("""
[columns.color]
kind = "categorical"
categories = ["red", "blue"]
[columns.size]
kind = "numeric"
bounds = [0, 10]
bins = 4
[columns.weight]
kind = "numeric"
decimals = 2
bounds = [0, 10]
""")


def people(num, seed):
    rng = np.random.default_rng(seed)
    size = rng.uniform(0, 10, num)
    return {
        "color": np.where(size > 5, "red", "blue"),
        "size": size,
        "weight": np.clip(size + rng.normal(0, 1, num), 0, 10),
    }


@pytest.fixture(scope="module")
def checked():
    randomizer = Randomizer.calibrate(SCHEMA, 4.0, report_columns=2)
    release = randomizer.privatize(people(8000, 0))
    model = privot.fit(release, seed=0)
    steps = []
    found = privot.check(
        model, release, target="color", progress=lambda done, of: steps.append(done / of)
    )
    assert steps[0] == 0
    assert steps == sorted(steps)
    assert steps[-1] == 1
    return model, release, found


def test_what_it_says(checked):
    _, release, found = checked
    assert found.num_reports == len(release) == 8000
    assert "ε = 4" in found.guarantee
    assert [column.column for column in found.columns] == list(SCHEMA.columns)
    assert sum(pair.people for pair in found.pairs) == 8000
    # The second is .056 ± .011, the logarithm of their ratio 1.0 ± .18 (13 runs).
    assert found.one_way < found.two_way < 0.14
    color, size, _ = found.columns
    assert color.number is None
    mean = size.number.mean.reports
    # A 90 % interval misses once in ten times; one four times as wide, of 6.6 standard errors, never.
    assert abs(mean.estimate - 5.0) < 4 * (mean.high - mean.low) / 2
    assert all(share.reports.low <= share.reports.high for share in size.shares)
    (pair,) = [pair for pair in found.pairs if pair.name == "size × weight"]
    assert pair.correlation.model > 0.7
    assert pair.rank_correlation.model == pytest.approx(pair.correlation.model, abs=0.1)
    assert pair.dependence > 0.2
    topics = [finding.topic for finding in found.verdict]
    assert topics == [
        "single columns", "numbers, value by value", "pairs of columns", "dependence of pairs",
        "correlations", "rank correlations", "agreement with the reports", "predicting color",
    ]  # fmt: skip
    assert "agreement with the reports: they contradict" in repr(found)


def test_a_correlation_that_reports_do_not_determine_is_not_called_good(checked):
    """Between -1 and 1 everything is possible, whatever the rehearsal errs by."""
    _, _, found = checked
    (pair,) = [pair for pair in found.pairs if pair.correlation]
    good = replace(pair, correlation_error=0.01)
    unknown = replace(pair, second="age", correlation_error=None)

    def finding(*pairs):
        verdict = replace(found, pairs=pairs).verdict
        return next(each for each in verdict if each.topic == "correlations")

    assert finding(good).grade == "good"
    assert finding(good, unknown).grade == "fair"
    assert "do not determine size × age" in finding(good, unknown).words
    assert finding(unknown).grade == "unknown"


def test_numbers_of_steps_are_told_in_values(checked):
    model, _, found = checked
    number = found.columns[2].number
    drawn = model.sample(100_000, seed=0)["weight"].to_numpy()
    assert number.mean.model == pytest.approx(drawn.mean(), rel=1e-9)
    assert number.quantiles[2].model == np.quantile(drawn, 0.5, method="inverted_cdf")
    assert all(0 <= each.reports.low <= each.reports.high <= 10 for each in number.quantiles)
    # The smallest values are often estimated as a spike at 0, whose interval is a point.
    inner = [number.mean, *number.quantiles[1:-1]]
    assert all(each.reports.low < each.reports.high for each in inner)
    # Four times as wide as a 90 % interval; a median of steps rather than values would be 500.
    median = number.quantiles[2].reports
    assert abs(5.0 - median.estimate) < 4 * max(
        median.high - median.estimate, median.estimate - median.low
    )


def test_a_model_remembers_it(checked, tmp_path):
    model, _, found = checked
    found.recorded(model).save(tmp_path / "model")
    again = privot.load(tmp_path / "model")
    assert Check.of(again) == found
    assert Check.of(model) is None


def test_reports_of_others_tell_a_change(checked):
    """The same model against people among whom size says nothing of weight."""
    model, _, _ = checked
    changed = people(4000, 1)
    changed["weight"] = np.random.default_rng(2).permutation(changed["weight"])
    later = model.randomizer.privatize(changed)
    found = privot.check(model, later, held_out=True)
    contradicted = [pair.name for pair in found.pairs if pair.contradicted]
    assert "size × weight" in contradicted
    (said,) = [f for f in found.verdict if f.topic == "agreement with the reports"]
    assert "size × weight" in said.words
    assert said.grade != "good"


def test_a_check_by_a_smaller_shuffled_batch_states_the_loss_of_its_people(tmp_path):
    """The model's own batch hides its people better. Too few reports are not checked by, either."""
    fields = {"kind": "boolean"}
    promise = {"epsilon": 2, "where": "shuffled", "delta": 1e-4, "people": 300}
    schema = Schema.from_dict({"columns": {"old": fields, "sick": fields}, "promise": promise})
    randomizer, rng = Randomizer.calibrate(schema), np.random.default_rng(0)
    large, small, few = (
        randomizer.privatize({"old": rng.random(n) < 0.4, "sick": rng.random(n) < 0.2})
        for n in (900, 300, 299)
    )
    with few_settings():
        model = privot.fit(large, seed=0)
        found = privot.check(model, small, held_out=True)
        assert privot.check(model, large).guarantee == str(model.guarantee)
    assert small.guarantee.epsilon > model.guarantee.epsilon
    stated = replace(small.guarantee, unequal=True)  # batches of two sizes, perhaps of two laws
    assert (found.guarantee, found.promise) == (str(stated), stated.describe())
    write_check_report(found, model, tmp_path / "check.html")
    assert found.guarantee in (tmp_path / "check.html").read_text()
    with pytest.raises(PrivotError, match="save them apart"):
        found.recorded(model)
    with pytest.raises(PrivotError, match="299 reports were accepted, and the promise is of"):
        privot.check(model, few, held_out=True)


def test_refusals(checked):
    model, _, _ = checked
    other = Randomizer.calibrate(SCHEMA, 3.0, report_columns=2).privatize(people(100, 0))
    with pytest.raises(PrivotError, match="of another randomizer"):
        privot.check(model, other)
    few = model.randomizer.privatize(people(99, 0))
    with pytest.raises(
        PrivotError, match="99 reports are too few to check a model by: give at least 100"
    ):
        privot.check(model, few)
    place = Schema.from_toml('[columns.x]\nkind = "numeric"\nbounds = [0, 1]')
    points = Randomizer.calibrate(place, 3.0).privatize({"x": np.random.default_rng(0).random(50)})
    with pytest.raises(PrivotError, match="'grid', and only a model of a table"):
        privot.check(privot.fit(points), points)


def test_false_alarms_are_counted_together():
    assert contradicted_by({(0,): 0.001, (1,): 0.02, (0, 1): 0.9}) == {(0,), (1,)}
    assert contradicted_by({(i,): 0.03 for i in range(3)}) == set()


def test_a_mass_point_counts_as_the_atom_that_contains_it(checked, monkeypatch):
    """A fit puts the mass of a peak on one number of its atom, which no report distinguishes."""
    model, release, _ = checked
    own, releases = model.sampler, Releases.of(release)
    (*others, weight), (*other_places, at) = own.atoms.probabilities, own.places
    (atom,) = np.flatnonzero((at.cells.low <= 500) & (at.cells.high > 501))  # 5.00 among others
    split = np.vstack([weight, 0.7 * weight[atom]])
    split[atom] *= 0.3
    ends = np.append(at.cells.low, 500), np.append(at.cells.high, 500)
    places = Places(np.append(at.codes, at.codes[atom]), LineCells(*ends, integer=True))
    law = LatentClasses(own.atoms.weights, (*others, split))
    with_point = replace(model, sampler=replace(own, atoms=law, places=(*other_places, places)))

    reports, pointed = CodeReports.of(releases), CodeReports.of(releases, with_point)
    same = residuals(reports, own.atoms)
    for columns, residual in residuals(pointed, law).items():
        assert residual.square == pytest.approx(same[columns].square)
    weights = [np.sin(np.arange(len(table)))[:, None] for table in own.atoms.probabilities]
    repeated = *weights[:2], np.append(weights[2], weights[2][[atom]], axis=0)
    moments = report_moments(reports, own.atoms, Scores(0, tuple(weights), np.ones(2)))
    again = report_moments(pointed, law, Scores(0, repeated, np.ones(2)))
    assert again.mean == pytest.approx(moments.mean)
    assert again.spread == pytest.approx(moments.spread)

    # All models of a check may have such points: the given one, the rehearsal's, those of halves.
    for module in (estimates, target_check):
        monkeypatch.setattr(module, "fit_again", lambda *_: with_point)
    few = model.randomizer.privatize(people(100, 0))
    assert privot.check(with_point, few).columns[2].people > 0
    for other in CrossFit.of(model, releases, seed=0).others:
        known = report_moments(other, law, Scores(0, repeated, np.ones(2))).mean[KNOWN]
        assert known == pytest.approx(1)
