r"""Rényi curves of slicing, unsampled and subsampled.

The mechanism publishes $(U, XU + V)$, V of i.i.d. $N(0, σ²)$, U drawn afresh and independent of the
data. Given U it is Gaussian with squared sensitivity H, and so, no δ spent on the sensitivity,

$$ e^{(α−1)D_α} = E\,e^{α(α−1)H/(2σ²)} =: M_α , \qquad ε(α) = \frac{\log M_α}{α − 1} . $$

**Fixed-size sampling without replacement**, `replace_one`: a fresh uniformly random B of N records in
uniformly random row order, q = B/N (Wang, Balle, Kasiviswanathan 2019, Theorem 9, fed with this curve):

$$ ε_{sub}(α) = \tfrac{1}{α−1} \log\Big(1 + q²\tbinom α2 \min\{4(e^{ε(2)}−1), 2e^{ε(2)}\}
   + \sum_{j=3}^{α} 2 q^j \tbinom αj e^{(j−1)ε(j)}\Big) . $$

**Padded Poisson sampling**, `zero_out`: each record enters with probability q, whoever entered stands in
uniformly random slots of a public constant number of rows, the other rows are blank. Given U and the
others' slots, the record's slot holds $N(0, σ²)$ against $(1−q)N(0, σ²) + qN(z, σ²)$, and

$$ ε_{sub}(α) = \tfrac{1}{α−1} \log \sum_{l=0}^{α} \tbinom αl (1−q)^{α−l} q^l M_l ,
   \quad M_0 = M_1 = 1 . $$

For each H the other order of the pair is below this one (Mironov, Talwar, Zhang 2019, Theorem 5), hence
its average over H too. Without padding every row brings a noise row of its own, the count of rows
shows who takes part, and neither formula means anything.

Both formulas hold for integer α ≥ 2.
"""

import math

import numpy as np
import scipy

from privot.privacy.slicing.sensitivity import Floats, ProjectedLength

SAMPLED_ORDERS = np.array(
    [*range(2, 65), *range(68, 129, 4), *range(144, 257, 16), *range(288, 513, 32)], dtype=np.int64
)
FULL_BATCH_ORDERS = 1.0 + np.geomspace(1e-3, 1e6, 400)
# Sums of 512 positive terms of log-gamma accuracy; and log-gamma loses 1e-16 of ~3000.
_ERROR = 1e-11


def full_batch_renyi(
    length: ProjectedLength, stddev: float, rate: float = 1.0
) -> tuple[Floats, Floats]:
    """Return orders and ε(α) = log E exp(α(α−1)H/2σ²)/(α−1) at rate 1, rounded up."""
    assert rate == 1
    orders = FULL_BATCH_ORDERS
    moments = length.log_moment(orders * (orders - 1) / (2 * stddev**2))
    return orders, moments / (orders - 1) * (1 + _ERROR)


def without_replacement_renyi(
    length: ProjectedLength, stddev: float, rate: float
) -> tuple[Floats, Floats]:
    """Return orders and ε_sub(α) of one batch drawn without replacement, rounded up."""
    j = np.arange(2, SAMPLED_ORDERS[-1] + 1)
    log_moments = _log_moments(length, stddev, j)
    log_factors = math.log(2) + log_moments
    log_factors[0] = min(math.log(4) + _log_expm1(log_moments[:1])[0], log_factors[0])
    return _mixed(j, log_factors + j * math.log(rate), np.zeros(len(j)))


def padded_poisson_renyi(
    length: ProjectedLength, stddev: float, rate: float
) -> tuple[Floats, Floats]:
    """Return orders and ε_sub(α) of one padded Poisson batch, rounded up."""
    # As Σ_l C(α,l)(1−q)^(α−l) q^l = 1, only M_l − 1 remains, and a small sum keeps its digits.
    j = np.arange(2, SAMPLED_ORDERS[-1] + 1)
    log_factors = _log_expm1(_log_moments(length, stddev, j)) + j * math.log(rate)
    left_out = math.log1p(-rate) if rate < 1 else -math.inf
    return _mixed(j, log_factors, np.full(len(j), left_out))


def _log_moments(length: ProjectedLength, stddev: float, j: Floats) -> Floats:
    return length.log_moment(j * (j - 1) / (2 * stddev**2)) * (1 + 1e-15)


def _mixed(j: Floats, log_factors: Floats, log_left_out: Floats) -> tuple[Floats, Floats]:
    """Return (α, log(1 + Σ_j C(α, j) e^(log_factors_j + (α−j) log_left_out_j))/(α−1))."""
    alpha = SAMPLED_ORDERS[:, None].astype(np.float64)
    remaining = np.maximum(alpha - j, 0)
    log_binomial = (
        scipy.special.gammaln(alpha + 1)
        - scipy.special.gammaln(j + 1)
        - scipy.special.gammaln(remaining + 1)
    )
    # 0 · log 0 = 0: at rate 1 only the term j = α is left.
    with np.errstate(invalid="ignore"):
        staying_out = np.where(remaining > 0, remaining * log_left_out, 0.0)
    terms = np.where(j <= alpha, log_binomial + log_factors + staying_out, -np.inf)
    totals = np.logaddexp(0.0, scipy.special.logsumexp(terms, axis=1))
    return SAMPLED_ORDERS.astype(np.float64), totals / (SAMPLED_ORDERS - 1) * (1 + _ERROR)


def _log_expm1(x: Floats) -> Floats:
    """Return log(e^x − 1) for x > 0, without overflow."""
    return np.asarray(x + np.log(-np.expm1(-x)))
