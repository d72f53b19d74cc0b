"""What an object prints of itself ends in logs and notebooks: nothing that was learned is in it."""

import re

import numpy as np
import pytest

from privot import Randomizer, Schema
from privot.core.errors import PrivotError
from privot.integral import BoostSettings, ClippedRatioSettings, PointSpace, fit
from privot.integral.learners import NetworkSettings
from privot.integral.references import UniformBox


def test_an_integer_that_no_column_holds_is_refused_without_its_digits():
    schema = Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [0, 100]\n')
    randomizer = Randomizer.calibrate(schema, 1.0)
    for ages in ([777**40], [1, 777**40], [0.5, -(777**40)]):
        with pytest.raises(PrivotError, match="column 'age'") as refused:
            randomizer.privatize({"age": ages})
        assert str(777**40)[:6] not in str(refused.value)


QUICK = NetworkSettings(hidden=(4,), steps=5, batch_size=64)


@pytest.mark.parametrize(
    "settings",
    [
        ClippedRatioSettings(),
        ClippedRatioSettings(normalizer="none"),
        ClippedRatioSettings(estimator="mlp", normalizer="none", network=QUICK),
        ClippedRatioSettings(estimator="trees", normalizer="none"),
        BoostSettings(rounds=2, network=QUICK),
        BoostSettings(rounds=2, classifier="trees"),
    ],
)
def test_two_data_sets_print_the_same(settings):
    prints = set()
    for middle in (20.0, 70.0):
        records = np.random.default_rng(0).normal(middle, 5.0, (300, 1)).clip(0, 100)
        space = PointSpace(UniformBox([0], [100]), "person")
        model = fit(records, space, epsilon=1.0, draws=1, settings=settings)
        tilt = model.density.tilt
        inner = getattr(tilt, "inner", tilt)
        parts = (model, model.density, tilt, inner, *getattr(inner, "members", ()))
        prints.add(re.sub("0x[0-9a-f]+", "", " ".join(map(repr, parts))))
    assert len(prints) == 1
