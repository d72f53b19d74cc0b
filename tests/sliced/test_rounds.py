import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import privot.sliced.adaptation.rounds
from laws.model import LearnedLaws
from privot.errors import PrivotError
from privot.sliced import (
    AdaptationSettings,
    AdaptedClassifier,
    Ledger,
    SlicePlan,
    SlicingMechanism,
    adapt,
)
from privot.sliced.adaptation.rounds import Course, joint_loss
from privot.sliced.releases.plan import Counted
from privot.sliced.settings import ReleaseSettings

SETTINGS = AdaptationSettings(
    alignment="joint",
    epsilon=8.0, unit="patient", delta=1e-3, steps=150, batch_size=50, num_projections=8, feature_dim=8,
    hidden=(16,), source_batch=64, weight=0.5,
    learning_rate=1e-2, averaging=0.9,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _little_noise(monkeypatch):
    def plan(self, epsilon, delta, count, records):
        accounting = self.accounting(count, records, 2.0**-15)
        return SlicePlan(accounting, 0.05, self.steps, delta, 2.0**-20)

    monkeypatch.setattr(ReleaseSettings, "plan", plan)


def mechanism_of(course, private):
    """The target's mechanism, as joint training makes it."""
    records = torch.from_numpy(np.ascontiguousarray(private, np.float32))
    plan = SETTINGS.plan(8.0, 1e-3, len(records), course.record_map())
    return SlicingMechanism(records, None, course.record_map(), Ledger(plan))


def domains(shift=1.0):
    """Two classes apart in the first coordinate; the target is moved in the second."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    source = rng.normal(0, 0.3, (400, 3)) + np.stack([2.0 * y, 0 * y, 0 * y], axis=1)
    target = source[rng.permutation(400)] + np.array([0.0, shift, 0.0])
    return source, y, target


def test_the_step_depends_on_the_release_alone(monkeypatch):
    """Change the private target while the released matrix is held fixed: the step stays the same."""
    source, y, target = domains()
    gradients = []
    fixed = None
    for private in (target, target[::-1] * 5 - 3):
        course = Course.of(source, y, SETTINGS)
        mechanism = mechanism_of(course, private)
        slices = mechanism.release()
        fixed = fixed or slices
        monkeypatch.setattr(mechanism, "release", lambda held=fixed: held)
        joint_loss(course, mechanism, torch.Generator().manual_seed(0)).backward()
        gradients.append([p.grad.clone() for p in course.classifier.parameters()])
    assert not fixed.values.requires_grad
    assert all(torch.equal(a, b) for a, b in zip(*gradients))
    assert any(g.abs().sum() > 0 for g in gradients[0])


def test_a_joint_step_weighs_the_sliced_loss_and_rounds_refuse_a_weight():
    source, y, target = domains()
    losses, held = [], None
    for weight in (0.0, 0.5, 1.0):
        course = Course.of(source, y, replace(SETTINGS, weight=weight))
        mechanism = mechanism_of(course, target)
        held = held or mechanism.release()
        mechanism.release = lambda held=held: held
        losses.append(joint_loss(course, mechanism, torch.Generator().manual_seed(0)).item())
    assert losses[1] - losses[0] == pytest.approx((losses[2] - losses[0]) / 2, rel=1e-3)
    assert abs(losses[1] - losses[0]) > 1e-3
    with pytest.raises(PrivotError, match="weight 0.5 is of alignment 'joint'"):
        adapt(source, y, target, replace(ROUNDS, weight=0.5))


def test_other_releases_make_other_steps():
    """The test above has power: with releases of their own, the steps differ."""
    source, y, target = domains()
    gradients = []
    for private in (target, target + 3):
        course = Course.of(source, y, SETTINGS)
        mechanism = mechanism_of(course, private)
        joint_loss(course, mechanism, torch.Generator().manual_seed(0)).backward()
        gradients.append(next(course.classifier.g.parameters()).grad.clone())
    assert not torch.allclose(*gradients)


def test_a_spent_budget_leaves_the_classifier_as_it_is():
    source, y, target = domains()
    course = Course.of(source, y, SETTINGS)
    mechanism = mechanism_of(course, target)
    mechanism.ledger.spend(mechanism.ledger.plan.steps)
    joint_loss(course, mechanism, torch.Generator()).backward()
    assert all((p.grad == 0).all() for p in course.classifier.parameters())


class TestAdaptedClassifier(LearnedLaws):
    @pytest.fixture
    def model(self):
        return adapt(*domains(), replace(SETTINGS, steps=2))


def test_adapts_saves_and_loads(tmp_path):
    source, y, target = domains()
    adapted = adapt(source, y, target, SETTINGS)
    assert adapted.releases == 150
    # Not the target: joint training swaps its classes one time in ten here, rounds (below) do not.
    assert (adapted.predict(source) == y).mean() > 0.95
    adapted.save(tmp_path / "classifier")
    again = AdaptedClassifier.load(tmp_path / "classifier")
    assert (again.predict(target) == adapted.predict(target)).all()
    assert again.guarantee == adapted.guarantee
    with pytest.raises(PrivotError, match="cannot be read"):
        AdaptedClassifier.load(tmp_path / "nothing")


ROUNDS = replace(
    SETTINGS,
    alignment="adapter",
    weight=1.0,
    rounds=2,
    training_steps=150,
    adapter_steps=100,
    channels=(),
)


def moved():
    """Two classes apart along an axis; the target is shifted along it by half their distance."""
    rng = np.random.default_rng(1)
    y = np.arange(600) % 2
    source = rng.normal(0, 0.15, (600, 2)) + np.stack([0.3 + y, 0.6 - 0.2 * y], axis=1)
    shift = np.array([0.55, 0.0])
    return source, y, source[rng.permutation(600)] + shift


def test_rounds_move_the_source_to_the_target():
    source, y, target = moved()
    right = target[:, 0] > 0.3 + 0.5 + 0.55
    adapted = adapt(source, y, target, ROUNDS)
    assert adapted.releases == 150
    assert (adapted.predict(target) == right).mean() > 0.93
    alone = adapt(source, y, target, replace(ROUNDS, adapter_steps=1))
    assert (alone.predict(target) == right).mean() < 0.9


def test_rounds_depend_on_the_releases_alone(monkeypatch):
    """With the released slices held fixed, another target makes the same classifier, bit for bit."""
    source, y, target = moved()
    kept = []
    release = SlicingMechanism.release

    def recorded(self):
        kept.append(release(self))
        return kept[-1]

    monkeypatch.setattr(SlicingMechanism, "release", recorded)
    first = adapt(source, y, target, ROUNDS)
    replayed = iter(list(kept))

    def replay(self):
        self.ledger.spend()
        return next(replayed)

    monkeypatch.setattr(SlicingMechanism, "release", replay)
    second = adapt(source, y, target[::-1] * 3 - 1, ROUNDS)
    weights = first.classifier.state_dict(), second.classifier.state_dict()
    assert all(torch.equal(weights[0][k], weights[1][k]) for k in weights[0])


def test_a_stopped_run_goes_on_with_its_ledger(tmp_path, monkeypatch):
    source, y, target = moved()
    path = tmp_path / "state"
    fit = privot.sliced.adaptation.rounds.Course.align

    def stop(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(privot.sliced.adaptation.rounds.Course, "align", stop)
    with pytest.raises(KeyboardInterrupt):
        adapt(source, y, target, ROUNDS, checkpoint=path)
    monkeypatch.setattr(privot.sliced.adaptation.rounds.Course, "align", fit)
    with pytest.raises(PrivotError, match="75 releases already"):
        adapt(source, y, target, ROUNDS, checkpoint=path)
    other = replace(ROUNDS, jitter=0.5)
    with pytest.raises(PrivotError, match="was made with settings.jitter"):
        adapt(source, y, target, other, checkpoint=path, resume=True)
    ledger = path.with_name("state.ledger")
    counted = ledger.read_text()
    ledger.unlink()
    with pytest.raises(PrivotError, match="state.ledger is gone"):
        adapt(source, y, target, ROUNDS, checkpoint=path, resume=True)
    ledger.write_text(counted)
    adapted = adapt(source, y, target, ROUNDS, checkpoint=path, resume=True)
    assert adapted.releases == 150


def test_a_checkpoint_never_lacks_its_ledger(tmp_path, monkeypatch):
    """Not even before the first release: a kill then leaves what can be resumed."""
    source, y, target = moved()
    keep, spent = Counted.keep, []

    def keeping(counted, checkpoint, ledger):
        entries = json.loads(checkpoint.path.with_name("state.ledger").read_text())["entries"]
        spent.append(entries[-1]["spent"])
        keep(counted, checkpoint, ledger)

    monkeypatch.setattr(Counted, "keep", keeping)
    adapt(source, y, target, ROUNDS, checkpoint=tmp_path / "state")
    assert spent == [0, 75, 75, 75, 150, 150, 150]


def test_bad_input_is_refused():
    source, y, target = domains()
    with pytest.raises(PrivotError, match="do not fit"):
        adapt(source, y, target[:, :2], SETTINGS)
    with pytest.raises(PrivotError, match="do not fit"):
        adapt(source, y[1:], target, SETTINGS)
    with pytest.raises(PrivotError, match="labels hold what is no class"):
        adapt(source, y + 0.7, target, SETTINGS)
    words = np.array(["cat", "dog"])[y]
    with pytest.raises(PrivotError, match="labels are of <U3: give an array of numbers"):
        adapt(source, words, target, SETTINGS)
    with pytest.raises(PrivotError, match="source_x has shape"):
        adapt(words[:, None], y, target, SETTINGS)
    with pytest.raises(PrivotError, match="target_x has shape"):
        adapt(source, y, target.astype(str), SETTINGS)
    with pytest.raises(PrivotError, match="do not fit records of shape"):
        adapt(source, y, target, replace(SETTINGS, channels=(4,)))
