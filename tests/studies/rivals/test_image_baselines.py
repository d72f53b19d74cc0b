"""Denoisers that the entropic method is compared with."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from privot.core.errors import PrivotError
from studies.rivals.blind_spot import BlindSpotDenoiser, train_blind_spot
from studies.rivals.wavelet_shrinkage import WaveletShrinkage, tune

needs_wavelets = pytest.mark.skipif(find_spec("pywt") is None, reason="PyWavelets is not installed")

SIDE = 12


def smooth_images(num_images, seed):
    """Blocks of one gray each: what denoisers are for."""
    coarse = np.random.default_rng(seed).uniform(-1, 1, (num_images, 3, 3))
    return coarse.repeat(4, axis=1).repeat(4, axis=2)


@needs_wavelets
def test_wavelet_shrinkage_denoises_what_it_can_and_fails_at_strong_noise():
    rng = np.random.default_rng(0)
    clean = smooth_images(60, 0)
    for stddev, most in ((0.3, 0.5), (5.0, 1.0)):
        noisy = clean + stddev * rng.standard_normal(clean.shape)
        way = tune(noisy, clean, stddev)
        left = ((way(noisy) - clean) ** 2).mean()
        assert left < most * ((noisy - clean) ** 2).mean()
    # Tuned with the clean image itself, and still no better than giving up on the image.
    assert left > 0.5 * (clean**2).mean()


@needs_wavelets
def test_no_threshold_changes_nothing_and_a_huge_one_keeps_averages():
    images = smooth_images(3, 1) + np.random.default_rng(0).standard_normal((3, SIDE, SIDE))
    same = WaveletShrinkage("db2", 2, 0.0, "soft")(images)
    np.testing.assert_allclose(same, images, atol=1e-10)
    averaged = WaveletShrinkage("haar", 1, 1e9, "hard")(images)
    blocks = images.reshape(3, 6, 2, 6, 2).mean(axis=(2, 4)).repeat(2, axis=1).repeat(2, axis=2)
    np.testing.assert_allclose(averaged, blocks, atol=1e-10)


@needs_wavelets
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowave", 1, 1.0, "soft"), "wavelet 'nowave' is not known"),
        (("haar", 0, 1.0, "soft"), "level of at least 1"),
        (("haar", 1, 1.0, "firm"), "use 'soft' or 'hard'"),
    ],
)
def test_shrinkage_refuses(arguments, message):
    with pytest.raises(PrivotError, match=message):
        WaveletShrinkage(*arguments)


def test_shrinkage_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "pywt", None)
    with pytest.raises(PrivotError, match="needs PyWavelets: pip install PyWavelets"):
        WaveletShrinkage("haar", 1, 1.0, "soft")


def test_the_blind_spot_denoiser_learns_from_noisy_images_alone():
    clean = torch.from_numpy(smooth_images(300, 0)).float()
    noisy = clean + 0.5 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    model = train_blind_spot(noisy, width=8, steps=240, batch_size=48)
    left = float(((model.denoise(noisy) - clean) ** 2).mean())
    assert left < 0.6 * 0.25


def test_the_blind_spot_denoiser_checks_its_input():
    with pytest.raises(PrivotError, match="multiples of 4"):
        train_blind_spot(torch.zeros(3, 10, 10))
    with pytest.raises(PrivotError, match="give positive numbers"):
        BlindSpotDenoiser(scale=0.0)
