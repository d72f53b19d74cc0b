r"""Memoization: what it loses to remember an answer to every value, exactly.

The habit of telemetry: the device answers each value once by randomized response at a permanent ε,
remembers the answer, and in every wave reports it, either as it is or by randomized response at a fresh
ε. It is said to promise twice the permanent ε over all time. For a value that never changes it promises
that; for one that changes it does not, and `memoization_loss` says what it does: a baseline to compare
`Panel` and `ChangeTree` with, and no mechanism of ours.

**The exact loss**, for one bit and T waves. Given the values, the T reports depend on the remembered
answers $b_0, b_1$ only, so that

$$ P(y | x) = A(k_0, n_0; 0) A(k_1, n_1; 1),  A(k, n; v) = \sum_b P(b | v) r_b^k (1 − r_b)^{n − k} $$

with $n_v$ waves in which the value is v, and $k_v$ reports of 1 among them; $r_b$ is the probability to
report 1 of a remembered b. Given y with K ones, a sequence x may have any $k_0 ≤ K$ and $n_0 − k_0 ≤ T
− K$, and so may x′, whatever the other is. So the loss over **all** pairs of sequences is

$$ \max_K \Big( \max_x \log P(y | x) − \min_x \log P(y | x) \Big), $$

a maximum over at most T³ numbers. Without fresh noise it is infinite from the second wave on, since
reports that differ show that the value has changed.

**Privacy review.** Arithmetic of public numbers; nothing here sees a record.

References:
    Erlingsson, Pihur, Korolova, *RAPPOR: randomized aggregatable privacy-preserving ordinal response*
    (2014), for the habit; Ding, Kulkarni, Yekhanin, *Collecting telemetry data privately* (2017), for
    memoization without fresh noise.
"""

from __future__ import annotations

import math
from itertools import product

from privot.core.errors import require_count
from privot.privacy.rounding import require_epsilon

_MOST_WAVES = 1000


def memoization_loss(waves: int, permanent: float, fresh: float | None = None) -> float:
    """The loss of one bit memoized at `permanent` and reported at `fresh`, over all pairs of sequences.

    >>> round(memoization_loss(1, 2.0), 4), memoization_loss(2, 2.0)
    (2.0, inf)
    >>> round(memoization_loss(12, 2.0, 1.0), 2)  # 4 is what is claimed
    6.61

    Arguments:
        waves: T.
        permanent: ε of the remembered answers.
        fresh: ε of the reports of them; none are noised if None.
    """
    require_count("waves", waves, _MOST_WAVES)
    require_epsilon(permanent)
    keep = 1 / (1 + math.exp(-permanent))
    if fresh is None:
        return math.inf if waves > 1 else math.log(keep / (1 - keep))
    require_epsilon(fresh)
    one = 1 / (1 + math.exp(-fresh))
    logs = {
        (k, m, v): _log_mixture(k, m, keep if v else 1 - keep, one)
        for k, m, v in product(range(waves + 1), range(waves + 1), (0, 1))
        if k + m <= waves
    }
    worst = 0.0
    for ones in range(waves + 1):
        zeros = waves - ones
        found = [
            logs[k, m, 0] + logs[ones - k, zeros - m, 1]
            for k, m in product(range(ones + 1), range(zeros + 1))
        ]
        worst = max(worst, max(found) - min(found))
    return worst


def _log_mixture(ones: int, zeros: int, high: float, one: float) -> float:
    """Log of the probability of reports, if the remembered answer is 1 with probability `high`."""
    from_one = math.log(high) + ones * math.log(one) + zeros * math.log(1 - one)
    from_zero = math.log(1 - high) + ones * math.log(1 - one) + zeros * math.log(one)
    most = max(from_one, from_zero)
    return most + math.log(math.exp(from_one - most) + math.exp(from_zero - most))
