"""Windows: the laws in every shape, the split of ε, and missing values."""

import datetime as dt
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from laws.mechanism import MechanismLaws
from privot.audit import audit_randomizer
from privot.core.errors import PrivotError
from privot.mechanisms import Window
from privot.mechanisms.additive_noise import mark_missing
from privot.randomizer import Randomizer, Release
from privot.schema import Box, L1Ball, L2Ball, NumericColumn, Polyline, Schema, VectorColumn

EPSILON = 2.0


def all_reports(mechanism):
    """Every report that the mechanism makes, in unit coordinates."""
    axis = np.arange(-mechanism.radius, mechanism.steps + mechanism.radius + 1)
    grid = np.stack(np.meshgrid(*[axis] * mechanism.dimension, indexing="ij"), axis=-1)
    points = grid.reshape(-1, mechanism.dimension) * (2 / mechanism.steps) - 1.0
    if mechanism.nullable:
        points = np.hstack([points, np.zeros((len(points), 1))])
        points = np.vstack([points, [0.0] * mechanism.dimension + [1.0]])
    return points[~mechanism.impossible(points)]


class WindowLaws(MechanismLaws):
    scalars = 200  # any number of records takes the same code
    invalid_fields = (
        ("epsilon", 0.0),
        ("epsilon", float("nan")),
        ("epsilon", 100.0),
        ("dimension", 4),
        ("steps", 12),
        ("radius", -1),
        ("shape", "square"),
        ("area", "plane"),
    )

    def index(self, reports):
        numbers, outcomes = map(self.numbered, (reports, self.outcomes))
        place = np.full(max(numbers.max(), outcomes.max()) + 1, len(outcomes))
        place[outcomes] = np.arange(len(outcomes))
        return place[numbers]

    def numbered(self, reports):
        """One integer a report: its cell's coordinates as digits, and the flag of a missing place."""
        made, flag = self.mechanism, 0
        if made.nullable:
            reports, flag = reports[:, :-1], reports[:, -1].astype(np.int64)
        cells = (reports + 1) * (made.steps / 2)
        digits = np.rint(cells).astype(np.int64) + made.radius
        base = made.steps + 2 * made.radius + 1
        assert ((cells == np.rint(cells)) & (digits >= 0) & (digits < base)).all()
        return digits @ base ** np.arange(made.dimension) + flag * base**made.dimension

    def test_variance_is_that_of_the_unbiased_estimate(self):
        probabilities = np.exp(self.mechanism.log_likelihood(self.outcomes[:, None], self.records))
        present = np.ones(len(self.records), bool)
        if self.mechanism.nullable:
            present = self.records[:, -1] == 0
        values, x = self.outcomes[:, 0], self.records[present, 0]
        rounded = np.rint(x * self.mechanism.steps / 2) / (self.mechanism.steps / 2)
        means = values @ probabilities[:, present]
        slope, offset = np.polyfit(rounded, means, 1)
        assert means == pytest.approx(slope * rounded + offset, abs=1e-12)
        variances = (values**2 @ probabilities[:, present] - means**2) / slope**2
        assert variances.max() == pytest.approx(self.mechanism.variance, rel=1e-9)

    @pytest.mark.parametrize("value", [1.6, -np.inf, np.nan])
    def test_values_outside_are_refused(self, value):
        records = np.stack([self.record, self.record])
        records[1, 0] = value
        with pytest.raises(PrivotError, match="project it"):
            self.mechanism.privatize(records)


def twins(mechanism):
    return tuple(replace(mechanism, epsilon=mechanism.epsilon * e) for e in (0.99, 1.01))


class TestInterval(WindowLaws):
    mechanism = Window(EPSILON, 1, 256, 34)
    wrong = twins(mechanism)
    domain = Box((0.0,), (5.0,))
    record = np.array([0.3])
    worst_pairs = ((np.array([-1.0]), np.array([1.0])), (np.array([0.9]), np.array([-0.2])))
    records = np.linspace(-1.0, 1.0, 401)[:, None]
    outcomes = all_reports(mechanism)


class TestDisk(WindowLaws):
    """In a square."""

    mechanism = Window(EPSILON, 2, 16, 5)
    wrong = twins(mechanism)
    domain = Box((0.0, 0.0), (5.0, 1.0))
    record = np.array([0.3, -0.8])
    worst_pairs = (
        (np.array([-1.0, -1.0]), np.array([1.0, 1.0])),
        (np.array([0.9, 0.0]), np.array([-0.2, 0.1])),
    )
    corners = ((-1, -1), (1, 1), (0, 0), (1, -1))
    records = np.vstack([corners, np.random.default_rng(0).uniform(-1, 1, (400, 2))])
    outcomes = all_reports(mechanism)


class TestDiskInADisk(TestDisk):
    mechanism = Window(EPSILON, 2, 16, 5, area="l2_ball")
    wrong = twins(mechanism)
    domain = L2Ball(2, 3.0)
    record = np.array([0.3, -0.8])
    worst_pairs = ((np.array([-1.0, 0.0]), np.array([0.6, 0.8])),)
    corners = ((-1, 0), (1, 0), (0, 0))
    inside = L2Ball(2, 1.0).project(np.random.default_rng(0).normal(size=(400, 2)))
    records = np.vstack([corners, inside])
    outcomes = all_reports(mechanism)


class TestBallInAnOctant(WindowLaws):
    mechanism = Window(EPSILON, 3, 8, 2, area="l1_ball", non_negative=True)
    wrong = twins(mechanism)
    domain = L1Ball(3, 3.0, non_negative=True)
    record = np.array([0.3, 0.5, 0.0])
    worst_pairs = ((np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])),)
    inside = L1Ball(3, 1.0, True).project(np.random.default_rng(0).uniform(0, 0.6, (400, 3)))
    records = np.vstack([np.eye(3), inside])
    outcomes = all_reports(mechanism)


class TestProduct(TestDisk):
    mechanism = Window(EPSILON, 2, 8, 2, shape="product")
    wrong = twins(mechanism)
    outcomes = all_reports(mechanism)


class TestNullable(TestDisk):
    mechanism = Window(EPSILON, 2, 16, 5, nullable=True)
    wrong = twins(mechanism)
    record = np.array([0.3, -0.8, 0.0])
    worst_pairs = (
        (np.array([-1.0, -1.0, 0.0]), np.array([1.0, 1.0, 0.0])),
        (np.array([0.9, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])),
        (np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.0, 0.0])),
    )
    records = np.vstack([np.hstack([TestDisk.records, np.zeros((404, 1))]), [[0, 0, 1]] * 100])
    outcomes = all_reports(mechanism)

    def test_the_missing_have_the_law_that_is_claimed(self):
        reports = self.mechanism.privatize(np.tile([0.0, 0.0, 1.0], (400_000, 1)))
        keep = np.exp(self.mechanism.log_likelihood(self.outcomes[-1], np.array([0.0, 0.0, 1.0])))
        share = (reports[:, -1] == 1).mean()
        # 5.5 σ: false-alarm rate 4e-8; two means, each of σ < 0.9/√150,000 = 0.0023: below 1e-15.
        assert abs(share - keep) < 5.5 * np.sqrt(keep * (1 - keep) / len(reports))
        assert np.abs(reports[reports[:, -1] == 0, :2].mean(axis=0)).max() < 0.02

    def test_flags_are_flags(self):
        with pytest.raises(PrivotError, match="flag that is neither 0 nor 1"):
            self.mechanism.privatize(np.array([[0.0, 0.0, 0.5]]))
        strange = np.array([[0.0, 0.0, 0.5], [0.5, 0.0, 1.0], [0.0, 0.0, np.nan], [0.5, 0, 0]])
        assert self.mechanism.impossible(strange).tolist() == [True, True, True, False]


def test_coordinates_of_a_product_add_up_to_epsilon():
    for epsilon in np.random.default_rng(0).uniform(0.1, 20, 200):
        mechanism = Window(float(epsilon), 3, 8, 2, shape="product")
        share = Fraction(mechanism._mixture.epsilon)
        assert 3 * share <= Fraction(float(epsilon)) < 3 * share * (1 + Fraction(1, 2**50))


def test_it_is_for_places_of_few_coordinates():
    def vector(d, **limits):
        return VectorColumn(kind="vector", columns=tuple("abcd"[:d]), **limits)

    assert not Window.unfit(NumericColumn(kind="numeric", bounds=(0, 1)))
    assert not Window.unfit(vector(3, radius=2.0))
    assert "without spikes" in Window.unfit(
        NumericColumn(kind="numeric", bounds=(0, 1), spikes=(0,))
    )
    assert "at most 3 coordinates" in Window.unfit(vector(4, radius=2.0))
    assert not Window.unfit(vector(4, support=((0, 0, 0, 0), (1, 1, 1, 1))))
    assert not Window.unfit(vector(2, radius=3.0, nullable=True))
    disk = Window.for_domain(L2Ball(2, 2.0), 1.0)
    assert disk.fits(vector(2, radius=3.0))
    assert not disk.fits(vector(2, bounds=((0, 1), (0, 1))))
    assert not disk.fits(vector(2, radius=3.0, non_negative=True))


def test_what_the_form_says_is_the_likelihood():
    """A window's cells, one more of any flag, and the rest."""
    for mechanism in (TestDisk.mechanism, TestProduct.mechanism, TestNullable.mechanism):
        form = mechanism.point_form(None)
        record = np.array([[0.25, -0.5, 0.0]])[:, : 2 + mechanism.nullable]
        reports = all_reports(mechanism)
        reports = reports[: len(reports) - mechanism.nullable]
        gap = form.cells(reports) - form.cells(record)
        blocks = gap.reshape(len(gap), -1, form.offsets.shape[1])
        near = [[list(k) in form.offsets.tolist() for k in row] for row in blocks.tolist()]
        law = np.where(near, form.inside, form.outside).prod(axis=1)
        np.testing.assert_allclose(np.exp(mechanism.log_likelihood(reports, record)), law)
        assert form.cells(reports).min() == -form.radius
        assert form.cells(reports).max() == form.steps + form.radius
        assert form.flagged == mechanism.nullable


def test_missing_rows_are_marked():
    domain = Box((0.0, 0.0), (1.0, 1.0))
    mechanism = Window.for_domain(domain, 3.0, nullable=True)
    records = mark_missing(np.array([[0.5, np.nan], [0.5, -1.0]]), domain)
    assert mechanism.privatize(records).shape == (2, 3)


CORNER = Polyline(((0.0, 0.0), (3.0, 0.0), (3.0, 1.0)))


@pytest.mark.parametrize("nullable", [False, True])
def test_a_place_on_a_curve_is_one_number(nullable):
    """Three quarters of the way are at the corner, wherever the place was before it was projected."""
    mechanism = Window.for_domain(CORNER, 30.0, nullable=nullable)
    assert mechanism.dimension == 1
    points = CORNER.unit.project(np.array([[9.0, -9.0], [-9.0, 0.0]]))
    if nullable:
        points = np.vstack([points, [[np.nan, 0.0]]])
    records = mechanism.records(points, CORNER)
    assert records[:2, 0] == pytest.approx([0.5, -1.0])
    reports = mechanism.privatize(np.repeat(records, 1000, axis=0))
    assert mechanism.report_domain(CORNER).upper[0] == 4.0
    assert np.median(reports[:1000, 0]) == pytest.approx(0.5, abs=0.02)
    if nullable:
        assert records[2].tolist() == [0.0, 1.0]
        assert (reports[2000:] == [0.0, 1.0]).all(axis=1).mean() > 0.99


SCHEMA = Schema.from_toml("""
[columns.age]
kind = "numeric"
bounds = [0, 100]
nullable = true
[columns.road]
kind = "vector"
columns = ["x", "y"]
support = [[0, 0], [3, 0], [3, 1]]
nullable = true
[columns.day]
kind = "datetime"
bounds = ["2000-01-01", "2020-01-01"]
[columns.spot]
kind = "vector"
columns = ["a", "b", "c"]
radius = 2.0
non_negative = true
""")
TABLE = {
    "age": [5.0, None, 120.0],
    "x": [1.0, None, 7.0],
    "y": [0.3, 0.2, 9.0],
    "day": [dt.date(2001, 2, 3)] * 3,
    "a": [0.0, 1.0, 2.0],
    "b": [0.0, 1.0, -2.0],
    "c": [0.0, 1.0, 0.0],
}


def test_releases_hold_windows_of_all_kinds_of_columns(tmp_path, no_streams):
    """Written, read again, checked for impossible reports, and audited (false-alarm rate 1e-6)."""
    randomizer = Randomizer.calibrate(SCHEMA, 40.0, report="split", mechanism="window")
    release = randomizer.privatize(pa.table(TABLE), keep_order=True)
    release.save(tmp_path / "r.parquet")
    table = Release.load(tmp_path / "r.parquet").table
    names = ["age", "age.missing", "road", "road.missing", "day", "a", "b", "c", "report_id"]
    assert table.column_names == names
    assert len(table) == 3
    result = audit_randomizer(randomizer, num_draws=4_000, confidence=1 - 1e-6)
    assert not result.refuted


def test_names_of_curves_are_no_other_column_s():
    schema = Schema.from_toml("""
    columns.road = {kind = "vector", columns = ["x", "y"], support = [[0, 0], [3, 0]]}
    columns.spot = {kind = "vector", columns = ["a", "road"], radius = 1.0}
    """)
    with pytest.raises(PrivotError, match=r"\['road'\] are reserved names"):
        Randomizer.calibrate(schema, 4.0, mechanism="window")
    assert Randomizer.calibrate(schema, 4.0, mechanism="laplace").guarantee.epsilon <= 4.0


def test_bins_and_the_missing_value_have_the_likelihood_of_reports():
    column = SCHEMA.columns["age"]
    mechanism = Window.for_column(column, 2.0)
    form = mechanism.form(column)
    np.testing.assert_allclose(form.likelihood.sum(axis=0), 1.0, rtol=1e-12)
    reports = all_reports(mechanism)
    np.testing.assert_array_equal(form.rows(reports), np.arange(len(reports)))
    missing = np.exp(mechanism.log_likelihood(reports, np.array([0.0, 1.0])))
    np.testing.assert_allclose(form.likelihood[:, -1], missing)
    assert form.ratio == pytest.approx(np.exp(2.0), rel=1e-9)


@pytest.mark.parametrize("name", ["day", "spot"])
def test_words_say_how_near_the_truth_the_report_itself_is(name):
    """A campaign's page shows them beside the report; an unbiased estimate is much farther away."""
    column = SCHEMA.point_column(name)
    mechanism = Window.for_column(column, 6.0)
    told, reports = mechanism.expected(column), all_reports(mechanism)
    record = np.full(mechanism.dimension, 0.5 if mechanism.non_negative else 0.0)
    near = (
        np.linalg.norm((reports - record) / 2, axis=1) <= mechanism.radius / mechanism.steps + 1e-9
    )
    mass = np.exp(mechanism.log_likelihood(reports, record))[near].sum()
    assert told["keep"] == pytest.approx(mass, rel=1e-9)
    said = re.match(
        r"within ([\d.]+)% of the range .* with probability ([\d.]+)%; as", told["in_words"]
    )
    assert 0 <= mechanism.radius / mechanism.steps - float(said[1]) / 100 < 0.01
    assert 0 <= float(said[2]) / 100 - mass < 0.001
