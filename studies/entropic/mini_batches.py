r"""What transport between mini-batches estimates: Gaussian records and noise, no network.

Records are $N(0, I_d)$, reports have noise of variance σ² = 1 in each coordinate, and the model is
$N(0, s^2 I_d)$ with one parameter s: whatever is learned, optimization is not to blame. The cost is
$|x − y|^2 / 2σ^2$, the negative log-likelihood of the noise, with entropic weight λ.

**All people at once.** The plan between $N(0, s^2)$ and the reports' $N(0, S^2)$, S² = 1 + σ², is
Gaussian, with covariance $C = (\sqrt{4 s^2 S^2 + λ^2σ^4} − λσ^2)/2$ in each coordinate (Janati et al.
2020). The loss is stationary at s² = C, which is

$$ s^2 = \max(S^2 − λσ^2, 0) : $$

λ = 0 learns the reports, λ = 1 the records, and each in between removes its share of the noise.

**Batches of m.** Outputs $s z_i$ and reports $y_j$ are coupled by the plan π of m against m points. By
the envelope theorem the expected loss is stationary where

$$ s \, E|z|^2 = E \sum_{ij} π_{ij} \langle z_i, y_j \rangle . $$

With m = 1 the right side is 0, and s = 0 is learned for every λ. In between, plans of few points match
noise with outputs. The **learned weight** (S² − s²)/σ² is the λ which all people at once would need to
learn the same s.

**Self-corrected.** The gradient of the same loss to reports y′ = s z′ + noise that are simulated from
the model, held fixed, is subtracted. If s² = 1, y′ has the law of y, and both expectations are equal:
s² = 1 is stationary for every m, d, λ and noise.

Usage, in the order of the page:
    python -m studies entropic.mini_batches --batches 10 50 250
    python -m studies entropic.mini_batches --batches 1000 4000 --weights 0.5 1
    python -m studies entropic.mini_batches --batches 1000 --weights 0 --plain

References:
    Janati, Muzellec, Peyré, Cuturi, *Entropic optimal transport between unbalanced Gaussian
    measures has a closed form* (2020).
    Fatras, Zine, Flamary, Gribonval, Courty, *Learning with minibatch
    Wasserstein: asymptotic and gradient properties* (2020).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.transport import Problem, SinkhornSolver, squared_euclidean
from privot.transport.assignment import assignment
from studies.common.rows import gather

Array = NDArray[np.float64]
RECORDS, NOISE = 1.0, 1.0  # variances in each coordinate
REPORTS = RECORDS + NOISE
_DRAWN = 16_000  # reports of all batches of one size together, but for small and large ones
_MOST_BATCHES = 64
_STEPS = 9  # of the search for s
_WIDEST = 1.6  # largest s that is searched; the reports' is 1.41


def inner_product(z: Array, s: float, y: Array, weight: float) -> float:
    """Return Σ π_ij ⟨z_i, y_j⟩ / d for the plan π between s z and y (m, d)."""
    if weight == 0:
        return float((z * y[assignment(s * z, y)]).sum() / z.size)
    x, reports = torch.from_numpy(s * z), torch.from_numpy(y)
    problem = Problem(squared_euclidean(x, reports) / (2 * NOISE), reg=weight)
    plan = SinkhornSolver(tolerance=1e-3, max_iterations=2000).solve(problem).plan.numpy()
    return float(((plan.astype(np.float64) @ y) * z).sum() / z.shape[1])


def learned(
    dimension: int, batch: int, weight: float, corrected: bool, seed: int
) -> tuple[float, float]:
    """Return the learned s², and its standard error over batches, by bisection on common draws."""
    rng = np.random.default_rng([seed, dimension, batch])
    number = max(2, min(_MOST_BATCHES, _DRAWN // batch))
    draws = [rng.standard_normal((4, batch, dimension)) for _ in range(number)]

    def slopes(s: float) -> Array:
        """The slope of the loss on each batch, but for its sign: positive where s is too small."""
        found = []
        for z, clean, noise, again in draws:
            y = np.sqrt(RECORDS) * clean + np.sqrt(NOISE) * noise
            value = inner_product(z, s, y, weight)
            if corrected:  # the model's own reports, from latents that no output of the batch has
                simulated = s * clean[::-1] + np.sqrt(NOISE) * again
                value -= inner_product(z, s, simulated, weight)
            else:
                value -= s * float((z**2).mean())
            found.append(value)
        return np.array(found)

    low, high = 0.0, _WIDEST
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if slopes(middle).mean() > 0 else (low, middle)
    s, step = (low + high) / 2, 0.1
    here = slopes(s)
    slope = (slopes(s + step).mean() - slopes(max(s - step, 0.0)).mean()) / (
        s + step - max(s - step, 0.0)
    )
    error = here.std(ddof=1) / np.sqrt(number) / max(abs(slope), 1e-3)
    return s**2, 2 * s * float(error)


def rows(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row a setting, small batches first."""
    for batch in chosen.batches:
        for dimension in chosen.dimensions:
            for corrected in (False,) if chosen.plain else (False, True):
                for weight in chosen.weights:
                    start = time.process_time()
                    value, error = learned(dimension, batch, weight, corrected, chosen.seed)
                    yield {
                        "dimension": dimension,
                        "batch": batch,
                        "weight": weight,
                        "corrected": corrected,
                        "variance": round(value, 4),
                        "error": round(error, 4),
                        "seconds": round(time.process_time() - start, 1),
                    }


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--batches", type=int, nargs="+", default=[10, 50, 250, 1000, 4000])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 2, 10, 50, 200])
    parser.add_argument("--weights", type=float, nargs="+", default=[0.0, 0.5, 1.0])
    parser.add_argument("--plain", action="store_true", help="leave out the self-corrected loss")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """The command line."""
    gather(rows(chosen), chosen.output)
