"""Without privacy, both ways to align classify a shifted target better than none."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from privot.sliced import AdaptationSettings
from studies.rivals.public_alignment import align_means, align_slices

SETTINGS = AdaptationSettings(
    epsilon=1.0, unit="record", feature_dim=8, hidden=(16,), channels=(), jitter=0.0, source_batch=64,
    rounds=2, training_steps=100, adapter_steps=80, steps=150, num_projections=16,
    learning_rate=1e-2, averaging=0.9,
)  # fmt: skip


# A map of the target is learned exactly; features that hide the domain mend a part.
@pytest.mark.parametrize(("align", "least"), [(align_means, 0.97), (align_slices, 0.8)])
def test_finds_a_shifted_target(align, least):
    rng = np.random.default_rng(1)
    y = np.arange(600) % 2
    source = rng.normal(0, 0.15, (600, 2)) + np.stack([0.3 + y, 0.6 - 0.2 * y], axis=1)
    target = source[rng.permutation(600)] + np.array([0.55, 0.0])
    right = torch.from_numpy(target[:, 0] > 0.3 + 0.5 + 0.55)

    def accuracy(settings):
        classifier = align(source, y, target, settings)
        found = classifier(torch.from_numpy(target).float()).argmax(dim=1) == 1
        return float((found == right).float().mean())

    unaligned = accuracy(replace(SETTINGS, adapter_steps=1, weight=0.0))
    assert accuracy(SETTINGS) > max(unaligned + 0.1, least)
