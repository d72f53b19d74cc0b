"""The classifier that the project trains itself, and the judge that uses it."""

import numpy as np
import pytest
import torch

from privot.core.errors import PrivotError
from studies.common.image_features import (
    ImageClassifier,
    load_classifier,
    save_classifier,
    train_classifier,
)
from studies.common.image_judge import ImageJudge, pixel_distance, to_unit_interval

SIDE = 8


def bars(num_images, seed, width=1):
    """Images of a bright row (class 0) or column (class 1), dim noise around it."""
    rng = np.random.default_rng(seed)
    images = rng.normal(-0.9, 0.05, (num_images, SIDE, SIDE))
    labels = rng.integers(2, size=num_images)
    for image, label, at in zip(images, labels, rng.integers(SIDE - width, size=num_images)):
        where = np.s_[at : at + width] if label == 0 else np.s_[:, at : at + width]
        image[where] = 0.9
    flat = torch.from_numpy(images.reshape(num_images, -1).astype(np.float32)).clamp(-1, 1)
    return flat, labels


@pytest.fixture(scope="module")
def judge():
    images, labels = bars(400, 0)
    classifier = train_classifier(images, labels, size=SIDE, steps=60, batch_size=32)
    second = train_classifier(
        images, labels, size=SIDE, steps=60, batch_size=32, seed=1, dense=True
    )
    return ImageJudge(classifier, bars(400, 1)[0], num_near=200, second=second)


def test_the_classifier_learns_and_tells_clean_from_noise(judge):
    images, labels = bars(300, 2)
    assert judge.classifier.accuracy(images, labels) > 0.95
    hidden = images + 5 * torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    assert judge.classifier.accuracy(hidden, labels) < 0.75


def test_fresh_images_score_like_the_floor_and_bad_ones_do_not(judge):
    fresh = judge.score(bars(400, 3)[0])
    assert fresh.spread == pytest.approx(1, abs=0.1)
    assert min(fresh.precision, fresh.recall, fresh.coverage) > 0.7
    assert fresh.rarest > 0.35
    only_rows, labels = bars(800, 4)
    rows = judge.score(only_rows[torch.from_numpy(labels == 0)])
    assert rows.rarest < 0.1
    assert rows.frechet > 5 * fresh.frechet
    assert rows.frechet_second > 5 * fresh.frechet_second
    assert rows.frechet_pixels > 5 * fresh.frechet_pixels
    assert rows.kernel > 5 * abs(fresh.kernel)
    assert rows.recall < 0.8 * fresh.recall


def test_shrinking_to_the_mean_shows_in_the_spread(judge):
    images, _ = bars(400, 5)
    mean = images.mean(dim=0, keepdim=True)
    shrunk = judge.score(mean + 0.5 * (images - mean))
    assert shrunk.spread == pytest.approx(0.25, abs=0.05)


def test_w2_of_samples_prefers_shrunken_ones_in_many_dimensions():
    """Why W₂ needs its floor: half the spread is *nearer* to a sample than a fresh sample is."""
    x, y = torch.randn(2, 100, 200, generator=torch.Generator().manual_seed(0))
    assert pixel_distance(0.5 * x, y, 100) < 0.9 * pixel_distance(x, y, 100)


def test_own_features_are_taken_instead(judge):
    other = ImageJudge(judge.classifier, judge.clean, features=lambda x: x.double().numpy())
    assert other.clean_features.shape == (400, SIDE**2)
    assert "frechet_second" not in other.score(bars(100, 7)[0]).to_dict()


def test_pixel_distance_of_a_shift_is_its_length():
    x = torch.rand(50, 4, generator=torch.Generator().manual_seed(0))
    assert pixel_distance(x, x + 3.0, num_points=50) == pytest.approx(6.0)


def test_weights_travel_as_safetensors(judge, tmp_path):
    path = tmp_path / "classifier.safetensors"
    save_classifier(judge.classifier, path)
    again = load_classifier(path, SIDE, 2)
    images, _ = bars(20, 6)
    np.testing.assert_array_equal(again.features(images), judge.classifier.features(images))
    with pytest.raises(PrivotError, match="holds no classifier of 28 × 28 images"):
        load_classifier(path)


def test_bytes_become_the_unit_interval():
    pixels = np.array([[[0, 255], [127, 128]]], np.uint8)
    expected = [[-1, 1, -1 / 255, 1 / 255]]
    np.testing.assert_allclose(to_unit_interval(pixels), expected, atol=1e-6)


def test_sizes_are_checked():
    with pytest.raises(PrivotError, match="size 30 is no multiple of 4"):
        ImageClassifier(30)
