"""Changes of source images are small, of every kind, and those of an amount of 0 are none."""

import torch

from privot.central.classifiers.adapted import augmented, random_affine


def test_maps_are_near_the_identity_and_of_every_kind():
    maps = random_affine(2000, 0.1, torch.Generator().manual_seed(0))
    away = (maps - torch.eye(2, 3)).abs()
    assert float(away.max()) < 0.25
    assert float(away.flatten(1).max(dim=0).values.min()) > 0.05
    assert float((maps.mean(dim=0) - torch.eye(2, 3)).abs().max()) < 0.01
    none = random_affine(3, 0.0, torch.Generator())
    assert torch.allclose(none, torch.eye(2, 3).expand(3, 2, 3))


def test_an_amount_of_nothing_leaves_images_as_they_are():
    x = torch.rand(4, 2, 9, 7)
    assert torch.equal(augmented(x, 0.0, torch.Generator()), x)


def test_strokes_move_and_change_their_width():
    x = torch.zeros(400, 1, 16, 16)
    x[:, :, 3:13, 7:9] = 1.0
    drawn = augmented(x, 0.3, torch.Generator().manual_seed(0))
    assert drawn.shape == x.shape
    assert float(drawn.min()) >= 0
    assert float(drawn.max()) <= 1
    ink = drawn.sum(dim=(1, 2, 3)) / 20
    assert float(ink.min()) < 0.75
    assert float(ink.max()) > 1.5
    right = (drawn.sum(dim=(1, 2)) * torch.arange(16.0)).sum(1) / drawn.sum(dim=(1, 2, 3))
    assert 0.3 < float(right.std()) < 2
    assert abs(float(right.mean()) - 7.5) < 0.3
