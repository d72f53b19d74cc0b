"""Images are learned by a few noisy sums: their means, their shares, several kinds of one label."""

import numpy as np
import pytest
import torch

from central.declared_images import image_schema, image_table
from privot.central import SumSettings, fit
from privot.central.mixture_fit import ImageFit, k_means
from privot.central.sums import Budget
from privot.core.errors import PrivotError
from privot.schema.columns.array import tensor_values


def kinds(count=6000, seed=0):
    """Label 0 is bright at the top or at the bottom, label 1 on the left."""
    rng = torch.Generator().manual_seed(seed)
    labels = (torch.rand(count, generator=rng) < 0.25).long()
    top = torch.rand(count, generator=rng) < 0.5
    images = 0.05 + 0.05 * torch.rand(count, 8, 8, generator=rng)
    bright = 0.6 + 0.3 * torch.rand(count, 1, 1, generator=rng)
    for chosen, part in (
        ((labels == 0) & top, np.s_[:4, :]),
        ((labels == 0) & ~top, np.s_[4:, :]),
        (labels == 1, np.s_[:, :4]),
    ):
        images[(chosen, *part)] = bright[chosen]
    return images, labels


@pytest.mark.parametrize("components", [1, 2])
def test_kinds_of_a_label_are_told_apart(components):
    settings = SumSettings(components=components, low_pass=4, residual_low_pass=3, norm=0.7)
    table = image_table(*kinds())
    model = fit(table, image_schema((8, 8), 2), epsilon=8.0, method=settings)
    drawn = model.sample(3000, seed=0)
    images = tensor_values(drawn["image"])
    labels = np.array(drawn["label"].to_pylist()).astype(int)
    assert labels.mean() == pytest.approx(0.25, abs=0.06)
    left = images[labels == 1, :, :4].mean(axis=(1, 2)) - images[labels == 1, :, 4:].mean(
        axis=(1, 2)
    )
    assert left.mean() == pytest.approx(0.68, abs=0.1)
    height = images[labels == 0, :4].mean(axis=(1, 2)) - images[labels == 0, 4:].mean(axis=(1, 2))
    assert height.mean() == pytest.approx(0, abs=0.15)
    if components == 2:
        # Two kinds: hardly an image is in between, as nearly none of the true ones is.
        assert (np.abs(height) > 0.3).mean() > 0.9
    assert height.std() > 0.35
    assert model.guarantee.epsilon <= 8
    assert model.releases == (2 if components == 1 else 4)


def test_images_without_labels_and_in_color():
    rng = np.random.default_rng(0)
    images = np.clip(rng.random((900, 6, 6, 3)) * 0.2 + [0.1, 0.4, 0.7], 0, 1)
    settings = SumSettings(norm=0.8)
    model = fit(image_table(images), image_schema((6, 6, 3)), epsilon=10.0, method=settings)
    drawn = tensor_values(model.sample(500, seed=1)["image"])
    assert drawn.mean(axis=(0, 1, 2)) == pytest.approx([0.2, 0.5, 0.8], abs=0.06)


def test_settings_follow_the_budget():
    images = image_schema((28, 28), 10)
    few, many = (
        ImageFit(images, SumSettings(), Budget(epsilon, 1e-5, 60_000)) for epsilon in (1.0, 10.0)
    )
    assert (few.components, many.components) == (1, 19)
    assert (few.residual_low_pass, many.residual_low_pass) == (14, 18)
    assert few.low_pass == many.low_pass == 14
    assert len(few.shares) == 2
    assert len(many.shares) == 4
    assert sum(many.shares) == pytest.approx(1)


def test_what_noise_would_drown_is_refused_and_costs_nothing():
    def planned(count, **settings):
        schema = image_schema((28, 28), 10)
        return ImageFit(schema, SumSettings(**settings), Budget(1.0, 1e-5, count)).plan()

    with pytest.raises(PrivotError, match=r"noise of .* give [\d,]+ images") as refused:
        planned(500)
    enough = int(str(refused.value).split("give ")[1].split(" images")[0].replace(",", ""))
    assert planned(enough).uses == 2
    assert 1000 < enough < 4000
    assert planned(500, low_pass=3).uses == 2


def test_impossible_settings_are_refused():
    for name in ("components", "low_pass", "classes"):
        with pytest.raises(PrivotError, match=f"{name} 0 cannot be"):
            SumSettings(**{name: 0})
    with pytest.raises(PrivotError, match="norm 2"):
        SumSettings(norm=2)


def test_k_means_finds_separate_heaps():
    rng = np.random.default_rng(0)
    heaps = np.array([[0.0, 0], [9, 0], [0, 9]])
    points = np.repeat(heaps, 200, axis=0) + rng.standard_normal((600, 2))
    centers = k_means(points, 3, np.random.default_rng(1))
    assert {tuple(center) for center in abs(centers.round(0)).tolist()} == {(0, 0), (9, 0), (0, 9)}
