import pytest
import torch

from privot.central.classifiers.adapted import AdaptationSettings, Classifier
from privot.core.errors import PrivotError

SETTINGS = AdaptationSettings(epsilon=8.0, unit="patient", feature_dim=8, hidden=(16,))


def test_features_lie_on_the_sphere_and_never_point_apart():
    classifier = Classifier((8, 8), 3, SETTINGS)
    assert classifier.takes_images
    features = classifier.features(5 * torch.randn(40, 8, 8)).detach()
    assert features.shape == (40, 8)
    norms = features.norm(dim=1)
    assert torch.allclose(norms[norms > 0.5], torch.tensor(1.0), atol=1e-5)
    assert float((features @ features.T).min()) >= 0


def test_classes_are_the_likeliest_and_those_of_parts():
    classifier, x = Classifier((8, 8), 3, SETTINGS), torch.randn(2050, 8, 8)
    assert torch.equal(classifier.classes(x), classifier(x).argmax(dim=1))
    assert torch.equal(classifier.classes(x[:7]), classifier.classes(x)[:7])


def test_settings_refuse():
    for name in ("rounds", "directions", "training_steps", "feature_dim"):
        with pytest.raises(PrivotError, match=f"{name} 0 cannot be"):
            AdaptationSettings(epsilon=1, unit="patient", **{name: 0})
    with pytest.raises(PrivotError, match="jitter -1"):
        AdaptationSettings(epsilon=1, unit="patient", jitter=-1)
    with pytest.raises(PrivotError, match="most_noise 0"):
        AdaptationSettings(epsilon=1, unit="patient", most_noise=0)
