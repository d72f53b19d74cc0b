"""What labeled vectors are drawn from: given moments, conditions, files, the laws of models."""

import numpy as np
import pytest
import torch

from central.mixtures.labeled_points import of, schema, table
from laws.model import ModelLaws
from privot.central import CentralModel, fit
from privot.central.mixtures import VectorMixture


@pytest.fixture(scope="module")
def learned():
    return fit(table(3000), schema(), epsilon=5.0)


def test_draws_have_the_moments_of_their_component():
    root = torch.tensor([[0.2, 0.0], [0.1, 0.05]])
    law = VectorMixture(
        torch.ones(1),
        torch.tensor([[0.25, 0.75]]),
        torch.tensor([[[0.5, 0.0], [-0.1, 0.2]]]),
        torch.stack([torch.zeros(2, 2), root])[None],
    )
    drawn = law.values(torch.zeros(40_000, dtype=torch.int64), torch.Generator().manual_seed(0))
    first = (drawn == torch.tensor([0.5, 0.0])).all(dim=1)
    assert first.double().mean() == pytest.approx(0.25, abs=0.01)
    assert np.cov(drawn[~first].T.numpy()) == pytest.approx((root @ root.T).numpy(), abs=2e-3)


def test_conditions_on_the_label_are_met(learned):
    assert set(of(learned.sample(200, seed=0, where={"kind": "b"}))[1]) == {"b"}


class TestVectors(ModelLaws):
    @pytest.fixture
    def model(self, learned):
        return learned


def test_saved_and_loaded(learned, tmp_path):
    learned.save(tmp_path / "model")
    again = CentralModel.load(tmp_path / "model")
    assert again.sample(50, seed=3).equals(learned.sample(50, seed=3))
