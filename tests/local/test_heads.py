"""A head gives every column its features, and makes records of what they mean."""

import numpy as np
import pytest
import torch

from privot import Randomizer, Schema
from privot.local.networks.heads import Head
from privot.mechanisms import Laplace, RandomizedResponse

SCHEMA = Schema.from_toml("""
[columns.height]
kind = "numeric"
bounds = [0, 10]
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
[columns.picture]
kind = "array"
shape = [2, 3]
bounds = [0, 255]
""")


@pytest.fixture(scope="module")
def head():
    noise = Laplace(1.0, 2.0**-19)
    return Head(
        Randomizer(SCHEMA, {"height": noise, "color": RandomizedResponse(3, 1.0), "picture": noise})
    )


def test_every_column_has_its_features_in_the_schemas_order(head):
    assert head.widths == {"height": 1, "color": 3, "picture": 6}
    features = torch.arange(20.0).reshape(2, 10) / 10
    outputs = head(features)
    torch.testing.assert_close(outputs["height"], torch.tanh(features[:, :1]))
    torch.testing.assert_close(outputs["color"].exp().sum(dim=1), torch.ones(2))
    torch.testing.assert_close(outputs["picture"], torch.tanh(features[:, 4:]))


def test_records_have_the_outputs_law(head):
    shares = torch.tensor([0.7, 0.0, 0.3])
    features = torch.cat(
        [torch.zeros(4000, 1), shares.log().expand(4000, 3), torch.full((4000, 6), 30.0)], dim=1
    )
    records = head.records(head(features), torch.Generator().manual_seed(0))
    SCHEMA.check_table(records)
    assert records["height"].to_numpy() == pytest.approx(5)
    drawn = np.array(records["color"].to_pylist())
    assert (drawn == "red").mean() == pytest.approx(0.7, abs=0.04)
    assert (drawn != "green").all()
    pixels = SCHEMA.images["picture"].accept("picture", records)
    assert np.asarray(pixels) == pytest.approx(255)
