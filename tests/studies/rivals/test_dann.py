"""Domain-adversarial training: clipping, noise, accounting, and that it aligns."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from privot.central.classifiers.adapted import AdaptationSettings
from privot.core.errors import PrivotError
from studies.rivals.dann import DANNSettings, clipped_sum, fit_dann

NETWORK = AdaptationSettings(
    epsilon=1.0, unit="record", feature_dim=8, hidden=(16,), channels=(), jitter=0.0, source_batch=64,
    learning_rate=1e-2, averaging=0.9,
)  # fmt: skip


def _domains():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    source = rng.normal(0, 0.3, (400, 3)) + np.stack([2.0 * y, 0 * y, 0 * y], axis=1)
    return source, y, source[rng.permutation(400)] + np.array([0.0, 1.0, 0.0])


def test_every_gradient_is_shortened_by_itself():
    linear = nn.Linear(3, 1)
    weights = dict(linear.named_parameters())
    batch = torch.tensor([[3.0, 0.0, 0.0], [0.0, 0.1, 0.0]])

    def term(values, record):
        return (values["weight"] @ record).sum()

    summed = clipped_sum(term, {"weight": weights["weight"]}, batch, 1.0)
    assert torch.allclose(summed["weight"], torch.tensor([[1.0, 0.1, 0.0]]))
    far = torch.tensor([[torch.inf, 0.0, 0.0], [0.0, 0.1, 0.0]])
    summed = clipped_sum(term, {"weight": weights["weight"]}, far, 1.0)
    assert torch.allclose(summed["weight"], torch.tensor([[0.0, 0.1, 0.0]]))
    nothing = clipped_sum(term, {"weight": weights["weight"]}, batch[:0], 1.0)
    assert float(nothing["weight"].abs().sum()) == 0


def test_noise_is_that_of_the_subsampled_gaussian():
    """Of the same order as an independent accountant's, on either side by a few percent."""
    accounting = pytest.importorskip("dp_accounting")
    settings = DANNSettings(NETWORK, epsilon=3.0, delta=1e-5, steps=200, batch_size=50)

    def epsilon(noise):
        accountant = accounting.pld.PLDAccountant(
            neighboring_relation=accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
        )
        event = accounting.PoissonSampledDpEvent(0.05, accounting.GaussianDpEvent(noise))
        return accountant.compose(event, 200).get_epsilon(1e-5)

    stddev = settings.stddev(1000)
    assert epsilon(stddev) <= 3.0
    assert epsilon(0.95 * stddev) > 3.0
    assert DANNSettings(NETWORK).stddev(1000) == 0.0


@pytest.mark.parametrize("epsilon", [None, 100.0])
def test_classifies_the_target(epsilon):
    source, y, target = _domains()
    network = replace(NETWORK, learning_rate=5e-3, seed=1)
    settings = DANNSettings(
        network, epsilon=epsilon, delta=1e-3, steps=150, batch_size=20, weight=0.1, hidden=8
    )
    classifier, stddev = fit_dann(source, y, target, settings)
    right = torch.from_numpy(target[:, 0] > 1)
    found = classifier(torch.from_numpy(target).float()).argmax(dim=1) == 1
    assert float((found == right).float().mean()) > 0.8
    assert (stddev > 0) == (epsilon is not None)


def test_a_batch_beyond_the_target_is_refused():
    source, y, target = _domains()
    with pytest.raises(PrivotError, match="batch_size 20 of 10"):
        fit_dann(source, y, target[:10], DANNSettings(NETWORK, batch_size=20))
