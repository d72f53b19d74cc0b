"""Randomizers made from weights of column pairs, or from stated noise instead of ε.

**Weights.** Calibration knows alphabets only, and treats all pairs of columns as equally dependent. The
weight of a pair multiplies the importance of its interaction in the design of the forms
(`privot.randomizer.information`): the same ε, other forms. A pilot's model can supply them
(`privot.local.model.pair_weights`).

**Privacy review** of weights. Adjacency and ε do not change: any form has the whole ε, with whatever
probability it is drawn. Weights are public, as all forms are: they must not be computed from records,
but from public knowledge, or from a model of other people's reports, which is as private as these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from privot.core.errors import PrivotError
from privot.mechanisms import Gaussian, Laplace, Mechanism, RandomizedResponse
from privot.mechanisms.additive_noise import choose_grid
from privot.privacy.rounding import check_delta
from privot.randomizer.information import choose_forms
from privot.randomizer.randomizer import Randomizer
from privot.randomizer.reports.joint import FormDesign, JointReport
from privot.randomizer.reports.shuffled import most_accurate_shuffled
from privot.schema import Schema


def randomizer_from_noise(
    schema: Schema,
    noise: float,
    delta: float = 0.0,
    *,
    mechanism: str = "gaussian",
    shares: Mapping[str, float] | None = None,
) -> Randomizer:
    """Make a randomizer whose images and vectors have this noise, whatever its ε.

    To reproduce a paper takes its noise, not its ε. The guarantee is computed by the randomizer, as
    any other's: from the noise and the diameter of the declared domains.

    Arguments:
        schema: Declaration of the columns.
        noise: Standard deviation of `"gaussian"` or scale of `"laplace"` noise, in unit coordinates,
            in which a box, or an image's pixels, go from −1 to 1, and a ball has radius 1.
        delta: The δ at which the guarantee is stated; for `"gaussian"` only.
        mechanism: `"gaussian"` or `"laplace"`.
        shares: The ε of every other column, which is reported by randomized response.

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


def weight_pairs(randomizer: Randomizer, weights: Mapping[tuple[str, str], float]) -> Randomizer:
    """Return the randomizer with forms that favor pairs of larger weight; its guarantee is the same.

    Forms are chosen anew, of any length, whatever those of the randomizer were. Where the schema
    promises shuffled reports, ε₀ is found anew, since the guarantee of a batch depends on the forms.

    Arguments:
        randomizer: Randomizer of a table whose columns are reported jointly.
        weights: Weights of pairs of its columns, in either order, above 0; 1 for all others.

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
    of_pairs = np.ones((len(columns), len(columns)))
    for pair, weight in weights.items():
        if len({*pair}) != 2 or not {*pair} <= {*columns}:
            raise PrivotError(
                f"weights has {pair!r}, no pair of the joint report's columns {columns}: name two"
            )
        if not (math.isfinite(weight) and weight > 0):
            raise PrivotError(f"the weight of {pair!r} is {weight!r}: give a number above 0")
        first, second = map(columns.index, pair)
        of_pairs[first, second] = of_pairs[second, first] = weight

    def weighted(epsilon: float) -> Randomizer:
        forms = choose_forms(joint.design.sizes, epsilon, of_pairs)
        design = FormDesign(joint.design.codings, *forms)
        return replace(randomizer, joint=JointReport(design, epsilon))

    promise = randomizer.schema.promise
    if promise is not None and promise.where == "shuffled" and not randomizer.mechanisms:
        found: Randomizer = most_accurate_shuffled(promise, weighted)
        return found
    return weighted(joint.epsilon)
