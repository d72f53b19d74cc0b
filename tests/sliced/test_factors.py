import numpy as np
import pytest

from privot.sliced.factors import shrink
from sliced.declared_images import image_schema
from sliced.halves import data, drawn, learn

pytestmark = pytest.mark.usefixtures("little_noise")


@pytest.mark.slow
def test_factors_learn_the_spread():
    """Not only means: the amount of light varies within a class as it does in the data."""
    images, labels = data()
    model = learn({"steps": 6000})
    made, of = drawn(model, 4000)
    learned = made[of == 0][:, :, :3].mean(axis=(1, 2)).std()
    true = images[labels == 0][:, :, :3].mean(dim=(1, 2)).std()
    assert 0.6 < learned / float(true) < 1.5


def test_shrinking_removes_noise_and_keeps_signal():
    rng = np.random.default_rng(0)
    prior = 1 / (1 + np.arange(12.0))
    truth = np.stack([np.diag(prior) * (1 + 0.5 * c) for c in range(4)])
    noise = rng.normal(0, 0.1, truth.shape)
    noisy = truth + (noise + noise.transpose(0, 2, 1)) / np.sqrt(2)
    shrunk = shrink(noisy, np.full(4, 0.1), prior)
    assert np.square(shrunk - truth).sum() < 0.3 * np.square(noisy - truth).sum()
    exact = shrink(truth, np.full(4, 1e-9), prior)
    assert np.allclose(exact, truth, atol=1e-6)


def test_a_class_without_records_is_left_out():
    model = learn({"steps": 1500}, schema=image_schema((6, 6), 3))
    assert set(drawn(model, 500)[1]) == {0, 1}
