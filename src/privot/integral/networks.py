"""Training of networks that distinguish records from draws of a density, by PyTorch.

With as many records as draws, the logistic loss is minimal at the log ratio of the densities of records
and of draws (Sugiyama, Suzuki, Kanamori 2012). Every step uses a new batch of records and of draws. A
tenth of the records is held out. The result is the moving average of the weights at the step with the
smallest held-out loss, which is not larger than the loss of the initial f = 0. It consists of arrays
(`privot.integral.learners.Network`), which are evaluated without PyTorch.

Training may use the records without restriction: see `privot.integral.learners`.

References:
    Sugiyama, Suzuki, Kanamori, *Density ratio estimation in machine learning* (2012).
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from privot.integral.learners import Draw, Network, NetworkSettings
from privot.integral.references import Floats

# Share of held-out records, their limits (with fewer, none are held out), and smallest number of draws.
_HELD_OUT, _MIN_HELD_OUT, _MAX_HELD_OUT, _MIN_HELD_OUT_DRAWS = 0.1, 20, 5000, 2000
_CHECKS, _WARM_UP = 30, 50  # number of evaluations on held-out records; steps of warm-up
_AVERAGING, _WEIGHT_DECAY = 0.98, 1e-3


def train_network(
    positives: Floats, draw: Draw, settings: NetworkSettings, seed: int, bound: float | None = None
) -> Network:
    """Train a network to distinguish features of records, `positives` (n, k), from features of draws.

    The absolute log odds are at most `bound`, if it is given.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(positives))
    num_held_out = min(_MAX_HELD_OUT, int(_HELD_OUT * len(positives)))
    if num_held_out < _MIN_HELD_OUT:
        num_held_out = 0
    training, testing = positives[order[num_held_out:]], positives[order[:num_held_out]]
    held_out = None
    if num_held_out:
        held_out = _tensor(testing), _tensor(draw(max(num_held_out, _MIN_HELD_OUT_DRAWS), rng))
    layers = _build(positives.shape[1], settings, seed)
    optimizer = torch.optim.AdamW(layers.parameters(), weight_decay=_WEIGHT_DECAY)
    average = [p.detach().clone() for p in layers.parameters()]
    best_loss = _held_out_loss(layers, average, held_out, bound)
    best = [mean.clone() for mean in average]
    check_every = max(1, settings.steps // _CHECKS)
    for step in range(1, settings.steps + 1):
        decay = 0.5 * (1 + math.cos(math.pi * (step - 1) / settings.steps))
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * (min(1.0, step / _WARM_UP) * decay)
        batch = training[rng.integers(0, len(training), settings.batch_size)]
        optimizer.zero_grad(set_to_none=True)
        _loss(layers, _tensor(batch), _tensor(draw(settings.batch_size, rng)), bound).backward()
        optimizer.step()
        with torch.no_grad():
            retained = min(_AVERAGING, step / (step + 9))  # small at first: early weights fade
            for mean, parameter in zip(average, layers.parameters(), strict=True):
                mean.lerp_(parameter, 1 - retained)
        if step % check_every == 0 or step == settings.steps:
            loss = _held_out_loss(layers, average, held_out, bound)
            if held_out is None or loss < best_loss:
                best_loss, best = loss, [mean.clone() for mean in average]
    arrays = [p.double().numpy() for p in best]
    return Network(tuple(arrays[0::2]), tuple(arrays[1::2]), bound)


def _build(num_features: int, settings: NetworkSettings, seed: int) -> nn.Sequential:
    """Build the layers, initially with f = 0 everywhere."""
    widths = [num_features, *settings.hidden]
    parts: list[nn.Module] = []
    # PyTorch's layers draw their weights from the global generator, which is seeded temporarily.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for width_in, width_out in pairwise(widths):
            parts += [nn.Linear(width_in, width_out), nn.Tanh()]
        last = nn.Linear(widths[-1], 1)
    with torch.no_grad():
        last.weight.zero_()
        last.bias.zero_()
    return nn.Sequential(*parts, last)


def _loss(
    layers: Callable[[Tensor], Tensor], positive: Tensor, negative: Tensor, bound: float | None
) -> Tensor:
    """Return the logistic loss of the log odds f of features (n, k), bounded if there is a bound."""
    f = layers(torch.cat([positive, negative]))[:, 0]
    if bound is not None:
        f = bound * torch.tanh(f / bound)
    return softplus(-f[: len(positive)]).mean() + softplus(f[len(positive) :]).mean()


def _held_out_loss(
    layers: nn.Sequential,
    average: list[Tensor],
    held_out: tuple[Tensor, Tensor] | None,
    bound: float | None,
) -> float:
    """Return the loss of the averaged weights on held-out records; ∞ if there are none."""
    if held_out is None:
        return math.inf
    weights = dict(zip((name for name, _ in layers.named_parameters()), average, strict=True))
    with torch.no_grad():
        averaged = partial(torch.func.functional_call, layers, weights)
        return float(_loss(averaged, *held_out, bound))


def _tensor(features: Floats) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(features, np.float32))
