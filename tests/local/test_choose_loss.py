"""Which loss a generator is trained by, and where its training starts."""

import pytest

from privot import Randomizer, Schema
from privot.local.networks.generator_fit import choose_loss
from privot.local.networks.heads import Head
from privot.local.networks.steps import likelihood, plain, self_corrected

WIDE = {"kind": "vector", "columns": list("abcdefgh"), "radius": 1.0}
FEW = {"kind": "numeric", "bounds": [0, 1]}
CODES = {"kind": "categorical", "categories": list("abc")}


@pytest.mark.parametrize(
    ("columns", "report", "loss"),
    [
        ({"v": WIDE}, "split", self_corrected),
        ({"v": FEW, "c": CODES}, "split", plain),
        ({"c": CODES, "d": CODES}, "split", self_corrected),
        ({"c": CODES, "d": CODES}, "joint", likelihood),
    ],
)
def test_loss_auto(columns, report, loss):
    """Plain in few dimensions and corrected in many; of joint reports of codes alone the likelihood."""
    schema = Schema.from_dict({"columns": columns})
    mechanism = "laplace" if report == "split" else None
    randomizer = Randomizer.calibrate(schema, 5.0, report=report, mechanism=mechanism)
    head = Head(randomizer)
    assert choose_loss("auto", head, randomizer.joint is not None) is loss
    assert choose_loss("plain", head, randomizer.joint is not None) is plain
