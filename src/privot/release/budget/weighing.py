r"""Joint reports that ask some pairs of columns more often than others: the same ε, other forms.

Calibration knows alphabets, and asks all pairs as if each depended as much as any other. Who knows more
says so: the weight of a pair multiplies what its interaction counts for in the design of the forms
(`privot.release.budget.forms`). Where a pilot's model tells which pairs depend
(`privot.local.refinement.pair_weights`), the others are asked those more often.

**Privacy review.** Adjacency and ε are as they were: any form has the whole ε, whatever it is drawn
with. Weights are public, as all forms are: they must not be computed from records, but from public
knowledge, or from a model of other people's reports, which is as private as these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from privot.errors import PrivotError
from privot.release.budget.forms import choose_forms
from privot.release.randomizer import Randomizer
from privot.release.reports.joint import JointReport
from privot.release.reports.questionnaire import Questionnaire


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
        >>> weighed = privot.weigh_pairs(randomizer, {("owner", "smoker"): 9.0})
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
