"""The published method: records on a public sphere, counted releases, and a generator that follows."""

import numpy as np
import torch

import studies.rivals.published_slices as published
from privot.central.slices import SlicePlan
from studies.rivals.published_slices import (
    AppendedLabels,
    PublishedSlicesSettings,
    fit_published_slices,
)


def test_records_have_norm_one_half_and_never_point_apart():
    values = torch.rand(20, 794, generator=torch.Generator().manual_seed(0))
    features = AppendedLabels(794, 0.5).features(values)
    assert torch.allclose(features.norm(dim=1), torch.tensor(0.5))
    assert float((features @ features.T).min()) >= 0


def test_follows_its_releases_and_says_what_they_cost(monkeypatch):
    """With hardly any noise (the plan is replaced) bright labels are told from dark ones.

    Labels differ by .67 ± .12 (eight runs), five standard deviations from the limit.
    """

    def plan(epsilon, delta, steps, accounting, method):
        return SlicePlan(accounting(2.0**-21), 1e-3, steps, delta, 2.0**-26, "rdp")

    labels = np.arange(300) % 10
    images = np.where(labels[:, None] % 2 == 1, 0.9, 0.1) * np.ones((300, 784))
    settings = PublishedSlicesSettings(
        steps=240, batch_size=50, num_projections=100, learning_rate=1e-2, label_weight=20.0
    )
    monkeypatch.setattr(published.SlicePlan, "calibrate", plan)
    fitted = fit_published_slices(images, labels, 1.0, 1e-3, settings, seed=0)
    drawn = fitted.generator.sample(torch.tensor([0, 1] * 20)).reshape(20, 2, 784)
    dark, bright = drawn.mean(axis=(0, 2))
    assert bright - dark > 0.1
    assert fitted.guarantee.epsilon > 1
    assert fitted.guarantee.neighboring == "replace_one"
