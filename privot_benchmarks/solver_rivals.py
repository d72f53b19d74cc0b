"""POT, geomloss and OTT-JAX on the settings of privot_benchmarks/solver.py, each in several forms.

A form is one way of calling a library well; its knob (tolerance, scaling, iterations) trades time
for accuracy and is listed from fast to accurate. What users of each library would trip over:

- POT: its kernel domain overflows or underflows in high dimension, so costs are shifted by row and
  column minima first, which changes no plan; `sinkhorn2` differentiates another objective, so the
  gradient is taken from the plan.
- geomloss: `p=2` is half the square and `p=1` the Euclidean norm, so blur, costs and gradients are
  converted; no debiasing. `multiscale` is 60 % off in the ℓ1 cost, and the exact backends need half
  a minute for 4096 points there: no time of theirs is listed for that row.
- OTT: a point cloud with an ℓ1 cost computes it anew every iteration: it is handed the matrix,
  computed once a step.
"""

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from solver_settings import DENSE_UP_TO, Setting
from torch import Tensor

# Stands for OTT's momentum that follows the errors.
ADAPTIVE = 0.0

# Calls the library once and returns the gradient (see Setting.pull).
Step = Callable[[], Tensor]


@dataclass(frozen=True)
class Form:
    """One way of calling a library: makes a step for a setting and a value of the knob."""

    library: str
    name: str
    knobs: tuple[float, ...]
    make: Callable[[Setting, float], Step]
    fits: Callable[[Setting], bool]


def cost_matrix(setting: Setting) -> Tensor:
    """Costs in single precision, by one matrix product (p = 2) or `cdist` (p = 1)."""
    if setting.matrix is not None:
        return setting.matrix
    x, y = setting.x, setting.y
    if setting.p == 1:
        return torch.cdist(x, y, p=1)
    squares = (x * x).sum(dim=1)[:, None] + (y * y).sum(dim=1)
    return torch.addmm(squares, x, y.T, alpha=-2)


def pulled_back(setting: Setting, plan: Tensor) -> Tensor:
    """Gradient of ⟨plan, C⟩ in x, the plan held fixed, by the same means."""
    if setting.matrix is not None:
        return plan
    if setting.p == 2:
        return 2 * (plan.sum(dim=1, keepdim=True) * setting.x - plan @ setting.y)
    x = setting.x.detach().requires_grad_()
    return torch.autograd.grad(torch.cdist(x, setting.y, p=1), x, plan)[0]


def dense(setting: Setting) -> bool:
    """Whether a matrix of costs fits."""
    return max(setting.shape) <= DENSE_UP_TO


def pot_forms() -> list[Form]:
    """`ot.sinkhorn`: log or kernel domain, NumPy or torch, single or double precision."""
    import ot

    def make(method: str, numpy: bool, dtype: torch.dtype, setting: Setting, knob: float) -> Step:
        n, m = setting.shape

        def step() -> Tensor:
            cost = cost_matrix(setting)
            if method != "sinkhorn_log":
                cost = cost - cost.amin(dim=1, keepdim=True)
                cost = cost - cost.amin(dim=0, keepdim=True)
            cost = cost.to(dtype)
            a, b = torch.full((n,), 1 / n, dtype=dtype), torch.full((m,), 1 / m, dtype=dtype)
            if numpy:
                a, b, cost = a.numpy(), b.numpy(), cost.numpy()
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                plan = ot.sinkhorn(
                    a, b, cost, setting.reg, method=method, stopThr=knob, numItermax=4000
                )
            return pulled_back(setting, torch.as_tensor(plan).float())

        return step

    # The marginal's error in the Euclidean norm, of weights 1/n.
    knobs = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6)
    return [
        Form("POT", name, knobs, functools.partial(make, method, numpy, dtype), dense)
        for name, method, numpy, dtype in (
            ("log, torch fp32", "sinkhorn_log", False, torch.float32),
            ("kernel, numpy fp64", "sinkhorn", True, torch.float64),
            ("kernel, torch fp64", "sinkhorn", False, torch.float64),
            ("kernel, torch fp32", "sinkhorn", False, torch.float32),
        )
    ]


def geomloss_forms() -> list[Form]:
    """`SamplesLoss` with every backend that fits, and the newer `ot.solve`."""
    from geomloss import SamplesLoss, ot

    def loss(backend: str, setting: Setting, knob: float, **more: float) -> Step:
        half = 2.0 if setting.p == 2 else 1.0  # their cost is half the square
        blur = (setting.reg / half) ** (1 / max(setting.p, 1))
        cost = None
        if setting.p == 1 and backend == "tensorized":
            cost = functools.partial(torch.cdist, p=1)
        elif setting.p == 1:
            formula = "Sum(Abs(X-Y))"
            metric = functools.partial(torch.cdist, p=1)
            cost = formula if backend == "online" else (formula, metric)
        criterion = SamplesLoss(
            "sinkhorn",
            p=setting.p,
            blur=blur,
            scaling=knob,
            debias=False,
            backend=backend,
            cost=cost,
            **more,
        )

        def step() -> Tensor:
            x = setting.x.detach().requires_grad_()
            return half * torch.autograd.grad(criterion(x, setting.y), x)[0]

        return step

    def new(setting: Setting, knob: float) -> Step:
        def step() -> Tensor:
            plan = ot.solve(cost_matrix(setting), reg=setting.reg, max_iter=int(knob)).plan
            return pulled_back(setting, plan)

        return step

    scalings = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.993, 0.995)

    def points(setting: Setting) -> bool:
        return setting.matrix is None

    def plane(setting: Setting) -> bool:
        return points(setting) and setting.x.shape[1] <= 3

    def form(name: str, fits: Callable[[Setting], bool], backend: str, **more: float) -> Form:
        return Form("geomloss", name, scalings, functools.partial(loss, backend, **more), fits)

    forms = [
        form("tensorized", lambda s: points(s) and dense(s), "tensorized"),
        Form("geomloss", "ot.solve", (10, 20, 50, 100, 200, 500, 1000), new, dense),
    ]
    try:
        import pykeops

        pykeops.set_verbose(False)
    except ImportError:
        return forms
    return [
        *forms,
        form("online", plane, "online"),
        form("multiscale", plane, "multiscale"),
        form("multiscale, coarser clusters", plane, "multiscale", cluster_scale=0.1),
        form("multiscale, truncate 10", plane, "multiscale", truncate=10),
    ]


def ott_forms() -> list[Form]:
    """`Sinkhorn` in log-sum-exp or kernel mode, plain or over-relaxed, on a matrix or points.

    Everything is compiled into one function. The ℓ1 cost and its gradient are loops that XLA
    vectorizes (`scan` over coordinates, `map` over rows): much faster than an (n, m, d) expression.
    """
    import jax
    import jax.numpy as jnp
    from ott.geometry import geometry, pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import acceleration, sinkhorn

    def solver_of(mode: str, momentum: float, inner: int, knob: float) -> sinkhorn.Sinkhorn:
        if momentum == ADAPTIVE:
            relaxed = acceleration.Momentum(start=20, error_threshold=0.1, inner_iterations=inner)
        else:
            relaxed = acceleration.Momentum(value=momentum)
        return sinkhorn.Sinkhorn(
            lse_mode=mode == "lse",
            threshold=knob,
            inner_iterations=inner,
            max_iterations=8000,
            momentum=relaxed,
        )

    def squares(x: jax.Array, y: jax.Array) -> jax.Array:
        return (x * x).sum(axis=1)[:, None] + (y * y).sum(axis=1) - 2 * x @ y.T

    def manhattan(x: jax.Array, y: jax.Array) -> jax.Array:
        def add(total: jax.Array, columns: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            return total + jnp.abs(columns[0][:, None] - columns[1]), None

        return jax.lax.scan(add, jnp.zeros((len(x), len(y))), (x.T, y.T))[0]

    def pull_squares(x: jax.Array, y: jax.Array, plan: jax.Array) -> jax.Array:
        return 2 * (plan.sum(axis=1)[:, None] * x - plan @ y)

    def pull_manhattan(x: jax.Array, y: jax.Array, plan: jax.Array) -> jax.Array:
        return jax.lax.map(lambda row: row[1] @ jnp.sign(row[0] - y), (x, plan))

    def on_matrix(mode: str, momentum: float, inner: int, setting: Setting, knob: float) -> Step:
        solver = solver_of(mode, momentum, inner, knob)

        def solve(cost: jax.Array) -> jax.Array:
            if mode == "kernel":
                cost = cost - cost.min(axis=1, keepdims=True)
                cost = cost - cost.min(axis=0, keepdims=True)
            geom = geometry.Geometry(cost_matrix=cost, epsilon=setting.reg)
            return solver(linear_problem.LinearProblem(geom)).matrix

        if setting.matrix is not None:
            compiled, matrix = jax.jit(solve), jnp.asarray(setting.matrix.numpy())
            return lambda: torch.from_numpy(np.array(compiled(matrix)))
        ground, pull = {1: (manhattan, pull_manhattan), 2: (squares, pull_squares)}[setting.p]
        x, y = jnp.asarray(setting.x.numpy()), jnp.asarray(setting.y.numpy())
        step = jax.jit(lambda x, y: pull(x, y, solve(ground(x, y))))
        return lambda: torch.from_numpy(np.array(step(x, y)))

    def on_points(setting: Setting, knob: float) -> Step:
        solver = solver_of("lse", 1.0, 10, knob)
        x, y = jnp.asarray(setting.x.numpy()), jnp.asarray(setting.y.numpy())

        def value(x: jax.Array, y: jax.Array) -> jax.Array:
            geom = pointcloud.PointCloud(x, y, epsilon=setting.reg)
            return solver(linear_problem.LinearProblem(geom)).reg_ot_cost

        gradient = jax.jit(jax.grad(value))
        return lambda: torch.from_numpy(np.array(gradient(x, y)))

    knobs = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
    forms = [
        Form(
            "OTT",
            f"{mode}, {name}, every {inner}",
            knobs,
            functools.partial(on_matrix, mode, momentum, inner),
            dense,
        )
        for mode in ("lse", "kernel")
        for name, momentum in (("plain", 1.0), ("ω=1.5", 1.5), ("ω=1.7", 1.7))
        for inner in (1, 5, 10)
    ]
    adaptive = functools.partial(on_matrix, "lse", ADAPTIVE, 10)
    forms.append(Form("OTT", "lse, adaptive, every 10", knobs, adaptive, dense))
    own = Form("OTT", "point cloud", knobs, on_points, lambda s: dense(s) and s.p == 2)
    return [*forms, own]


LIBRARIES = {"POT": pot_forms, "geomloss": geomloss_forms, "OTT": ott_forms}
