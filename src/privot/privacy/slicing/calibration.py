"""The least noise that keeps a promise: a safe root search.

ε falls as the noise grows; an accountant that rounds up may wiggle on the way. So only what was
evaluated and found to keep the promise is ever returned.
"""

import math
from collections.abc import Callable


def smallest_stddev(
    epsilon_at: Callable[[float], float],
    target: float,
    start: float,
    width: float,
    tolerance: float,
) -> float:
    """Return σ with epsilon_at(σ) ≤ target, within `tolerance` of one that is above it.

    The search leaves `start` by factors that grow from 1 + `width`, then runs in log σ by regula
    falsi on log ε with every third step a bisection. Infinite if 1e9 times `start` is too little.
    """

    def excess(log_stddev: float) -> float:
        return math.log(max(epsilon_at(math.exp(log_stddev)), 1e-300)) - math.log(target)

    farthest = math.log(start) + math.log(1e9)
    near = math.log(start)
    here = excess(near)
    move = math.copysign(math.log1p(width), here)
    there, other = near + move, excess(near + move)
    while (other > 0) == (here > 0):
        move *= 1.5
        near, here = there, other
        there, other = near + move, excess(near + move)
        if there > farthest:
            return math.inf
    unsafe, safe = (near, there) if here > 0 else (there, near)
    high, low = (here, other) if here > 0 else (other, here)
    step = 0
    while safe - unsafe > tolerance:
        step += 1
        middle = (unsafe + safe) / 2
        if step % 3:
            # Pushed a little past the root, so that the far end moves too.
            chord = unsafe + (safe - unsafe) * high / (high - low)
            push = 0.4 * tolerance * (1 if step % 3 == 1 else -1)
            middle = min(max(chord + push, unsafe + 0.1 * tolerance), safe - 0.1 * tolerance)
        value = excess(middle)
        if value > 0:
            unsafe, high = middle, value
        else:
            safe, low = middle, value
    return math.exp(safe)
