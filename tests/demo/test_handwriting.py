"""Made-up handwriting: hands differ, labels stay, held-out digits are nobody's."""

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from privot.core.errors import PrivotError
from privot.demo.digits import SIDE, draw_digits


@pytest.fixture(scope="module")
def images():
    return draw_digits(3000, seed=1)


def test_the_same_seed_draws_the_same_people_and_another_does_not():
    first, again, other = (draw_digits(200, seed=seed) for seed in (1, 1, 2))
    assert first.checksums() == again.checksums()
    assert not np.array_equal(first.x_train, other.x_train)
    assert np.array_equal(first.x_test, other.x_test)


def test_people_write_all_digits_on_sheets_that_hold_them(images):
    assert images.x_train.shape == (3000, SIDE, SIDE)
    assert images.x_train.dtype == np.uint8
    assert np.bincount(images.y_train).min() > 200
    border = np.ones((SIDE, SIDE), bool)
    border[1:-1, 1:-1] = False
    assert images.x_train[:, border].mean() < 0.1 * images.x_train.mean()


def test_nobody_copies_a_shape_as_it_is(images):
    flat, held = (x.reshape(len(x), -1).astype(float) for x in (images.x_train, images.x_test))
    far = [np.linalg.norm(flat - one, axis=1).min() for one in held[:50]]
    assert min(far) > 0
    copies = np.linalg.norm(flat[:100, None] - flat[None, :100], axis=2)[~np.eye(100, dtype=bool)]
    assert copies.min() > 0


def test_held_out_digits_look_like_the_others(images):
    for label in range(10):
        mean = images.x_train[images.y_train == label].mean(axis=0)
        held = images.x_test[images.y_test == label].mean(axis=0)
        assert np.corrcoef(mean.ravel(), held.ravel())[0, 1] > 0.9


@pytest.mark.parametrize("count", [0, -1])
def test_nobody_writes_nothing(count):
    with pytest.raises(PrivotError, match="people"):
        draw_digits(count)
