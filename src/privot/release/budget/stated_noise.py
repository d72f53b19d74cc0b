"""Noise that is stated instead of ε.

Reproducing a paper takes its noise, not its ε. `state_noise` takes the noise; what it promises is for
the randomizer to compute, as for any other: from the diameter of what the schema declares.
"""

from __future__ import annotations

from collections.abc import Mapping

from privot.errors import PrivotError
from privot.mechanisms import Gaussian, Laplace, Mechanism, RandomizedResponse
from privot.mechanisms.additive.additive_noise import choose_grid
from privot.privacy.rounding import check_delta
from privot.release.randomizer import Randomizer
from privot.schema import Schema


def state_noise(
    schema: Schema,
    noise: float,
    delta: float = 0.0,
    *,
    mechanism: str = "gaussian",
    shares: Mapping[str, float] | None = None,
) -> Randomizer:
    """A randomizer whose images and vectors have this noise, whatever ε that is.

    Arguments:
        schema: What a record may be.
        noise: Standard deviation of `"gaussian"` or scale of `"laplace"` noise, in unit coordinates:
            those in which a box, or an image's pixels, go from −1 to 1, and a ball has radius 1.
        delta: The δ at which the guarantee is stated; needed by `"gaussian"` only.
        mechanism: `"gaussian"` or `"laplace"`.
        shares: The ε of every other column, which is reported by randomized response.

    Examples:
        >>> schema = Schema.from_toml('''
        ... [columns.image]
        ... kind = "array"
        ... shape = [28, 28]
        ... bounds = [0, 255]
        ... ''')
        >>> print(state_noise(schema, 2.0, delta=1e-4).guarantee)
        ε = 495.2, δ = 0.0001, local, per person

    Raises:
        PrivotError: for another mechanism, or columns without a share.
    """
    check_delta(delta)
    shares = shares or {}
    if mechanism not in ("gaussian", "laplace"):
        raise PrivotError(f"mechanism {mechanism!r} has no noise to state: use gaussian or laplace")
    needed = schema.coded.keys() - schema.vectors.keys()
    if set(shares) != needed:
        raise PrivotError(
            f"shares are of columns {sorted(shares)}: give the ε of "
            f"{sorted(needed) or 'none'}, all others have the stated noise"
        )
    mechanisms: dict[str, Mechanism] = {}
    for name, column in schema.columns.items():
        if name in shares:
            mechanisms[name] = RandomizedResponse.for_column(column, float(shares[name]))
        else:
            kind = Gaussian if mechanism == "gaussian" else Laplace
            mechanisms[name] = kind(float(noise), choose_grid(noise))
    return Randomizer(schema, mechanisms, delta=delta)
