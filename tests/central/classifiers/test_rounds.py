"""Adaptation by noisy sums: it helps, depends on releases alone, and refuses what is no use."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import privot.central.classifiers.adaptation
from laws.model import LearnedLaws
from privot.central import adapt
from privot.central.classifiers.adaptation import Adaptation, shares
from privot.central.classifiers.adapted import AdaptationSettings, AdaptedClassifier
from privot.central.sums import Rounds, SumMechanism, SumPlan, sensitivity
from privot.core.errors import PrivotError
from privot.models import Checkpoint
from privot.privacy.ledger import Ledger
from privot.training.loop import train

SETTINGS = AdaptationSettings(
    epsilon=8.0, unit="patient", delta=1e-3, training_steps=80, feature_dim=8, hidden=(16,),
    source_batch=64, learning_rate=1e-2, averaging=0.9, channels=(),
)  # fmt: skip


SHIFT = 0.42


def moved(count=600):
    """Two classes apart along an axis; the target is shifted along it, by .42 of their distance."""
    rng = np.random.default_rng(1)
    y = np.arange(count) % 2
    source = abs(rng.normal(0, 0.15, (count, 2)) + np.stack([0.3 + y, 0.6 - 0.2 * y], axis=1))
    return source, y, source[rng.permutation(count)] + np.array([SHIFT, 0.0])


def share_right(adapted, target):
    return (adapted.predict(target) == (target[:, 0] > 0.3 + 0.5 + SHIFT)).mean()


def test_noise_that_cannot_be_drawn_is_refused_by_the_plan():
    source, y, _ = moved()
    for epsilon, count in ((0.01, 10**7), (0.001, 10**7)):
        adaptation = Adaptation(source, y, replace(SETTINGS, epsilon=epsilon, delta=1e-5))
        if epsilon == 0.01:
            adaptation.plan(count)
        else:
            with pytest.raises(PrivotError, match="larger epsilon"):
                adaptation.plan(count)


def test_a_shifted_target_is_learned():
    source, y, target = moved(3000)
    settings = replace(SETTINGS, seed=1)
    adapted = adapt(source, y, target, settings)
    assert adapted.releases == 4
    assert str(adapted.guarantee) == "ε = 8, δ = 0.001, replace_one, per patient"
    course = Adaptation(source, y, settings)
    train(course.classifier, course.classify, settings.training(160, 0))
    alone = replace(adapted, classifier=course.classifier)
    assert share_right(adapted, target) > max(0.96, share_right(alone, target) + 0.02)


def test_rounds_depend_on_the_releases_alone(monkeypatch):
    """With the released sums held fixed, another target makes the same classifier, bit for bit."""
    source, y, target = moved()
    kept, release = [], SumMechanism.release

    def recorded(self, query):
        kept.append(release(self, query))
        return kept[-1]

    monkeypatch.setattr(SumMechanism, "release", recorded)
    first = adapt(source, y, target, SETTINGS)
    other = adapt(source, y, target[::-1] * 3 - 1, SETTINGS)
    replayed = iter(kept[:4])

    def replay(self, query):
        self.ledger.spend()
        return next(replayed)

    monkeypatch.setattr(SumMechanism, "release", replay)
    second = adapt(source, y, target[::-1] * 3 - 1, SETTINGS)
    weights = [one.classifier.state_dict() for one in (first, second, other)]
    assert all(torch.equal(weights[0][k], weights[1][k]) for k in weights[0])
    assert not all(torch.equal(weights[0][k], weights[2][k]) for k in weights[0])


def test_what_noise_would_drown_is_refused_and_costs_nothing(tmp_path):
    source, y, target = moved()
    little = replace(SETTINGS, epsilon=0.05)
    with pytest.raises(PrivotError, match=r"epsilon 0.05 for 600 target .* give [\d,]+") as told:
        adapt(source, y, target, little, checkpoint=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    enough = int(str(told.value).split("give ")[1].split(" records")[0].replace(",", ""))
    course = Adaptation(source, y, little)
    assert course.plan(enough).records == enough
    with pytest.raises(PrivotError, match="distance between"):
        course.plan(enough * 9 // 10)
    better = float(str(told.value).split("or epsilon ")[1])
    assert Adaptation(source, y, replace(little, epsilon=better)).plan(600).uses == 4
    with pytest.raises(PrivotError, match="distance between"):
        Adaptation(source, y, replace(little, epsilon=0.9 * better)).plan(600)
    assert Adaptation(source, y, replace(little, most_noise=1e6)).plan(600).uses == 4


def test_the_whole_budget_is_spent_on_all_rounds():
    for rounds in (1, 2, 5):
        assert len(shares(rounds)) == 2 * rounds
        plan = SumPlan.calibrate(3.0, 1e-5, shares(rounds), records=100, unit="person")
        assert plan.guarantee.epsilon == pytest.approx(3.0)


def test_no_record_moves_a_round_by_more_than_its_sensitivity():
    """Extreme records, of every class and none: sums of two data sets that differ in one."""
    source, y, _ = moved(60)
    course = Adaptation(source, y, SETTINGS)
    rng = np.random.default_rng(0)
    records = torch.tensor(rng.choice([-1e3, -1, 0, 1, 1e3], (80, 2))).float()
    most = []
    sums, moments = course.sums(), course.moments()
    for query in (sums, course.products(sums, moments, moments)):
        slots, vectors = query.answer((records.numpy(),))
        bags = np.zeros((80, query.slots, query.width, query.width))
        if query.moment == 1:
            bags = np.zeros((80, query.slots, 1, query.width))
            bags[np.arange(80), slots, 0] = vectors
        else:
            times = np.where(np.eye(query.width, dtype=bool), 29, 41 / np.sqrt(2))
            bags[np.arange(80), slots] = times * vectors[:, :, None] * vectors[:, None]
        flat = bags.reshape(80, -1)
        gaps = np.linalg.norm(flat[:, None] - flat[None], axis=2)
        most.append(gaps.max() / sensitivity(query))
    assert 0.8 < most[0] <= 1
    assert 0.8 < most[1] <= 1


class TestAdaptedClassifier(LearnedLaws):
    @pytest.fixture
    def model(self):
        return adapt(*moved(), replace(SETTINGS, training_steps=4))


def test_saves_and_loads(tmp_path):
    source, y, target = moved()
    adapted = adapt(source, y, target, replace(SETTINGS, training_steps=20))
    adapted.save(tmp_path / "classifier")
    again = AdaptedClassifier.load(tmp_path / "classifier")
    assert (again.predict(target) == adapted.predict(target)).all()
    assert again.guarantee == adapted.guarantee
    with pytest.raises(PrivotError, match="cannot be read"):
        AdaptedClassifier.load(tmp_path / "nothing")


def test_a_stopped_run_goes_on_with_its_ledger(tmp_path, monkeypatch):
    source, y, target = moved()
    quick, path = replace(SETTINGS, training_steps=20), tmp_path / "state"
    move = privot.central.classifiers.adaptation.transported

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(privot.central.classifiers.adaptation, "transported", stop)
    with pytest.raises(KeyboardInterrupt):
        adapt(source, y, target, quick, checkpoint=path)
    monkeypatch.setattr(privot.central.classifiers.adaptation, "transported", move)
    with pytest.raises(PrivotError, match="2 releases already"):
        adapt(source, y, target, quick, checkpoint=path)
    with pytest.raises(PrivotError, match="was made with settings.jitter"):
        adapt(source, y, target, replace(quick, jitter=0.5), checkpoint=path, resume=True)
    ledger = path.with_name("state.ledger")
    counted = ledger.read_text()
    ledger.unlink()
    with pytest.raises(PrivotError, match="state.ledger is gone"):
        adapt(source, y, target, quick, checkpoint=path, resume=True)
    ledger.write_text(counted)
    for others in ((source * 1.001, y, target), (source, 1 - y, target)):
        with pytest.raises(PrivotError, match="was made with source '[0-9a-f]+', this run has"):
            adapt(*others, quick, checkpoint=path, resume=True)
    held = path.read_bytes()
    with pytest.raises(PrivotError, match="counts a run on other records than these"):
        adapt(source, y, target * 1.001, quick, checkpoint=path, resume=True)
    assert ledger.read_text() == counted
    assert path.read_bytes() == held
    adapted = adapt(source, y, target[::-1], quick, checkpoint=path, resume=True)
    assert adapted.releases == 4
    with pytest.raises(PrivotError, match="counts a run on other records than these"):
        adapt(source, y, target * 1.001, quick, checkpoint=path, resume=True)


def test_classes_that_the_target_lacks_stay_as_they_are():
    source, y, _ = moved()
    settings = replace(SETTINGS, epsilon=1e5)
    course = Adaptation(source, y, settings)
    train(course.classifier, course.classify, settings.training(80, 0))
    target = torch.from_numpy(source[y == 0] * 0.5).float()
    ledger = Ledger(SumPlan.calibrate(1e5, 1e-3, shares(2), len(target), "patient"))
    mechanism = SumMechanism((target.numpy(),), ledger)
    before = course.moments()
    after = course.estimated(Rounds(mechanism, Checkpoint(None, {}, False)), before)
    assert after.means[1] == pytest.approx(before.means[1], abs=1e-6)
    assert after.covariances[1] == pytest.approx(before.covariances[1], abs=1e-6)
    assert after.means[0] == pytest.approx(before.means[0] / 2, abs=0.01)
    assert after.covariances[0] == pytest.approx(before.covariances[0] / 4, abs=0.01)


def test_bad_input_is_refused():
    source, y, target = moved()
    with pytest.raises(PrivotError, match="do not fit"):
        adapt(source, y, target[:, :1], SETTINGS)
    with pytest.raises(PrivotError, match="do not fit"):
        adapt(source, y[1:], target, SETTINGS)
    with pytest.raises(PrivotError, match="labels hold values that are no class"):
        adapt(source, y + 0.7, target, SETTINGS)
    words = np.array(["cat", "dog"])[y]
    with pytest.raises(PrivotError, match="labels are of <U3: give an array of numbers"):
        adapt(source, words, target, SETTINGS)
    with pytest.raises(PrivotError, match="source_x has shape"):
        adapt(words[:, None], y, target, SETTINGS)
    with pytest.raises(PrivotError, match="target_x has shape"):
        adapt(source, y, target.astype(str), SETTINGS)
    holed = np.where(np.arange(2) == 1, np.nan, source)
    with pytest.raises(PrivotError, match="source_x holds NaN"):
        adapt(holed, y, target, SETTINGS)
    with pytest.raises(PrivotError, match="values hold NaN"):
        adapt(source, y, holed, SETTINGS)
    with pytest.raises(PrivotError, match="records of 5,000 numbers: give up to 4,096"):
        Adaptation(np.zeros((2, 5000)), np.arange(2), SETTINGS)
    with pytest.raises(PrivotError, match="do not fit records of shape"):
        adapt(source, y, target, replace(SETTINGS, channels=(4,)))
