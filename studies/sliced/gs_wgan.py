r"""What GS-WGAN's published code spends: the ε of its noise, counted step by step.

In each of 20 000 steps it picks one of 1 000 discriminators, each trained on records of its own, draws
32 images, clips the gradient of the critic's mean in every image to C, and adds noise of deviation
1.07 · 2C to each. Its own analysis composes 20 000 · 32 Gaussian mechanisms, **each** sampled with
probability 1/1000 by itself. But all 32 gradients of a step are of one discriminator: they are
released together, or not at all. With a record changed all of them may change by 2C, so that a step is
one Gaussian mechanism of sensitivity √32 over noise 1.07, sampled with probability 1/1000; 20 000 of
them compose.

Here both are counted by the privacy-loss distribution, rounded pessimistically, at δ = 1e-5. (The
published count has 10 where this has 4.1: its formula for sampling is looser.) Records that
are added and removed stand for records that are replaced, which cost no less.

References:
    Chen, Orekondy, Fritz, *GS-WGAN: a gradient-sanitized approach for learning differentially private
    generators* (2020), and its code (`source/main.py`, `source/config.py`,
    `evaluation/privacy_analysis.py`).

Usage:
    python -m studies sliced.gs_wgan
"""

from __future__ import annotations

import argparse
import math

NOISE, BATCH, DISCRIMINATORS, STEPS, DELTA = 1.07, 32, 1000, 20_000, 1e-5


def spent(
    sensitivity: float, steps: int, discriminators: int = DISCRIMINATORS, interval: float = 1e-3
) -> float:
    """ε at `DELTA` of `steps` Gaussian mechanisms, each sampled with probability 1/`discriminators`.

    Arguments:
        sensitivity: Over noise of deviation `NOISE`.
        steps: How many compose.
        discriminators: One of which is picked in every step.
        interval: To which privacy losses are rounded up.
    """
    from dp_accounting.dp_event import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

    accountant = PLDAccountant(value_discretization_interval=interval)
    step = PoissonSampledDpEvent(1 / discriminators, GaussianDpEvent(NOISE / sensitivity))
    return float(accountant.compose(step, steps).get_epsilon(DELTA))


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes: nothing."""


def run(chosen: argparse.Namespace) -> None:
    """Both counts."""
    alone = spent(1.0, STEPS * BATCH, interval=1e-4)
    print(f"each gradient sampled by itself: ε = {alone:.3g}")
    print(f"a step's gradients together:     ε = {spent(math.sqrt(BATCH), STEPS):.4g}")
