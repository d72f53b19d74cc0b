"""A folder of any model is read by one call; a folder of something else is refused."""

import pytest

import privot
from privot.errors import PrivotError


@pytest.mark.parametrize("description", [None, "{}", '{"kind": "house"}', "[]"])
def test_what_is_no_model_is_refused(tmp_path, description):
    if description is not None:
        (tmp_path / "model.json").write_text(description)
    with pytest.raises(PrivotError, match="holds no model .*: give the folder that `privot fit`"):
        privot.load(tmp_path)
