import pytest

from privot.errors import PrivotError
from privot.model_folder import ModelKind, kind_of

KIND = ModelKind("sort", 2, "privot sort")


def test_a_description_survives(tmp_path):
    KIND.describe(tmp_path, {"guarantee": "ε = 1", "kind of noise": [1.5]})
    fields = KIND.read(tmp_path)
    assert fields["guarantee"] == "ε = 1"
    assert fields["kind of noise"] == [1.5]
    assert kind_of(tmp_path) == "sort"


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (ModelKind("kin", 2, "privot kin"), "has kind 'sort', this reads kind 'kin': .*privot kin"),
        (ModelKind("sort", 1, "privot sort"), "has format 2, this version reads format 1: upgrade"),
    ],
)
def test_other_folders_are_refused(tmp_path, other, message):
    KIND.describe(tmp_path, {})
    with pytest.raises(PrivotError, match=message):
        other.read(tmp_path)


@pytest.mark.parametrize("text", [None, "{", "[1]", "\xff"])
def test_damage_is_told(tmp_path, text):
    if text is not None:
        (tmp_path / "model.json").write_text(text, encoding="latin-1")
    with pytest.raises(PrivotError, match="cannot be read .*give the folder that `privot sort`"):
        KIND.read(tmp_path)
    assert kind_of(tmp_path) is None
