r"""MargNet, adaptive: a generating network follows noisy marginals, measured where it is worst.

The generator is a network with 512 fixed inputs, whose outputs are 512 product distributions of codes:
a mixture p. It minimizes $\sum_c w_c \lVert \hat m_c - m_c(p) \rVert^2$ over the measured marginals.

**Measurements**, as AIM's: with ρ of zero-concentrated privacy for (ε, δ), T = 16 d rounds are planned.
All d columns are measured with noise $1/\sqrt{2 ρ_m}$, ρ_m = .9 ρ/T; then, round by round, the
exponential mechanism (ρ_s = .1 ρ/T) picks the pair of columns at which the mixture is worst, by
2 (‖n m − x‖₁ − √(1/(π ρ_m)) cells), Δ = 2, the pair is measured, and the network is trained for 300 more
steps. Where that changes the pair by less than the noise, ρ_m and ρ_s double, so that rounds end early.

**Adjacency** is add or remove: a record changes a marginal by 1 in one cell. Noise is NumPy's, unseeded:
for comparisons.

References:
    Li and others, *MargNet*, as the adaptive method of `mechanisms/margnet.py` in Private-PGM describes
    it; McKenna, Mullins, Sheldon, Miklau, *AIM* (2022).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import torch
from torch import Tensor, nn

from privot.privacy import ZeroConcentratedDP

_COMPONENTS, _STEPS, _RATE = 512, 300, 1e-3
_MEASURED, _ROUNDS_A_COLUMN = 0.9, 16
_KEPT_STATISTICS = 0.01  # of a batch, in the moving average of batch norm
Clique = tuple[int, ...]


def concentrated(epsilon: float, delta: float) -> float:
    """The largest ρ whose guarantee is (ε, δ), by bisection."""
    low, high = 0.0, epsilon + 1
    for _ in range(60):
        middle = (low + high) / 2
        fits = ZeroConcentratedDP(middle).to_approximate(delta).epsilon <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low


class Mixture(nn.Module):
    """Product distributions of codes, as many as there are inputs."""

    def __init__(self, sizes: Sequence[int], seed: int = 0) -> None:
        super().__init__()
        rng = torch.Generator().manual_seed(seed)
        drawn = [torch.randint(size, (_COMPONENTS,), generator=rng) for size in sizes]
        one_hot = [nn.functional.one_hot(x, n) for x, n in zip(drawn, sizes, strict=True)]
        self.inputs, self.sizes = torch.cat(one_hot, dim=1).float(), list(sizes)
        width = sum(sizes)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layers = nn.ModuleList(
                nn.Sequential(
                    nn.Linear(width * (1 + i), width),
                    nn.BatchNorm1d(width, momentum=_KEPT_STATISTICS),
                    nn.ReLU(),
                )
                for i in range(2)
            )
            self.last = nn.Linear(3 * width, width)

    def forward(self) -> Tensor:
        """Probabilities (512, codes) of all codes of every column, side by side."""
        x = self.inputs
        for layer in self.layers:
            x = torch.cat([layer(x), x], dim=1)
        parts = self.last(x).split(self.sizes, dim=1)
        return torch.cat([part.softmax(dim=1) for part in parts], dim=1)


class MargNet:
    """One fit: measurements so far, and the mixture that follows them."""

    def __init__(self, codes: np.ndarray, sizes: Sequence[int]) -> None:
        self.codes, self.sizes, self.mixture = codes, list(sizes), Mixture(sizes)
        self.noise = np.random.default_rng()
        ends = np.cumsum(self.sizes)
        self.places = [slice(end - n, end) for end, n in zip(ends, self.sizes, strict=True)]
        self.sums: dict[Clique, np.ndarray] = {}
        self.weights: dict[Clique, float] = {}
        self.count = self.certainty = 0.0

    def fit(self, epsilon: float, delta: float) -> None:
        """Measure and follow until the budget is spent."""
        rho, columns = concentrated(epsilon, delta), range(len(self.sizes))
        pairs: list[Clique] = list(combinations(columns, 2))
        rounds = _ROUNDS_A_COLUMN * len(self.sizes)
        measure, choose = _MEASURED * rho / rounds, (1 - _MEASURED) * rho / rounds
        weight, spent = 1.0, 0.0
        for column in columns:
            self.add((column,), self.measured((column,), measure), weight)
            spent += measure
        self.follow({})
        last = False
        while not last:
            if rho - spent < 2 * (measure + choose):
                last, left = True, rho - spent
                weight *= math.sqrt(_MEASURED * left / measure)
                measure, choose = _MEASURED * left, (1 - _MEASURED) * left
            spent += measure + choose
            pair = self.worst(pairs, measure, choose)
            before, seen = self.now(pair), pair in self.sums
            # The authors' trick: a new pair counts d times as much while it is new.
            found = self.measured(pair, measure)
            self.follow({pair: (found, len(self.sizes) * weight)})
            self.add(pair, found, weight)
            moved = self.count * np.abs(self.now(pair) - before).sum()
            if not seen and moved < len(found) / math.sqrt(math.pi * measure):
                weight, measure, choose = weight * math.sqrt(2), 2 * measure, 2 * choose
        self.follow({})

    def histogram(self, clique: Clique) -> np.ndarray:
        """Counts of all codes of some columns, flat: private."""
        sizes = [self.sizes[column] for column in clique]
        flat = np.ravel_multi_index(tuple(self.codes[:, c] for c in clique), sizes)
        return np.bincount(flat, minlength=math.prod(sizes)).astype(float)

    def measured(self, clique: Clique, rho: float) -> np.ndarray:
        """Noisy shares of all codes, which also tell how many records there are."""
        counts = self.histogram(clique)
        counts += self.noise.normal(0.0, 1 / math.sqrt(2 * rho), len(counts))
        certainty = math.sqrt(rho)
        total = self.certainty * self.count + certainty * counts.sum()
        self.certainty += certainty
        self.count = total / self.certainty
        shares = counts.clip(0.0)
        return shares / shares.sum()

    def worst(self, pairs: list[Clique], measure: float, choose: float) -> Clique:
        """A pair by the exponential mechanism, of scores with Δ = 2 and ρ = `choose`."""
        scores = [
            2 * (np.abs(self.count * self.now(pair) - self.histogram(pair)).sum())
            - 2 * math.prod(self.sizes[c] for c in pair) / math.sqrt(math.pi * measure)
            for pair in pairs
        ]
        # ε of the exponential mechanism is √(8 ρ); odds are exp(ε q / (2 Δ)).
        odds = np.exp(math.sqrt(8 * choose) / 4 * (np.array(scores) - max(scores)))
        return pairs[self.noise.choice(len(pairs), p=odds / odds.sum())]

    def add(self, clique: Clique, shares: np.ndarray, weight: float) -> None:
        """Keep a measurement beside earlier ones of the same columns."""
        self.sums[clique] = self.sums.get(clique, 0.0) + weight * shares
        self.weights[clique] = self.weights.get(clique, 0.0) + weight

    def follow(self, extra: dict[Clique, tuple[np.ndarray, float]]) -> None:
        """Train on all measurements, and on some `extra` ones with their weights."""
        sums, weights = dict(self.sums), dict(self.weights)
        for clique, (shares, weight) in extra.items():
            sums[clique] = sums.get(clique, 0.0) + weight * shares
            weights[clique] = weights.get(clique, 0.0) + weight
        # Every pair of codes at once: shares that are wanted, and how much each counts.
        width = sum(self.sizes)
        shares, counts = torch.zeros(2, width, width)
        single, alone = torch.zeros(2, width)
        for clique in sums:
            where = tuple(self.places[column] for column in clique)
            wanted = torch.from_numpy(sums[clique] / weights[clique]).float()
            if len(where) == 1:
                single[where[0]], alone[where[0]] = wanted, weights[clique]
            else:
                sizes = [self.sizes[column] for column in clique]
                shares[where], counts[where] = wanted.reshape(sizes), weights[clique]
        optimizer = torch.optim.Adam(self.mixture.parameters(), _RATE)
        self.mixture.train()
        for _ in range(_STEPS):
            made = self.mixture()
            pairs = made.T @ made / _COMPONENTS
            loss = (counts * (pairs - shares).square()).sum()
            loss = loss + (alone * (made.mean(dim=0) - single).square()).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        self.mixture.eval()

    @torch.no_grad()
    def now(self, pair: Clique) -> np.ndarray:
        """Shares of all codes of two columns in the mixture as it stands."""
        first, second = (self.mixture()[:, self.places[column]] for column in pair)
        return (first.T @ second / _COMPONENTS).flatten().numpy().astype(float)

    @torch.no_grad()
    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Codes (count, columns)."""
        which = rng.integers(_COMPONENTS, size=count)
        parts = self.mixture()[which].numpy().astype(float)
        cumulative = [parts[:, place].cumsum(axis=1) for place in self.places]
        codes = [(rng.random(count)[:, None] > c[:, :-1]).sum(axis=1) for c in cumulative]
        return np.stack(codes, axis=1)


def margnet(codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float) -> np.ndarray:
    """Synthetic codes, as many rows as `codes` (n, columns)."""
    fitted = MargNet(codes, sizes)
    fitted.fit(epsilon, delta)
    return fitted.sample(len(codes), np.random.default_rng(0))
