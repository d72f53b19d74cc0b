r"""Networks that tell the data from draws of a density: their log odds are a log density ratio.

With as many records as draws, the logistic loss is least at $f = \log p/q$ (Sugiyama, Suzuki, Kanamori
2012). Networks see a fresh batch of both at every step; a tenth of the records is held out, and the
weights that are kept are a moving average of those at the step where the held-out loss was least, so
that a network cannot do worse than its first guess, $f = 0$, on records it has not seen.

A network is trained by PyTorch and kept as its weights: drawing needs no PyTorch, and a saved model is
arrays and nothing else.

$$ f(x) = W_L \tanh(… \tanh(W_1 u + b_1) …) + b_L , \qquad u = \text{features of } x , $$

and, where a bound $β$ is set, $c(x) = β \tanh(f(x)/β) ∈ [−β, β]$: bounded by construction, whatever the
weights are.

Everything here depends on the data and stays with the curator. Seeds are welcome: they cover weights,
batches and inner draws, none of which leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import softplus

from privot.errors import PrivotError
from privot.integral.densities.density import Arrays
from privot.integral.densities.secure import Floats

# How many draws' features are wanted, and with which generator.
Negatives = Callable[[int, np.random.Generator], Floats]

_BLOCK = 2**15
_HELD_OUT = 0.1
_MOST_HELD_OUT = 5000
_CHECKS = 30
_AVERAGING = 0.98
_WEIGHT_DECAY = 1e-3  # decoupled


@dataclass(frozen=True, repr=False)
class Network:
    """Weights and biases of the layers, first to last; `bound` limits the output.

    Examples:
        >>> net = Network((np.eye(2), np.ones((1, 2))), (np.zeros(2), np.zeros(1)), bound=0.5)
        >>> bool((np.abs(net(np.array([[9.0, 9.0], [-9.0, 0.0]]))) <= 0.5).all())
        True
    """

    kind: ClassVar[str] = "mlp"
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    bound: float | None = None

    def __call__(self, features: Floats) -> Floats:
        """Outputs (n,) for features (n, k)."""
        parts = [self._forward(features[i : i + _BLOCK]) for i in range(0, len(features), _BLOCK)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _forward(self, u: Floats) -> Floats:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            u = np.tanh(u @ weight.T + bias)
        f: Floats = (u @ self.weights[-1].T + self.biases[-1])[:, 0]
        return f if self.bound is None else self.bound * np.tanh(f / self.bound)

    def spec(self) -> dict[str, Any]:
        """What the arrays do not say."""
        return {"bound": self.bound}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Named arrays to be written."""
        named = {f"weight{i}": weight for i, weight in enumerate(self.weights)}
        return named | {f"bias{i}": bias for i, bias in enumerate(self.biases)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, bound: float | None) -> Self:
        """The network of the arrays and the `spec` that were written."""
        depth = len(arrays) // 2
        weights, biases = ([arrays[f"{n}{i}"] for i in range(depth)] for n in ("weight", "bias"))
        return cls(tuple(weights), tuple(biases), bound)


@dataclass(frozen=True)
class NetworkSettings:
    """How a classifying network is trained; tanh, its activation, stays level beyond the data.

    Arguments:
        hidden: Widths of the hidden layers.
        steps: Optimizer steps.
        batch_size: Records, and as many draws, a step.
        learning_rate: Peak learning rate of Adam; warm-up and cosine decay around it.
    """

    hidden: tuple[int, ...] = (64, 64, 64)
    steps: int = 1500
    batch_size: int = 1024
    learning_rate: float = 4e-3

    def __post_init__(self) -> None:
        if min((self.steps, self.batch_size, *self.hidden)) < 1:
            raise PrivotError(
                f"hidden {self.hidden}, steps {self.steps}, batch_size {self.batch_size}: "
                "give sizes of at least 1"
            )
        if not 0 < self.learning_rate <= 1:
            raise PrivotError(f"learning_rate {self.learning_rate}: give (0, 1], such as 4e-3")


def train_network(
    positives: Floats,
    negatives: Negatives,
    settings: NetworkSettings,
    seed: int,
    bound: float | None = None,
) -> Network:
    """A network that tells `positives` (n, k) from draws; its output is a log ratio, |·| ≤ bound."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(positives))
    held = min(_MOST_HELD_OUT, int(_HELD_OUT * len(positives)))
    held = held if held >= 20 else 0
    training, testing = positives[order[held:]], positives[order[:held]]
    judged = None
    if held:
        judged = (_tensor(testing), _tensor(negatives(max(held, 2000), rng)))
    layers = _build(positives.shape[1], settings, seed)
    optimizer = torch.optim.AdamW(layers.parameters(), weight_decay=_WEIGHT_DECAY)
    average = [p.detach().clone() for p in layers.parameters()]
    best = (_judge(layers, average, judged, bound), [p.clone() for p in average])
    every = max(1, settings.steps // _CHECKS)
    for step in range(settings.steps):
        rate = min(1.0, (step + 1) / 50) * 0.5 * (1 + math.cos(math.pi * step / settings.steps))
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * rate
        batch = training[rng.integers(0, len(training), settings.batch_size)]
        loss = _loss(layers, _tensor(batch), _tensor(negatives(settings.batch_size, rng)), bound)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            decay = min(_AVERAGING, (step + 1) / (step + 10))
            for kept, now in zip(average, layers.parameters(), strict=True):
                kept.lerp_(now, 1 - decay)
        if (step + 1) % every == 0 or step + 1 == settings.steps:
            score = _judge(layers, average, judged, bound)
            if judged is None or score < best[0]:
                best = (score, [p.clone() for p in average])
    arrays = [p.double().numpy() for p in best[1]]
    return Network(tuple(arrays[0::2]), tuple(arrays[1::2]), bound)


def _build(num_features: int, settings: NetworkSettings, seed: int) -> nn.Sequential:
    widths = [num_features, *settings.hidden]
    parts: list[nn.Module] = []
    # PyTorch's layers draw their weights from the global generator: lend it a seed, then restore.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for width_in, width_out in pairwise(widths):
            parts += [nn.Linear(width_in, width_out), nn.Tanh()]
        last = nn.Linear(widths[-1], 1)
    with torch.no_grad():  # the first guess is 0: the reference itself
        last.weight.zero_()
        last.bias.zero_()
    return nn.Sequential(*parts, last)


def _loss(
    layers: Callable[[Tensor], Tensor], positive: Tensor, negative: Tensor, bound: float | None
) -> Tensor:
    f = layers(torch.cat([positive, negative]))[:, 0]
    if bound is not None:
        f = bound * torch.tanh(f / bound)
    return softplus(-f[: len(positive)]).mean() + softplus(f[len(positive) :]).mean()


def _judge(
    layers: nn.Sequential,
    average: list[Tensor],
    judged: tuple[Tensor, Tensor] | None,
    bound: float | None,
) -> float:
    """Loss of the averaged weights on what was held out."""
    if judged is None:
        return math.inf
    names = [name for name, _ in layers.named_parameters()]
    with torch.no_grad():

        def averaged(u: Tensor) -> Tensor:
            return torch.func.functional_call(layers, dict(zip(names, average, strict=True)), (u,))

        return float(_loss(averaged, *judged, bound))


def _tensor(features: Floats) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(features, np.float32))
