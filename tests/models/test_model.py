"""A folder of any model is read by one call; a folder of something else is refused."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

import privot
from laws.model import ModelLaws
from privot.core.errors import PrivotError
from privot.privacy import PureDP, guarantee_from_dict

EXTENDING = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()


@pytest.mark.parametrize("description", [None, "{}", '{"kind": "house"}', "[]"])
def test_what_is_no_model_is_refused(tmp_path, description):
    if description is not None:
        (tmp_path / "model.json").write_text(description)
    with pytest.raises(PrivotError, match="holds no model .*: give the folder that `privot fit`"):
        privot.load(tmp_path)


def coins():
    code = re.search(r"^class Coins.*?(?=^```)", EXTENDING, re.DOTALL | re.MULTILINE).group()
    names = {
        "privot": privot,
        "pa": pa,
        "guarantee_from_dict": guarantee_from_dict,
    }
    exec(code, names)
    return names["Coins"](0.3, PureDP(1.0))


class TestTheGuidesKind(ModelLaws):
    """A kind of model that the guide makes in thirty lines keeps the laws of all."""

    @pytest.fixture
    def model(self):
        return coins()


def test_samples_have_what_the_schema_makes_up_and_defines():
    model = coins()
    model.schema = privot.Schema.from_toml("""
    rules = ["tails = not heads", "(heads = true)"]
    [columns.coin]
    kind = "identifier"
    pattern = '[A-Z]{3}'
    [columns.heads]
    kind = "boolean"
    [columns.tails]
    kind = "boolean"
    """)
    table = model.sample(200, seed=1)
    assert table.column_names == ["coin", "heads", "tails"]
    assert table == model.sample(200, seed=1)
    assert len(set(table.column("coin").to_pylist())) == table.num_rows == 200
    assert table.column("tails").to_pylist() == [False] * 200
    with pytest.raises(PrivotError, match="17,576 identifiers, 20,000 are requested"):
        model.sample(20_000)
    model.schema = privot.Schema.from_toml("""
    rules = ["tails = not heads"]
    [columns.heads]
    kind = "boolean"
    [columns.tails]
    kind = "boolean"
    """)
    assert model.sample(99, where={"tails": True}).column("heads").to_pylist() == [False] * 99
