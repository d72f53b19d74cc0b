"""Two phases, two ways: the pilot is the same, everybody reports once, and only the forms differ."""

import numpy as np
import pyarrow as pa

from privot.randomizer import Randomizer
from privot.schema import Schema
from studies.tables.weighed import both_ways

SCHEMA = Schema.from_dict(
    {"columns": {name: {"kind": "categorical", "categories": list("stuvw")} for name in "abcd"}}
)


def test_the_others_are_asked_the_pair_that_depends_more_often():
    rng = np.random.default_rng(0)
    codes = rng.integers(5, size=(12_000, 4))
    codes[:, 1] = codes[:, 0]
    people = pa.table({name: np.array(list("stuvw"))[codes[:, i]] for i, name in enumerate("abcd")})
    models = dict(both_ways(Randomizer.calibrate(SCHEMA, 4.0), people, 0))
    assert [*models] == ["default", "weighed"]
    asked = {}
    for name, model in models.items():
        assert [told["reports"] for told in model.made_with["promises"]] == [2400, 9600]
        assert model.earlier[0].joint.design == models["default"].randomizer.joint.design
        forms = model.randomizer.joint.design
        shares = np.array(forms.weights) / sum(forms.weights)
        asked[name] = sum(s for form, s in zip(forms.forms, shares) if {0, 1} <= {*form})
    # 1.543 ± .032 in 25 runs, so the limit is seven deviations away.
    assert asked["weighed"] > 1.3 * asked["default"]
