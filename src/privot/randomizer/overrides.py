"""Joint reports that ask some pairs of columns more often than others: the same ε, other forms.

Calibration knows alphabets, and asks all pairs as if each depended as much as any other. Who knows more
says so: the weight of a pair multiplies what its interaction counts for in the design of the forms
(`privot.randomizer.information`). Where a pilot's model tells which pairs depend
(`privot.local.model.pair_weights`), the others are asked those more often.

**Privacy review.** Adjacency and ε are as they were: any form has the whole ε, whatever it is drawn
with. Weights are public, as all forms are: they must not be computed from records, but from public
knowledge, or from a model of other people's reports, which is as private as these.
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
from privot.randomizer.reports.joint import JointReport, Questionnaire
from privot.schema import Schema

# Noise that is stated instead of ε.
#
# Reproducing a paper takes its noise, not its ε. `state_noise` takes the noise; what it promises is
# for the randomizer to compute, as for any other: from the diameter of what the schema declares.


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


def weigh_pairs(randomizer: Randomizer, weights: Mapping[tuple[str, str], float]) -> Randomizer:
    """The randomizer with forms that tell more of pairs of larger weight; its promise is the same.

    Forms are chosen anew, of any length, whatever those of the randomizer were.

    Arguments:
        randomizer: Of a table whose columns are reported jointly.
        weights: Of pairs of its columns, in either order, above 0; what is not named has weight 1.

    Examples:
        >>> import privot
        >>> kinds = {name: {"kind": "boolean"} for name in ("smoker", "owner", "member")}
        >>> schema = privot.Schema.from_dict({"columns": kinds})
        >>> randomizer = privot.Randomizer.calibrate(schema, 2.0)
        >>> weighed = weigh_pairs(randomizer, {("owner", "smoker"): 9.0})
        >>> weighed.guarantee == randomizer.guarantee
        True

    Raises:
        PrivotError: without a joint report; for columns that are not in it, or weights that are none.
    """
    joint = randomizer.joint
    if joint is None:
        raise PrivotError(
            "the randomizer has no joint report, so nobody is asked pairs: calibrate a table's columns "
            "with report 'joint'"
        )
    columns = joint.asked.columns
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
    sizes = [max(each) for each in joint.asked.codings.values()]
    asked = Questionnaire(joint.asked.codings, *choose_forms(sizes, joint.epsilon, of_pairs))
    return replace(randomizer, joint=JointReport(asked, joint.epsilon))
