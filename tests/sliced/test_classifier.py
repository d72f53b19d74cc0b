import pytest
import torch

from privot.errors import PrivotError
from privot.sliced import AdaptationSettings
from privot.sliced.adaptation.classifier import Classifier

SETTINGS = AdaptationSettings(epsilon=8.0, unit="patient", feature_dim=8, hidden=(16,))


def test_joint_records_lie_in_the_ball_and_never_point_apart():
    classifier = Classifier((8, 8), 3, SETTINGS)
    assert classifier.images
    records = classifier.joint_records(5 * torch.randn(40, 8, 8))
    assert records.shape == (40, 3 * 8)
    assert float(records.detach().norm(dim=1).max()) <= 1 + 1e-6
    assert float((records @ records.T).min()) >= 0


def test_settings_refuse():
    with pytest.raises(PrivotError, match="weight -1"):
        AdaptationSettings(epsilon=1, unit="patient", weight=-1)
    with pytest.raises(PrivotError, match="rounds 0 cannot be"):
        AdaptationSettings(epsilon=1, unit="patient", rounds=0)
    with pytest.raises(PrivotError, match="alignment is 'other'"):
        AdaptationSettings(epsilon=1, unit="patient", alignment="other")
