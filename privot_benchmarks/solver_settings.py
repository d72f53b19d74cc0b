"""What privot_benchmarks/solver.py solves: settings on images, towns and mixed tables, and references.

A generator halfway through training is emulated: its images are other digits, half blurred, which
takes about as many iterations as real ones; its towns are drawn anew and smeared. The entropic
weight is the one matched to the noise: λ = 2σ² for squares and Gaussian noise, λ = σ for ℓ1 and
Laplace noise.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from privot import Randomizer, Schema
from privot.demo.homes import BOX, draw_people
from privot.local.networks.cost import LikelihoodCost, Reports

NUM_NUMERIC, NUM_CATEGORICAL, EPSILON = 6, 8, 28.0
# Beyond this a matrix of doubles is too large: some rows of a certified solution are compared.
DENSE_UP_TO, NUM_CERTIFIED = 4096, 500
NEWTON_UP_TO, NEWTON_STEPS = 1000, 10


@dataclass(frozen=True)
class Setting:
    """One problem: points x, y in single precision with a power p, or a ready matrix of costs.

    `pull` turns what a step returns (the gradient in x, or the plan of a ready matrix) into the
    gradient that is compared. `before` are the generated points one optimizer's step earlier.
    """

    name: str
    reg: float
    p: int = 0
    x: Tensor | None = None
    y: Tensor | None = None
    matrix: Tensor | None = None
    pull: Callable[[Tensor], Tensor] = lambda gradient: gradient
    before: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of both sides."""
        return tuple(self.matrix.shape) if self.matrix is not None else (len(self.x), len(self.y))

    def cost64(self) -> Tensor:
        """Costs in double precision, straight from their definition."""
        if self.matrix is not None:
            return self.matrix.double()
        x, y = self.x.double(), self.y.double()
        if self.p == 1:
            return torch.cdist(x, y, p=1)
        return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").square_()

    def gradient_of(self, plan: Tensor) -> Tensor:
        """Gradient of ⟨plan, C⟩, the plan held fixed, in double precision."""
        if self.matrix is not None:
            return self.pull(plan)
        x, y = self.x.double(), self.y.double()
        if self.p == 2:
            return 2 * (plan.sum(dim=1, keepdim=True) * x - plan @ y)
        columns = [
            (plan * torch.sign(x[:, k, None] - y[None, :, k])).sum(dim=1) for k in range(x.shape[1])
        ]
        return torch.stack(columns, dim=1)


def images(count: int, p: int, sigma: float, data: str | None) -> Setting:
    """`count` noisy MNIST digits against as many generated ones, pixels in [−1, 1]."""
    rng = torch.Generator().manual_seed(0)
    file = Path(data or "") / "mnist.npz"
    if data and file.is_file():
        pixels = torch.from_numpy(np.load(file)["x_train"][: 2 * count]).float() / 127.5 - 1
    else:
        pixels = _made_up_digits(2 * count, rng)
    truth, other = pixels[:count].flatten(1), pixels[count:, None]
    blurred = torch.nn.functional.avg_pool2d(other, 3, stride=1, padding=1)
    x = ((other + blurred) / 2).flatten(1)
    y = truth + sigma * _noise(truth.shape, p, rng)
    name = f"b={count} d=784 p={p} σ={sigma:g}"
    return Setting(name, _matched(p, sigma), p, x, y)


def towns(count: int, p: int, sigma: float = 0.25) -> Setting:
    """`count` noisy homes in towns against as many generated ones, the box scaled to [−1, 1]²."""
    rng = torch.Generator().manual_seed(0)
    people = draw_people(2 * count, seed=0)
    low, high = torch.tensor(BOX, dtype=torch.float32).T
    homes = torch.tensor(np.stack([people["longitude"], people["latitude"]], axis=1)).float()
    homes = 2 * (homes - low) / (high - low) - 1
    y = homes[:count] + sigma * _noise((count, 2), p, rng)
    x = 0.9 * homes[count:] + 0.1 * torch.randn((count, 2), generator=rng)
    before = x + 0.003 * torch.randn((count, 2), generator=rng)
    setting = Setting(f"n={count} d=2 p={p}", _matched(p, sigma), p, x, y, before=before)
    if count <= DENSE_UP_TO:
        return setting
    return replace(setting, pull=lambda gradient: gradient[_some(count)])


def certified_gradient(setting: Setting, f: Tensor, g: Tensor) -> tuple[Tensor, float]:
    """Rows of the gradient from column potentials g by direct sums, and how far g is from optimal.

    For sizes at which no other code can solve: where f and g came from is not trusted. Rows are the
    soft-minimum over all columns; then the masses of some rows and columns of the plan of (f, g),
    each summed over everything on the other side, are compared with 1.
    """
    n, m = setting.shape
    f, g, some = f.double(), g.double(), _some(n)
    rows = replace(setting, x=setting.x[some])
    scores = (g - rows.cost64()) / setting.reg
    weights = torch.softmax(scores, dim=1) / n
    row_mass = torch.exp(torch.logsumexp(scores, dim=1) + f[some] / setting.reg) / m
    columns = replace(setting, y=setting.y[some])
    scores = (f[:, None] - columns.cost64()) / setting.reg
    column_mass = torch.exp(torch.logsumexp(scores, dim=0) + g[some] / setting.reg) / n
    error = torch.cat([row_mass - 1, column_mass - 1]).abs().mean()
    return rows.gradient_of(weights), float(error)


def _some(count: int) -> Tensor:
    """Rows and columns that stand for all."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(1))[:NUM_CERTIFIED]


def mixed_table(count: int) -> Setting:
    """Likelihood costs of 14 columns: the ready matrix, and the pull back to a head's outputs."""
    rng = torch.Generator().manual_seed(0)
    sizes = [2, 2, 5, 6, 7, 9, 14, 16][:NUM_CATEGORICAL]
    schema, truth, outputs = {}, {}, {}
    for k in range(NUM_NUMERIC):
        schema[f"n{k}"] = {"kind": "numeric", "bounds": [-1, 1]}
        truth[f"n{k}"] = torch.rand((count, 1), generator=rng).mul(2).sub(1)
        outputs[f"n{k}"] = torch.tanh(torch.randn((count, 1), generator=rng))
    for k, size in enumerate(sizes):
        schema[f"c{k}"] = {"kind": "categorical", "categories": [f"v{v}" for v in range(size)]}
        share = torch.softmax(torch.randn(size, generator=rng), dim=0)
        drawn = torch.multinomial(share, count, replacement=True, generator=rng)
        truth[f"c{k}"] = torch.nn.functional.one_hot(drawn, size).float().log()
        outputs[f"c{k}"] = torch.log_softmax(2 * torch.randn((count, size), generator=rng), dim=1)
    randomizer = Randomizer.calibrate(
        Schema.from_dict({"columns": schema}), EPSILON, mechanism="randomized_response"
    )
    model = LikelihoodCost(randomizer)
    reports = model.simulate(truth, Reports({}, dict.fromkeys(schema)), rng)
    leaves = list(outputs.values())
    for leaf in leaves:
        leaf.requires_grad_()

    def pull(plan: Tensor) -> Tensor:
        parts = torch.autograd.grad(model(outputs, reports), leaves, plan.float())
        return torch.cat(parts, dim=1)

    matrix = model(outputs, reports).detach()
    return Setting(f"b={count} mixed, 14 columns", 1.0, matrix=matrix, pull=pull)


def reference_gradient(setting: Setting, tolerance: float = 1e-8) -> tuple[Tensor, float, int]:
    """Converged gradient in double precision, its plan's marginal error, and iterations taken.

    Sinkhorn in the kernel domain, absorbing at e^{±30}, with successive over-relaxation: ω comes
    from the observed rate r by (r + ω − 1)² = ω² ρ r, where ρ is the rate without relaxation. Not
    the library's code. Small problems end with Newton steps on the column potentials' dual.
    """
    cost = setting.cost64()
    n, m = cost.shape
    f, g = cost.amin(dim=1), torch.zeros(m, dtype=torch.float64)
    kernel = torch.exp((f[:, None] - cost) / setting.reg)
    u, v = torch.ones(n, dtype=torch.float64), torch.ones(m, dtype=torch.float64)
    omega, last, error, checked = 1.0, float("inf"), float("inf"), 0
    for iteration in range(1, 2_000):
        row = (kernel @ v) / m
        if iteration % 20 == 0:
            error = float((u * row - 1).abs().mean())
            if error < tolerance:
                break
            rate = min((error / last) ** (1 / 20), 0.9999) if last < float("inf") else 0.0
            if error > 2 * last:
                omega = 1.0
            elif rate > omega - 1 and checked > 1:
                plain = min((rate + omega - 1) ** 2 / (omega**2 * rate), 0.99999)
                omega = max(omega, min(2 / (1 + (1 - plain) ** 0.5), 1.99))
            last, checked = error, checked + 1
        u = u ** (1 - omega) * row**-omega
        v = v ** (1 - omega) * ((u @ kernel) / n) ** -omega
        if max(float(u.log().abs().max()), float(v.log().abs().max())) > 30:
            f, g = f + setting.reg * u.log(), g + setting.reg * v.log()
            kernel = torch.exp((f[:, None] + g - cost) / setting.reg)
            u, v = torch.ones_like(u), torch.ones_like(v)
    gamma = g / setting.reg + v.log()
    for _ in range(NEWTON_STEPS if n <= NEWTON_UP_TO else 1):
        scores = gamma - cost / setting.reg
        plan = torch.softmax(scores, dim=1) / n
        gap = 1 / m - plan.sum(dim=0)
        if n > NEWTON_UP_TO or float(gap.abs().sum()) < 1e-13:
            break
        curvature = torch.diag(plan.sum(dim=0)) - n * plan.T @ plan
        # The dual is flat along constants, and nearly so between clusters that exchange no mass.
        gamma = gamma + torch.linalg.lstsq(curvature, gap[:, None], driver="gelsd").solution[:, 0]
    return setting.gradient_of(plan), float(gap.abs().sum()), iteration


def data_folder() -> str | None:
    """Where MNIST lies, from PRIVOT_DATA."""
    return os.environ.get("PRIVOT_DATA")


def _matched(p: int, sigma: float) -> float:
    return p * sigma**p


def _noise(shape: tuple[int, ...], p: int, rng: torch.Generator) -> Tensor:
    if p == 2:
        return torch.randn(shape, generator=rng)
    uniform = torch.rand(shape, generator=rng) - 0.5
    return -uniform.sign() * torch.log1p(-2 * uniform.abs().clamp_max(0.499999))


def _made_up_digits(count: int, rng: torch.Generator) -> Tensor:
    """Strokes of five blobs, where MNIST is missing."""
    centers = 6 + 16 * torch.rand((count, 5, 2, 1, 1), generator=rng)
    grid = torch.arange(28.0)
    squares = (grid[:, None] - centers[:, :, 0]) ** 2 + (grid - centers[:, :, 1]) ** 2
    return (2 * torch.exp(-squares / 8).sum(dim=1)).clamp_max(2) - 1
