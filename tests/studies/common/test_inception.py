"""FID by a file of weights: a stand-in of the same signature, whose features are known."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from privot.core.errors import PrivotError
from studies.common.image_features import ImageClassifier
from studies.common.image_judge import ImageJudge
from studies.common.inception import InceptionFeatures

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


class StandIn(nn.Module):
    """Means of the three channels, in units of 255; other values without `return_features`."""

    def forward(self, images: Tensor, return_features: bool = False) -> Tensor:
        assert images.dtype == torch.uint8
        means = images.float().mean(dim=[2, 3]) / 255
        return means if return_features else torch.zeros(1)


@pytest.fixture
def file(tmp_path):
    torch.jit.script(StandIn()).save(str(tmp_path / "inception.pt"))
    return tmp_path / "inception.pt"


def test_images_reach_the_network_as_bytes_channels_first(file):
    red = torch.full((70, 4, 5, 3), -1.0)
    red[..., 0] = 1.0
    features = InceptionFeatures(file, (4, 5, 3))(red.flatten(1))
    np.testing.assert_allclose(features, np.tile([1.0, 0.0, 0.0], (70, 1)))
    gray = InceptionFeatures(file, (2, 2))(torch.tensor([[-1.0, 1.0, 3.0, -3.0]]))
    np.testing.assert_allclose(gray, [[0.5, 0.5, 0.5]])


def test_a_judge_adds_the_distance_of_these_features(file):
    """Brighter by 51 of 255 in every pixel: channel means move by .2 each, 3 · .2² in all."""
    rng = torch.Generator().manual_seed(0)
    clean = torch.rand(300, 784, generator=rng) - 0.7
    judge = ImageJudge(ImageClassifier(), clean, inception=InceptionFeatures(file, (28, 28)))
    told = judge.score(clean + 0.4).to_dict()
    assert told["fid"] == pytest.approx(0.12, abs=2e-3)
    assert "fid" not in ImageJudge(ImageClassifier(), clean).score(clean).to_dict()


def test_what_is_no_network_is_refused(tmp_path):
    (tmp_path / "text.pt").write_text("weights")
    with pytest.raises(PrivotError, match=r"text.pt is no TorchScript file"):
        InceptionFeatures(tmp_path / "text.pt", (28, 28))
