"""A folder of any model is read by one call; a folder of something else is refused."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
import torch

import privot
from laws.model import ModelLaws
from privot.errors import PrivotError
from privot.privacy import PureDP, guarantee_from_dict

EXTENDING = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()


@pytest.mark.parametrize("description", [None, "{}", '{"kind": "house"}', "[]"])
def test_what_is_no_model_is_refused(tmp_path, description):
    if description is not None:
        (tmp_path / "model.json").write_text(description)
    with pytest.raises(PrivotError, match="holds no model .*: give the folder that `privot fit`"):
        privot.load(tmp_path)


class TestTheGuidesKind(ModelLaws):
    """A kind of model that the guide makes in thirty lines keeps the laws of all."""

    @pytest.fixture
    def model(self):
        code = re.search(r"^class Coins.*?(?=^```)", EXTENDING, re.DOTALL | re.MULTILINE).group()
        names = {
            "privot": privot,
            "pa": pa,
            "torch": torch,
            "guarantee_from_dict": guarantee_from_dict,
        }
        exec(code, names)
        return names["Coins"](0.3, PureDP(1.0))
