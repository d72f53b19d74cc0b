"""Randomizers from stated noise instead of ε, and randomizers with weights of column pairs.

**Weights.** Calibration treats all pairs of columns as equally dependent. The weight of a pair
multiplies the importance of its interaction in the design of the forms
(`privot.randomizer.information`), so the forms change, but not ε. Weights can be computed from the model
of a pilot survey (`privot.local.model.pair_weights`).

**Privacy review** of weights. Adjacency and ε do not change: every form spends ε, whatever its
probability. Weights are public, like the forms. They must not be computed from records, only from public
knowledge or from a model of other people's reports, which is post-processing of these reports.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from privot.core.errors import PrivotError
from privot.mechanisms import Gaussian, Laplace, Mechanism, RandomizedResponse
from privot.mechanisms.additive_noise import choose_grid
from privot.privacy.rounding import check_delta
from privot.randomizer.budget import most_accurate_shuffled
from privot.randomizer.information import choose_forms
from privot.randomizer.randomizer import Randomizer
from privot.randomizer.reports.joint import FormDesign, JointReport
from privot.schema import Schema


def randomizer_from_noise(
    schema: Schema,
    noise: float,
    delta: float = 0.0,
    *,
    mechanism: str = "gaussian",
    shares: Mapping[str, float] | None = None,
) -> Randomizer:
    """Create a randomizer with the stated noise of images and vectors, as some papers state it.

    The guarantee is computed from the noise and the diameter of the declared domains.

    Arguments:
        schema: Declaration of the columns.
        noise: Standard deviation of `"gaussian"` or scale of `"laplace"` noise, in unit coordinates, in
            which boxes and pixels range from −1 to 1, and balls have radius 1.
        delta: δ of the guarantee; for `"gaussian"` only.
        mechanism: `"gaussian"` or `"laplace"`.
        shares: ε of every other column, which is reported by randomized response.

    Examples:
        >>> schema = Schema.from_toml('''
        ... [columns.image]
        ... kind = "array"
        ... shape = [28, 28]
        ... bounds = [0, 255]
        ... ''')
        >>> print(randomizer_from_noise(schema, 2.0, delta=1e-4).guarantee)
        ε = 495.2, δ = 0.0001, local, per person

    Raises:
        PrivotError: for another mechanism, a number out of range, or shares of the wrong columns.
    """
    check_delta(delta)
    shares = shares or {}
    if mechanism not in ("gaussian", "laplace"):
        raise PrivotError(f"mechanism {mechanism!r} has no noise to state: use gaussian or laplace")
    needed = schema.coded.keys() - schema.vectors.keys()  # a vector may have codes, of cells
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


def weight_pairs(randomizer: Randomizer, weights: Mapping[tuple[str, str], float]) -> Randomizer:
    """Return a randomizer with the same guarantee, whose forms favor pairs of larger weight.

    New forms of any length replace its forms. If the schema promises shuffled reports, and all columns
    are reported jointly, ε₀ is calibrated again, since the guarantee of a batch depends on the forms.

    Arguments:
        randomizer: Randomizer of a table whose columns are reported jointly.
        weights: Positive weights of pairs of its columns, in either order; other pairs have weight 1.

    Examples:
        >>> import privot
        >>> kinds = {name: {"kind": "boolean"} for name in ("smoker", "owner", "member")}
        >>> schema = privot.Schema.from_dict({"columns": kinds})
        >>> randomizer = privot.Randomizer.calibrate(schema, 2.0)
        >>> weighted = weight_pairs(randomizer, {("owner", "smoker"): 9.0})
        >>> weighted.guarantee == randomizer.guarantee
        True

    Raises:
        PrivotError: without a joint report; for columns that are not in it, or invalid weights.
    """
    joint = randomizer.joint
    if joint is None:
        raise PrivotError(
            "the randomizer has no joint report, so no pairs are reported: calibrate a table's columns "
            "with report 'joint'"
        )
    columns = joint.design.columns
    pair_weights = np.ones((len(columns), len(columns)))
    for pair, weight in weights.items():
        if len({*pair}) != 2 or not {*pair} <= {*columns}:
            raise PrivotError(
                f"weights has {pair!r}, no pair of the joint report's columns {columns}: name two"
            )
        if not (math.isfinite(weight) and weight > 0):
            raise PrivotError(f"the weight of {pair!r} is {weight!r}: give a number above 0")
        first, second = map(columns.index, pair)
        pair_weights[first, second] = pair_weights[second, first] = weight

    def weighted(epsilon: float) -> Randomizer:
        forms = choose_forms(joint.design.sizes, epsilon, pair_weights)
        design = FormDesign(joint.design.codings, *forms)
        return replace(randomizer, joint=JointReport(design, epsilon))

    # With split columns, amplification is computed for the worst reports of their ε, so ε₀ stays.
    promise = randomizer.schema.shuffled_promise
    if promise is not None and not randomizer.mechanisms:
        return most_accurate_shuffled(promise, weighted)
    return weighted(joint.epsilon)
