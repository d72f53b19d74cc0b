r"""Wavelet shrinkage: denoising one image at a time, tuned with the clean images as nobody could.

Noise spreads over all wavelet coefficients, an image's edges over few large ones: coefficients below
a threshold are set to zero (`hard`), or all are pulled towards zero by it (`soft`). With noise of
deviation σ in every coefficient the universal threshold is $σ\sqrt{2 \log d}$.

The papers choose basis, level and thresholds so that the reconstruction is nearest to the *original*
image under that very noise. So does `tune`, on a sample of clean images: better than any private
setting could be. It still fails at the noise of local privacy, which is the point.

References:
    Mallat, *A wavelet tour of signal processing* (1999). Donoho, Johnstone, *Ideal spatial adaptation
    by wavelet shrinkage* (1994).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from privot.core.errors import PrivotError

_WAVELETS = ("haar", "db2", "sym4", "bior2.2")
_LEVELS = (1, 2, 3)
_THRESHOLDS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)


def _wavelets() -> Any:
    """PyWavelets, which nothing else needs: so it is imported here.

    Raises:
        PrivotError: if it is not installed.
    """
    try:
        import pywt
    except ModuleNotFoundError:
        raise PrivotError("wavelet shrinkage needs PyWavelets: pip install PyWavelets") from None
    return pywt


@dataclass(frozen=True)
class WaveletShrinkage:
    """One way of shrinking.

    Arguments:
        wavelet: Name of the basis in PyWavelets.
        level: Number of scales whose details are shrunk; the rest is kept.
        threshold: In units of the pixels.
        mode: `"soft"` or `"hard"`.
    """

    wavelet: str
    level: int
    threshold: float
    mode: str

    def __post_init__(self) -> None:
        if self.wavelet not in _wavelets().wavelist(kind="discrete"):
            raise PrivotError(f"wavelet {self.wavelet!r} is not known: try 'haar' or 'db2'")
        if self.mode not in ("soft", "hard") or self.level < 1 or not self.threshold >= 0:
            raise PrivotError(
                f"mode {self.mode!r}, level {self.level}, threshold {self.threshold}: use 'soft' or "
                "'hard', a level of at least 1, a threshold of at least 0"
            )

    def __call__(self, noisy: np.ndarray) -> np.ndarray:
        """Denoised images (n, height, width)."""
        pywt = _wavelets()
        height, width = noisy.shape[1:]
        average, *details = pywt.wavedec2(noisy, self.wavelet, "periodization", self.level)
        kept = [
            tuple(pywt.threshold(part, self.threshold, self.mode) for part in scale)
            for scale in details
        ]
        restored = pywt.waverec2([average, *kept], self.wavelet, "periodization")
        shrunk: np.ndarray = restored[:, :height, :width]
        return shrunk


def tune(noisy: np.ndarray, clean: np.ndarray, noise_stddev: float) -> WaveletShrinkage:
    """The shrinkage of least mean squared distance to `clean`, of some 150 tried.

    Arguments:
        noisy: Images (n, height, width) with noise.
        clean: The same without: knowledge that no curator has.
        noise_stddev: Deviation of a pixel's noise; thresholds are multiples of it.

    Raises:
        PrivotError: if the images do not correspond.
    """
    if noisy.shape != clean.shape or noisy.ndim != 3:
        raise PrivotError(
            f"noisy {noisy.shape} and clean {clean.shape} differ: give the same images, (n, h, w)"
        )
    tried = [
        WaveletShrinkage(wavelet, level, factor * noise_stddev, mode)
        for wavelet, level, factor, mode in product(
            _WAVELETS, _LEVELS, _THRESHOLDS, ("soft", "hard")
        )
        if level <= _wavelets().dwt_max_level(min(noisy.shape[1:]), wavelet)
    ]
    return min(tried, key=lambda way: float(((way(noisy) - clean) ** 2).mean()))
