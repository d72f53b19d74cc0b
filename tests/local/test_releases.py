"""Releases of a campaign that moved are fitted together, each report by its own randomizer."""

import numpy as np
import pyarrow as pa
import pytest

from privot import FitSettings, Randomizer, Release, Schema, count, fit, load
from privot.core.errors import PrivotError
from privot.local import fit_waves
from privot.local.classes.class_fit import (
    Trial,
    fit_classes,
)
from privot.local.classes.counts import (
    count_releases,
    count_tables,
    report_groups,
)
from privot.local.classes.expectation import expectation
from privot.local.classes.mixture import LatentClasses
from privot.local.releases import Releases
from privot.randomizer.reports.rows import ReportTable
from privot.training import FitMonitor

AGE = '[columns.age]\nkind = "numeric"\ninteger = true\nbounds = {}\nbins = {}\nspikes = {}\n'
WORK = '[columns.work]\nkind = "categorical"\nother = "else"\ncategories = {}\n'
RENT = '[columns.rent]\nkind = "numeric"\nbounds = [0, 1]\nbins = {}\nnullable = true\n'
OLD = Schema.from_toml(WORK.format(["clerk", "smith"]) + AGE.format([0, 90], [0, 18, 40, 90], [30]))
NEW = Schema.from_toml(
    AGE.format([10, 99], [10, 30, 65, 99], [65])
    + RENT.format(4)
    + WORK.format(["smith", "nurse", "clerk"])
)


def people(count, seed):
    """Age, work and rent, all of which depend on each other."""
    rng = np.random.default_rng(seed)
    young = rng.random(count) < 0.4
    age = np.where(young, rng.integers(5, 30, count), rng.integers(30, 99, count))
    work = rng.choice(["clerk", "smith", "nurse", "cook"], count, p=[0.2, 0.3, 0.4, 0.1])
    work = np.where(young, rng.choice(["clerk", "cook"], count), work)
    rent = np.where(rng.random(count) < 0.1, np.nan, rng.random(count) ** np.where(young, 3, 1))
    columns = {"age": age, "work": work}
    return columns, columns | {"rent": pa.array(rent, mask=np.isnan(rent))}


def moved(count=4000, epsilons=(2.0, 3.0), report="auto"):
    mechanism = "subset_selection" if report == "split" else None
    older, newer = (
        Randomizer.calibrate(schema, epsilon, report=report, mechanism=mechanism)
        for schema, epsilon in zip((OLD, NEW), epsilons, strict=True)
    )
    return Releases((older.privatize(people(count, 0)[0]), newer.privatize(people(count, 1)[1])))


def test_atoms_are_what_some_release_tells_apart():
    releases = moved(50)
    ages = np.arange(-5, 120)
    column = [schema.coded["age"] for schema in (OLD, NEW)]
    expected = {
        tuple(c.encode_codes("age", pa.table({"age": [age]}))[0] for c in column) for age in ages
    }
    older, newer = (own[0].codes for own in releases.atoms["age"].codings)
    assert set(zip(older, newer, strict=True)) == expected
    older, newer = (own[0].codes for own in releases.atoms["work"].codings)
    assert sorted(zip(older, newer, strict=True)) == [(0, 2), (1, 0), (2, 1), (2, 3)]
    assert releases.atoms["rent"].codings[0] == ()
    assert releases.atoms["rent"].codes.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("report", ["auto", "split"])
def test_a_report_is_as_likely_of_atoms_as_of_its_own_codes(report):
    releases = moved(600, report=report)
    rng = np.random.default_rng(2)
    atoms = releases.atoms
    sizes = [len(each.codes) for each in atoms.values()]
    tables = [rng.dirichlet(np.ones(size), 3).T for size in sizes]
    weights = rng.dirichlet(np.ones(3))
    queries, groups = count_releases(releases)
    whole = count_tables(groups, sizes, queries, merge=False)
    together = expectation(whole, np.concatenate(tables), weights).total(whole.counts)
    apart = 0.0
    for number, release in enumerate(releases.parts):
        names = list(release.schema.coded)
        own = [tables[list(atoms).index(name)] for name in names]
        coarse = LatentClasses(weights, tuple(own)).coarsened(
            [atoms[n].codings[number][0].codes for n in names]
        )
        sizes = [column.alphabet.size for column in release.schema.coded.values()]
        counted = count_tables(report_groups(count(release)), sizes)
        law = np.concatenate(coarse.probabilities)
        apart += expectation(counted, law, weights).total(counted.counts)
    assert together == pytest.approx(apart, rel=1e-12)


def joint(schema, columns):
    """Shares of age and work, in a schema's codes."""
    coded = [schema.coded[name].encode_codes(name, pa.table(columns)) for name in ("age", "work")]
    shares = np.zeros([schema.coded[name].alphabet.size for name in ("age", "work")])
    np.add.at(shares, tuple(coded), 1 / len(coded[0]))
    return shares


def test_both_releases_teach_more_than_either():
    """The older one tells bins of age that the newer has not; the newer alone tells nurses and rents.

    Errors of the joint law, in the codes of each, are .012 ± .0025 and .089 ± .027, of the nurses' share
    0 ± .008: the limits are seven standard deviations away. Either release alone leaves .3 or more.
    """
    releases = moved(8000, (6.0, 3.0))
    settings = Trial(num_classes=4, strength=1.0, passes=60, gain=1.0, standard_error=0.1)
    model = fit_classes(releases, 0, FitMonitor(), [settings])
    order = list(model.schema.coded)
    atoms = model.sampler.atoms.marginal([order.index("age"), order.index("work")])
    for number, (schema, most) in enumerate(((OLD, 0.03), (NEW, 0.28))):
        truth = joint(schema, people(200_000, 7)[number])
        age, work = (releases.atoms[name].codings[number][0].codes for name in ("age", "work"))
        found = np.zeros_like(truth)
        np.add.at(found, (age[:, None], work), atoms)
        assert np.abs(found - truth).sum() < most
    assert found.sum(axis=0)[1] == pytest.approx(truth.sum(axis=0)[1], abs=0.06)


def test_everybody_has_the_weakest_promise_and_the_model_says_whose_is_which(tmp_path):
    releases = moved(300, (4.0, 1.5))
    model = fit(list(releases.parts), seed=0)
    assert model.guarantee.epsilon == releases.parts[0].guarantee.epsilon > 3.9
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.guarantee == model.guarantee
    assert [p["reports"] for p in again.made_with["promises"]] == [300, 300]
    assert again.made_with["promises"][1]["guarantee"] == str(releases.newest.guarantee)
    assert again.sample(20, seed=1).equals(model.sample(20, seed=1))


NUMBER = '[columns.n]\nkind = "numeric"\nbounds = [0, {}]\n'


def test_places_of_several_randomizers_share_one_density():
    schema = Schema.from_toml(NUMBER.format(1))
    truth = np.random.default_rng(0).beta(5, 2, 40_000)
    releases = [
        Randomizer.calibrate(schema, epsilon, mechanism=kind).privatize({"n": part})
        for epsilon, kind, part in zip(
            (0.5, 2.0, 1.0), ("window", "window", "laplace"), np.array_split(truth, 3), strict=True
        )
    ]
    model = fit(releases)
    drawn = np.sort(model.sample(40_000, seed=0)["n"].to_numpy())
    assert np.abs(drawn - np.sort(truth)).mean() < 0.02
    assert model.guarantee.epsilon == releases[1].guarantee.epsilon


@pytest.mark.parametrize(
    ("older", "newer", "words"),
    [
        (NUMBER.format(2), NUMBER.format(1), "other bounds"),
        (NUMBER.format(1) + WORK.format(["a"]), NUMBER.format(1), "not in the last one"),
        (NUMBER.format(1) + "nullable = true", NUMBER.format(1), "may be missing"),
        ('[columns.n]\nkind = "boolean"', NUMBER.format(1), "another kind"),
        ('unit = "household"\n' + NUMBER.format(1), NUMBER.format(1), "per household"),
        (
            WORK.format(["a", "b"]).replace('other = "else"\n', ""),
            WORK.format(["a", "b", "c"]),
            "lists other categories",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(older, newer, words):
    releases = []
    for text in (older, newer):
        randomizer = Randomizer.calibrate(Schema.from_toml(text), 2.0)
        names = randomizer.schema.columns
        values = {"n": 1.0 if "boolean" not in text else True, "work": "a"}
        releases.append(randomizer.privatize({name: [values[name]] * 20 for name in names}))
    with pytest.raises(PrivotError, match=words):
        fit(releases)


def test_what_learns_from_one_release_refuses_two():
    schema = Schema.from_toml(NUMBER.format(1))
    randomizer = Randomizer.calibrate(schema, 1.0, mechanism="laplace")
    made, more = (randomizer.privatize({"n": [0.5] * 30}) for _ in range(2))
    with pytest.raises(PrivotError, match="learns from one release"):
        fit([made, more], FitSettings(estimator="generator", steps=1))
    for nothing in ([], [made, "release"], {"n": [1]}):
        with pytest.raises(PrivotError, match="privatize records on the device first"):
            fit(nothing)


def test_reports_that_are_given_twice_are_refused(tmp_path):
    """The same release, its file again, and two that share one report; other reports are taken."""
    randomizer = Randomizer.calibrate(Schema.from_toml(NUMBER.format(1)), 1.0)
    made, more = (randomizer.privatize({"n": [0.5] * 30}) for _ in range(2))
    made.save(tmp_path / "made.parquet")
    one = Release(
        ReportTable.of(pa.concat_tables([more.table, made.table.slice(7, 1)])), randomizer
    )
    for twice, shared in (
        ([made, made], 30),
        ([more, made, Release.load(tmp_path / "made.parquet")], 30),
        ([made, one], 1),
    ):
        with pytest.raises(PrivotError, match=f"share {shared} reports, by their ids") as refused:
            fit(twice)
        assert "\n" not in str(refused.value)
    with pytest.raises(PrivotError, match="releases 1 and 2 .* share 30 reports"):
        fit_waves([made, made])
    assert len(Releases.of([made, more]).parts) == 2
