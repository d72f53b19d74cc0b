"""What rounds ask of records: nothing is longer or of another sign than promised, whatever they hold."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from privot.central.classifiers.adapted import (
    AdaptationSettings,
    Classifier,
    ClassProducts,
    ClassSums,
)
from privot.central.moments import PRODUCT_RADIUS

SETTINGS = AdaptationSettings(epsilon=1.0, unit="patient", feature_dim=4, hidden=(8,))
CLASSIFIER = Classifier((5,), 3, SETTINGS).requires_grad_(False)
RNG = np.random.default_rng(0)
MEANS = RNG.standard_normal((3, 5))
BASIS = np.linalg.qr(RNG.standard_normal((5, 4)))[0]


def arrays(*tensors):
    return tuple(tensor.numpy() for tensor in tensors)


@given(seed=st.integers(0, 2**32), norm=st.floats(0.01, 6))
def test_vectors_keep_their_bounds(seed, norm):
    rng = torch.Generator().manual_seed(seed)
    records = torch.randn(40, 5, generator=rng)
    records *= 10.0 ** torch.randint(-30, 30, (40, 1), generator=rng)
    for query in (
        ClassSums(CLASSIFIER, 5, norm, True),
        ClassSums(CLASSIFIER, 5, norm, False),
        ClassProducts(CLASSIFIER, MEANS, BASIS, norm),
    ):
        slots, vectors = query.answer(arrays(records))
        assert vectors.shape == (40, query.width)
        assert ((slots >= 0) & (slots < query.slots)).all()
        assert np.square(vectors.astype(object)).sum(axis=1).max() <= query.radius**2
        assert query.moment == 2 or not query.non_negative or vectors.min() >= 0


def test_records_are_in_the_slot_of_their_likeliest_class():
    records = torch.randn(50, 5)
    slots, _ = ClassSums(CLASSIFIER, 5, 9.0, False).answer(arrays(records))
    assert (slots == CLASSIFIER(records).argmax(dim=1).numpy()).all()
    assert len(set(slots)) > 1


def test_short_records_are_summed_as_they_are():
    records = torch.randn(20, 5, generator=torch.Generator().manual_seed(0))
    query = ClassSums(CLASSIFIER, 5, 20.0, False)
    vectors = query.answer(arrays(records))[1]
    assert np.abs(vectors[:, :-1] * query.unit - records.numpy()).max() <= query.unit
    assert (vectors[:, -1] == query.one).all()


def test_residuals_are_of_the_class_and_keep_their_direction_when_cut():
    records = torch.randn(20, 5, generator=torch.Generator().manual_seed(0))
    wide, narrow = (ClassProducts(CLASSIFIER, MEANS, BASIS, norm) for norm in (50.0, 0.1))
    slots, vectors = wide.answer(arrays(records))
    expected = (records.numpy() - MEANS[slots]) @ BASIS
    assert vectors * wide.unit == pytest.approx(expected, abs=2 * wide.unit)
    cut = narrow.answer(arrays(records))[1]
    lengths = np.linalg.norm(cut, axis=1)
    assert lengths == pytest.approx(PRODUCT_RADIUS, rel=0.01)
    whole = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    assert cut / lengths[:, None] == pytest.approx(whole, abs=0.01)
