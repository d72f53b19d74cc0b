r"""Products of matrices in full single precision, by the faster of the two libraries inside PyTorch.

`torch.mm` hands products of single precision to the BLAS that PyTorch was built with; on x86 that is
MKL, which on other makers' processors keeps to instructions half as wide as they have. oneDNN, built
into the same PyTorch, uses the wide ones: on two cores of an AMD EPYC (Zen 5) it takes 0.58 ms for
(400, 784) times (784, 400), MKL 1.25 ms, to the same rounding errors. Asking for short products, by
`set_float32_matmul_precision("medium")`, reaches it too, but lets it round to bfloat16 where the
processor can; the operator called here never does within "highest".

It is PyTorch's own, for compiled models, and not of its public interface: where it is missing, refuses
its arguments or errs in a trial product, `torch.mm` does the work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

# Fewer multiplications than these are done before oneDNN has found its code.
_WORTH_IT = 2**20


def product(a: Tensor, b: Tensor) -> Tensor:
    """Products $⟨a_i, b_j⟩$ of the rows of a (n, k) and b (m, k), shape (n, m); no gradients.

    Exact to single precision where PyTorch's products are: see `set_float32_matmul_precision`.
    """
    wide = _wide_product()
    if (
        wide is None
        or a.device.type != "cpu"
        or not a.dtype == b.dtype == torch.float32
        or len(a) * b.numel() < _WORTH_IT
    ):
        return a @ b.T
    return wide(a, b)


@cache
def _wide_product() -> Callable[[Tensor, Tensor], Tensor] | None:
    """The product by oneDNN, if it is there and right."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return None
    trial = torch.arange(48.0).reshape(3, 16)
    try:
        right = torch.equal(_by_onednn(trial, trial.flip(0)), trial @ trial.flip(0).T)
    except (AttributeError, RuntimeError):
        return None
    return _by_onednn if right else None


def _by_onednn(a: Tensor, b: Tensor) -> Tensor:
    out: Tensor = torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")
    return out
