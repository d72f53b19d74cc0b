r"""Ground costs between two clouds of points, as matrices that autograd can differentiate.

`manhattan` is $‖x − y‖_1$; `squared_euclidean` is $‖x − y‖_2^2$, without the factor ½ of some libraries.
Divided by $b$ and $2σ^2$, they are the negative log-likelihoods, up to a constant, of noise of density
$∝ e^{−‖s‖_1/b}$ and $∝ e^{−‖s‖_2^2/(2σ^2)}$.

**Gradients** are computed explicitly, for weights G of the pairs. The gradient of
$Σ_{ij} G_{ij} ‖x_i − y_j‖_2^2$ in $x_i$ is $2 (x_i \sum_j G_{ij} − \sum_j G_{ij} y_j)$, by a matrix
product, or by a sum over the pairs that are not negligible. The gradient of
$Σ_{ij} G_{ij} ‖x_i − y_j‖_1$ is a sum of signs, by compiled loops (`privot.transport.pair_loops`).

**Matrix products** are of full single precision, by the faster of two libraries inside PyTorch. On x86,
`torch.mm` calls MKL, which uses AVX-512 on Intel's processors only, while oneDNN uses it on others, too.
On two cores of an AMD EPYC (Zen 5), oneDNN's product of (400, 784) and (784, 400) takes 0.58 ms instead
of 1.25 ms, with the same rounding errors. Its operator is internal to PyTorch, and never uses bfloat16
in the precision "highest". If the operator does not exist or fails a trial product, `torch.mm` is used.
"""

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from privot.core.errors import PrivotError
from privot.transport import pair_loops

_NUMBA = find_spec("numba") is not None
# Up to this many coordinates, inner loops run over points instead of coordinates.
_FEW_COORDINATES, _FEW_COORDINATES_SQUARED = 32, 8
# Shares of pairs that are not negligible. Up to the first share, a sum over a list of these pairs is
# faster than a matrix product. Above the second, a blocked loop over all pairs is faster than the sum.
_SPARSE, _DENSE = 0.15, 0.5
_SAMPLED_ROWS = 64  # rows by which the share is estimated
_BLOCK_ROWS = 4  # rows that blocked loops process together
_MIN_MULTIPLICATIONS = 2**20  # for fewer, oneDNN's overhead exceeds the gain
# Work is measured in coordinate differences, over all pairs.
_MAX_WORK_OF_ONE_THREAD = 2**24  # for less, waking threads takes as long as they save
_SQUARE_WORK = 8  # work of completing the square of one matrix entry
_MIN_ROWS_OF_THREAD = 8


def manhattan(x: Tensor, y: Tensor) -> Tensor:
    """Return the costs $‖x_i − y_j‖_1$ (n, m) of points x (n, d) and y (m, d).

    Raises:
        PrivotError: if x and y are not matrices with equally many columns.

    Examples:
        >>> manhattan(torch.zeros(1, 2), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[7., 1.]])
    """
    _check(x, y)
    if runs_compiled(x) and x.dtype == y.dtype:
        cost: Tensor = _Manhattan.apply(x, y)
        return cost
    return torch.cdist(x, y, p=1)


def squared_euclidean(x: Tensor, y: Tensor) -> Tensor:
    """Return the costs $‖x_i − y_j‖_2^2$ (n, m) of points x (n, d) and y (m, d).

    The square is expanded into a matrix product. Points are centered on the mean of y before, so that a
    common offset does not cancel digits.

    Raises:
        PrivotError: if x and y are not matrices with equally many columns.

    Examples:
        >>> squared_euclidean(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
        tensor([[25.]])
    """
    _check(x, y)
    cost: Tensor = _SquaredEuclidean.apply(x, y)
    return cost


class _Ground(torch.autograd.Function):
    """Base of ground costs; `forward` stores x, y, and the power 1 or 2 of the differences."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, y = ctx.saved_tensors
        return (
            _gradient(x, y, grad, ctx.power) if ctx.needs_input_grad[0] else None,
            _gradient(y, x, grad.T, ctx.power) if ctx.needs_input_grad[1] else None,
        )


class _Manhattan(_Ground):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.power = 1
        ctx.save_for_backward(x, y)
        if x.shape[1] <= _FEW_COORDINATES or min(len(x), len(y)) < _BLOCK_ROWS:
            return _cost_of_few_coordinates(x, y, 1)
        cost = x.new_empty(len(x), len(y))
        points, others, out = _array(x), _array(y), cost.numpy()
        _over_rows(len(x), cost.numel() * x.shape[1], pair_loops.cost_blocks, points, others, out)
        return cost


class _SquaredEuclidean(_Ground):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.power = 2
        center = y.mean(dim=0, keepdim=True)
        x, y = x - center, y - center
        ctx.save_for_backward(x, y)
        compiled = runs_compiled(x) and x.dtype == y.dtype
        if compiled and x.shape[1] <= _FEW_COORDINATES_SQUARED:
            return _cost_of_few_coordinates(x, y, 2)
        squares_x, squares_y = torch.linalg.vecdot(x, x), torch.linalg.vecdot(y, y)
        with _full_precision(x):
            cost = product(x, y)
        if not compiled:
            return cost.mul_(-2).add_(squares_x[:, None]).add_(squares_y).clamp_min_(0)
        loop, work = pair_loops.complete_squares, _SQUARE_WORK * cost.numel()
        _over_rows(len(x), work, loop, _array(squares_x), _array(squares_y), cost.numpy())
        return cost


def _gradient(x: Tensor, y: Tensor, weights: Tensor, power: int) -> Tensor:
    """Return the gradient (n, d) in x of Σ_ij G_ij C_ij, for ℓ1 costs (power 1) or squares (power 2).

    With few coordinates, a loop runs over all pairs. With many, it runs over a list of the pairs that
    are not negligible, if their share, estimated from the first rows, is small. Else the gradient is a
    matrix product for squares, and a blocked loop for ℓ1. Without compiled loops it is the matrix
    product, because `manhattan` calls this function only with compiled loops.
    """
    n, d = x.shape
    if not (runs_compiled(x) and x.dtype == y.dtype == weights.dtype):
        return _squared_product(x, y, weights)
    points, others, pairs = _array(x), _array(y), _array(weights)
    if power == 1:
        points, others = _scaled_up(points, others)
    gradient = torch.empty_like(x, memory_format=torch.contiguous_format)
    out = gradient.numpy()
    work = pairs.size * d
    if d <= (_FEW_COORDINATES if power == 1 else _FEW_COORDINATES_SQUARED):
        others = np.ascontiguousarray(others.T)
        _over_rows(n, work, pair_loops.gradient_few, points, others, pairs, out, power)
        return gradient
    counts, listed = np.empty(n, np.int32), np.empty(pairs.shape, np.int32)
    rows = min(n, _SAMPLED_ROWS)
    share = pair_loops.list_columns(pairs, 0, rows, counts, listed) / (rows * pairs.shape[1])
    if power == 2 and share > _SPARSE:
        return _squared_product(x, y, weights)
    if power == 1 and share > _DENSE and n >= _BLOCK_ROWS:
        _over_rows(n, work, pair_loops.manhattan_gradient, points, others, pairs, out)
        return gradient
    num_listed = pair_loops.list_columns(pairs, 0, n, counts, listed)
    loop = pair_loops.sparse_manhattan_gradient if power == 1 else pair_loops.squared_gradient
    _over_rows(n, num_listed * d, loop, points, others, pairs, counts, listed, out)
    return gradient


def _scaled_up(x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Multiply points by a power of two, after which clipped differences are signs (see `pair_loops`).

    NumPy is used because torch's threads would spin afterwards, on the cores that the loops need.
    """
    largest = max(float(np.abs(x).max()), float(np.abs(y).max()))
    if not 0 < largest < math.inf:
        return x, y
    # Two factors, because a single one may overflow if the points are tiny.
    power = 100 - math.frexp(largest)[1]
    half, rest = x.dtype.type(2.0 ** (power // 2)), x.dtype.type(2.0 ** (power - power // 2))
    return x * half * rest, y * half * rest


def _squared_product(x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """Return the gradient (n, d) of the squared cost, by a matrix product of centered points."""
    with _full_precision(x):
        sums = product(weights, y.T)
    return torch.mul(weights.sum(dim=1, keepdim=True), x).sub_(sums).mul_(2)


def _cost_of_few_coordinates(x: Tensor, y: Tensor, power: int) -> Tensor:
    """Return ℓ1 costs (power 1) or squared costs (power 2) (n, m), by loops over the points."""
    cost = x.new_empty(len(x), len(y))
    points, columns = _array(x), np.ascontiguousarray(_array(y).T)
    work = cost.numel() * x.shape[1]
    _over_rows(len(x), work, pair_loops.cost_few, points, columns, cost.numpy(), power)
    return cost


def _over_rows(num_rows: int, work: int, loop: Callable[..., Any], *arguments: Any) -> None:
    """Run loop(first row, end, *arguments) on all rows, in threads if there is much `work`."""
    parts = 1
    if work > _MAX_WORK_OF_ONE_THREAD:
        parts = min(torch.get_num_threads(), num_rows // _MIN_ROWS_OF_THREAD)
    if parts <= 1:
        loop(0, num_rows, *arguments)
        return
    edges = [num_rows * part // parts for part in range(parts + 1)]
    in_threads(lambda part: loop(edges[part], edges[part + 1], *arguments), parts)


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().contiguous().numpy()
    return array


@contextmanager
def _full_precision(like: Tensor) -> Iterator[None]:
    """Disable TF32 and bfloat16 inside the block, whose 11 and 8 significant bits are too few."""
    if like.device.type == "cuda":
        allowed = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = False
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = allowed
        return
    with product_precision("highest"):
        yield


@contextmanager
def product_precision(precision: str) -> Iterator[None]:
    """Set PyTorch's precision of products of float32 matrices inside the block.

    "highest" is full precision. "medium" allows bfloat16, which is twice as fast on processors with
    instructions for it, and has no effect on others.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _check(x: Tensor, y: Tensor) -> None:
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise PrivotError(
            f"points have shapes {tuple(x.shape)} and {tuple(y.shape)}: give (n, d) and (m, d)"
        )


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return the products $⟨a_i, b_j⟩$ (n, m) of rows of a (n, k) and b (m, k), without gradients."""
    single = a.device.type == "cpu" and a.dtype == b.dtype == torch.float32
    if not single or len(a) * b.numel() < _MIN_MULTIPLICATIONS or not _onednn_is_faster():
        return a @ b.T
    return _by_onednn(a, b)


@cache
def _onednn_is_faster() -> bool:
    """Return whether oneDNN can use AVX-512, and its product exists and is correct in a trial."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    trial = torch.arange(48.0).reshape(3, 16)
    try:
        return torch.equal(_by_onednn(trial, trial.flip(0)), trial @ trial.flip(0).T)
    except (AttributeError, RuntimeError):
        return False


def _by_onednn(a: Tensor, b: Tensor) -> Tensor:
    out: Tensor = torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")
    return out


def runs_compiled(tensor: torch.Tensor) -> bool:
    """Return whether compiled loops can process a tensor: on the CPU, of single or double precision."""
    supported = tensor.dtype in (torch.float32, torch.float64)
    return _NUMBA and tensor.device.type == "cpu" and supported


def in_threads(task: Callable[[int], Any], count: int, parallel: bool = True) -> list[Any]:
    """Return task(0), …, task(count − 1), computed by as many threads as torch uses if `parallel`."""
    workers = min(torch.get_num_threads(), count) if parallel else 1
    if workers <= 1:
        return [task(k) for k in range(count)]
    return list(_pool(workers, os.getpid()).map(task, range(count)))


@lru_cache(maxsize=1)
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    """Return a pool of threads, cached because starting threads would take longer than a small step.

    `process` is part of the cache's key because a forked child inherits the pool without its threads.
    """
    return ThreadPoolExecutor(workers, thread_name_prefix="privot")
