"""Recipes of a trusted curator: what is public about drawn images, and releases that are timed."""

import torch

from studies.sliced.images import augmented
from studies.sliced.timing import release_times


def test_images_are_moved_a_little_and_keep_what_they_show():
    x = torch.zeros(200, 28, 28)
    x[:, 10:18, 12:16] = 1.0
    moved = augmented(x, seed=0)
    places = torch.arange(28.0)
    centers = torch.stack([(moved.sum(dim=d) * places).sum(1) / moved.sum((1, 2)) for d in (1, 2)])
    start = torch.tensor([13.5, 13.5])[:, None]
    assert (centers - start).abs().max() < 1.6
    assert ((centers - start).std(dim=1) > 0.3).all()
    assert (moved.sum((1, 2)) / 32 - 1).abs().max() < 0.25


def test_releases_are_timed_one_by_one():
    times = release_times(2)
    assert len(times) == 2
    assert min(times) > 0
