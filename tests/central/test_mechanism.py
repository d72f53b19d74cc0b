import numpy as np
import pytest
import torch
from scipy import stats

from central.declared_images import image_records
from privot.central import SliceSettings
from privot.central.slices import SlicePlan, SlicingMechanism, accounted_grid
from privot.core.errors import PrivotError
from privot.privacy.ledger import BudgetExhausted, Ledger

IMAGES = image_records((4, 4), unit="person", num_labels=2, low_pass=2)


def data(count=300, seed=0):
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    images = torch.rand(count, 4, 4, generator=rng) * (0.4 + 0.4 * labels[:, None, None])
    return images, labels


def uncalibrated(settings, count, records, stddev=0.25):
    """A plan whose noise nobody calibrated: that takes seconds, and is tested elsewhere."""
    grid = 2.0**-18
    steps = 1 if settings.release == "once" else settings.steps
    accounting = settings.accounting(count, records, accounted_grid(grid, 1000))
    return SlicePlan(accounting, stddev, steps, 1e-3, grid)


def mechanism(records=IMAGES, values=None, labels=None, **settings):
    if values is None:
        values, labels = data()
    fields = {"steps": 40, "batch_size": 20}
    plan = uncalibrated(SliceSettings(**fields | settings), len(values), records)
    return SlicingMechanism(values, labels, records, Ledger(plan))


def fresh(private):
    """Directions of a release."""
    return private.release().directions


def test_every_release_is_counted_before_it_leaves():
    private = mechanism(steps=3)
    for spent in (1, 2, 3):
        private.release()
        assert private.ledger.spent == spent
    with pytest.raises(BudgetExhausted):
        private.release()


class Squares:
    """A map of finite records to features that are not: 3e38² is no float."""

    num_labels, width, non_negative, unit = 1, 6, True, "person"

    def __init__(self, early):
        self.early = early

    def prepare(self, values):
        return self._of(values) if self.early else values

    def features(self, prepared):
        return prepared if self.early else self._of(prepared.float())

    def _of(self, values):
        squares = values**2
        return squares / squares.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("early", [True, False])
def test_a_record_that_overflows_is_blank(early):
    """Neither numbers beyond all noise nor a refusal show that somebody has it."""
    values = torch.rand(30, 6)
    values[0] = 3e38
    assert bool(Squares(early).features(Squares(early).prepare(values[:1])).isnan().all())
    private = mechanism(Squares(early), values, batch_size=30, num_projections=4)
    largest = max(float(private.release().values.abs().max()) for _ in range(5))
    assert largest < 1 + 8 * private.ledger.plan.stddev
    values[1, 0] = torch.nan
    with pytest.raises(PrivotError, match="NaN or infinity"):
        mechanism(Squares(early), values)


def test_a_failed_release_stays_counted(monkeypatch):
    private = mechanism()

    def fail(*_):
        raise RuntimeError

    monkeypatch.setattr(private, "_project", fail)
    with pytest.raises(RuntimeError):
        private.release()
    assert private.ledger.spent == 1


@pytest.mark.parametrize("neighboring", ["replace_one", "zero_out"])
def test_shapes_are_public(neighboring):
    private = mechanism(neighboring=neighboring)
    shapes = {tuple(private.release().values.shape) for _ in range(20)}
    assert shapes == {(private.ledger.plan.rows, 16)}


def test_noise_is_what_was_accounted():
    """The residual of a release of known records is N(0, σ²): 10 % more or less would be noticed."""
    values, labels = torch.zeros(400, 4, 4), torch.zeros(400, dtype=torch.int64)
    private = mechanism(values=values, labels=labels, release="once", num_projections=50)
    slices = private.release()
    features = IMAGES.features(IMAGES.prepare(values[:1].double()))
    blank = torch.cat([features, torch.zeros_like(features)], dim=1)
    residual = (slices.values.double() - blank @ slices.directions.double()).numpy().ravel()
    stddev = private.ledger.plan.stddev
    assert stats.kstest(residual / stddev, "norm").pvalue > 1e-6
    for wrong in (0.9, 1.1):
        assert stats.kstest(residual / (wrong * stddev), "norm").pvalue < 1e-6


def test_releases_lie_on_the_grid():
    private = mechanism()
    values = private.release().values.double().numpy() / private.ledger.plan.grid
    # Single precision keeps 24 bits of a number of some 2^17 steps.
    assert np.abs(values - np.rint(values)).max() == 0


def test_records_are_clipped():
    long = image_records((4, 4), unit="person", low_pass=None, degree=1, scale=1.0)
    values = torch.ones(50, 4, 4)
    values[:20] /= 8
    private = mechanism(long, values, None, batch_size=10)
    directions = fresh(private).double()
    rows = private._project(np.arange(50), directions)
    clipped = torch.ones(1, 16).double() / 4
    assert torch.allclose(rows[30:], (clipped @ directions).expand(20, -1), atol=1e-9)


def test_rows_are_functions_of_their_own_record():
    private = mechanism()
    directions = fresh(private)
    batch = np.arange(20)
    before = private._project(batch, directions)
    private._coordinates[7] *= 3
    after = private._project(batch, directions)
    others = np.arange(20) != 7
    assert torch.equal(before[others], after[others])
    assert not torch.equal(before[7], after[7])


def test_blank_slots_are_zero_rows():
    private = mechanism(neighboring="zero_out")
    projected = private._project(np.array([3, -1, 5]), fresh(private))
    assert (projected[1] == 0).all()
    assert (projected[[0, 2]] != 0).any(dim=1).all()


@pytest.mark.parametrize("orthonormal", [False, True])
def test_directions_are_fresh_and_of_the_plan(orthonormal):
    private = mechanism(orthonormal=orthonormal, num_projections=8)
    first, second = fresh(private).double(), fresh(private).double()
    assert not torch.equal(first, second)
    gram = first.T @ first
    assert bool((gram - torch.eye(8)).abs().max() < 1e-5) == orthonormal
    other = mechanism(orthonormal=orthonormal, num_projections=8)
    assert not torch.equal(first, fresh(other).double())


def test_what_cannot_be_used_is_refused():
    values, labels = data()
    with pytest.raises(PrivotError, match="labels are missing"):
        mechanism(values=values)
    with pytest.raises(
        PrivotError, match="no class of num_labels 2: give whole numbers from 0 to 1"
    ):
        mechanism(values=values, labels=labels + 1)
    with pytest.raises(PrivotError, match="NaN"):
        mechanism(values=values / 0 * 0, labels=labels)
    with pytest.raises(PrivotError, match="do not fit a plan"):
        plan = uncalibrated(SliceSettings(steps=3, batch_size=9), 200, IMAGES)
        SlicingMechanism(values, labels, IMAGES, Ledger(plan))
    with pytest.raises(PrivotError, match="batch"):
        mechanism(batch_size=301)
