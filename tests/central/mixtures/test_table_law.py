"""What a curator's table is drawn from: conditions, files, and the laws of all models."""

import pytest

from central.mixtures.tables import SCHEMA, people
from laws.model import ModelLaws
from privot.central import CentralModel, SumSettings, fit


@pytest.fixture(scope="module")
def learned():
    return fit(people(3000), SCHEMA, epsilon=4.0, method=SumSettings(classes=8))


def test_conditions_are_met_exactly(learned):
    drawn = learned.sample(500, seed=0, where={"town": ["b", "c"], "sick": False})
    assert set(drawn["town"].to_pylist()) == {"b", "c"}
    assert set(drawn["sick"].to_pylist()) == {False}


class TestTable(ModelLaws):
    @pytest.fixture
    def model(self, learned):
        return learned


def test_saved_and_loaded(learned, tmp_path):
    learned.save(tmp_path / "model")
    again = CentralModel.load(tmp_path / "model")
    assert again.sample(50, seed=3).equals(learned.sample(50, seed=3))
    assert again.guarantee == learned.guarantee
