"""`--shortfall` takes the same work whatever the data is: counted in operations, not by the clock.

The attack: boosted trees stop early on what they can learn no more from, and a draw took 28 or 337 ms by
how many there were. Uniform, clustered and few records must cost the same, in every density.
"""

import numpy as np
import pytest

from privot.integral import BoostSettings, ClippedRatioSettings, PointSpace, fit, learners
from privot.integral.density import TiltedDensity
from privot.integral.learners import ConstantTilt, NetworkSettings
from privot.integral.references import CustomReference, StandardNormal, UniformBox

QUICK = NetworkSettings(hidden=(8,), steps=20, batch_size=64)
BOX, LINE = UniformBox([0] * 3, [1] * 3), UniformBox([0], [1])
OWN = CustomReference(3, BOX.sample, BOX.log_density)


def data_sets(dim):
    rng = np.random.default_rng(0)
    modes = rng.integers(0, 3, (800, dim)) / 2.5 + 0.1 + 0.02 * rng.standard_normal((800, dim))
    return [rng.random((800, dim)), modes.clip(0, 1), rng.random((30, dim))]


DENSITIES = [
    (ClippedRatioSettings(estimator="trees"), BOX),
    (ClippedRatioSettings(estimator="trees"), OWN),
    (ClippedRatioSettings(estimator="mlp", network=QUICK), BOX),
    (ClippedRatioSettings(estimator="spline", normalizer="none"), LINE),
    (ClippedRatioSettings(estimator="spline", normalizer="none"), StandardNormal(1)),
    (ClippedRatioSettings(estimator="spline"), LINE),
    (BoostSettings(rounds=2, classifier="trees"), BOX),
    (BoostSettings(rounds=2, network=QUICK), BOX),
]


class Counted(np.ndarray):
    """An array that counts how often it is looked at."""

    looks = 0

    def __getitem__(self, where):
        Counted.looks += 1
        return np.asarray(self)[where]


class Watch:
    """How many points a density's tilt is asked about, and how often trees look at their nodes."""

    def __init__(self, monkeypatch):
        self.points, self.looks = [], []
        ask = TiltedDensity.log_tilt
        walk = getattr(learners._sum_leaves, "py_func", learners._sum_leaves)

        def asked(density, x):
            self.points.append(len(x))
            return ask(density, x)

        def walked(features, *nodes):
            Counted.looks = 0
            total = walk(features, *(array.view(Counted) for array in nodes))
            self.looks.append(Counted.looks)
            return total

        monkeypatch.setattr(TiltedDensity, "log_tilt", asked)
        monkeypatch.setattr(learners, "_sum_leaves", walked)


@pytest.mark.parametrize(("settings", "reference"), DENSITIES)
def test_a_draw_is_the_same_work_for_any_records(settings, reference, monkeypatch):
    """Arrays of the same sizes, asked about as many points, and walked in as many steps."""
    sizes, points, looks = [], [], []
    for records in data_sets(reference.dim):
        space = PointSpace(reference, "person")
        model = fit(records, space, epsilon_per_draw=2.0, draws=9, settings=settings)
        _, arrays = model.density.tilt.pack()
        sizes.append({name: (array.shape, array.dtype) for name, array in arrays.items()})
        with monkeypatch.context() as patch:
            watch = Watch(patch)
            assert len(model.density.draw(2, proposals=3)) == 2
        points.append(watch.points)
        looks.append(watch.looks)
    assert points == [[2 * (3 + 1)]] * 3
    assert sizes == sizes[:1] * 3
    assert looks == looks[:1] * 3
    assert all(count > 8 * learners.MOST_TREES for count in looks[0])


def test_trees_that_were_not_grown_are_walked_as_well():
    """Labels that features tell nothing of stop the growth early, and once took less time."""
    features = np.random.default_rng(0).random((400, 2))
    labels = (features[:, 0] > 0.5, np.arange(400) % 2 == 0)
    grown = [learners.grow_trees(features[told], features[~told], 0, None) for told in labels]
    alive = [int(tree.value.reshape(learners.MOST_TREES, -1).any(axis=1).sum()) for tree in grown]
    assert alive[1] < learners.MOST_TREES / 2 < alive[0]


def test_the_first_accepted_proposal_is_taken_and_the_last_if_there_is_none(monkeypatch):
    """Without a search that ends the earlier, the more is accepted."""
    density = TiltedDensity(BOX, ConstantTilt(), 0.0, 0.0)
    tossed = np.array([[0, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 1]], bool)
    seen = []

    def toss(_, points):
        seen.append(points)
        return tossed.ravel()

    monkeypatch.setattr(TiltedDensity, "_toss", toss)
    drawn = density.draw(3, proposals=3)
    np.testing.assert_array_equal(drawn, seen[0].reshape(3, 4, 3)[[0, 1, 2], [1, 3, 0]])
