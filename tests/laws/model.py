"""What every kind of model must satisfy. Each kind's test inherits this suite and gives a `model`.

A kind whose draws may not be repeated sets `repeats` to False, and refuses seeds.
"""

import json

import pytest

import privot
from privot.core.errors import PrivotError


class LearnedLaws:
    """Of all that is learned and saved, whether or not it draws records."""

    repeats = True

    @pytest.fixture
    def model(self, tmp_path):
        raise NotImplementedError

    def again(self, model, tmp_path):
        """What is loaded of the model's folder."""
        if self.repeats:  # else the fixture saved it: its folder counts
            model.save(tmp_path / "model")
        return privot.load(tmp_path / "model")

    def test_a_folder_gives_back_what_was_saved(self, model, tmp_path):
        loaded = self.again(model, tmp_path)
        assert type(loaded) is type(model)
        assert loaded.guarantee == model.guarantee

    def test_the_description_states_the_promise(self, model, tmp_path):
        self.again(model, tmp_path)
        stated = json.loads((tmp_path / "model" / "model.json").read_text())
        assert stated["guarantee"] == json.loads(json.dumps(model.guarantee.to_dict()))
        assert stated["in_words"] == model.guarantee.describe()
        assert stated["publishable"] is self.repeats

    def test_it_is_shown_in_one_line_and_as_a_table(self, model):
        assert str(model.guarantee) in repr(model)
        assert len(repr(model)) < 400
        assert "\n" not in repr(model)
        assert model._repr_html_().startswith(f"<table><caption>{type(model).__name__}</caption>")


class ModelLaws(LearnedLaws):
    def draw(self, model, num_rows, seed=0):
        return model.sample(num_rows, seed=seed) if self.repeats else model.sample(num_rows)

    def test_samples_are_as_many_and_have_the_schemas_columns(self, model):
        for num_rows in (5, 1):
            table = self.draw(model, num_rows)
            assert table.num_rows == num_rows
            assert table.column_names == list(model.schema.table_columns)
            model.schema.check_table(table)

    def test_a_seed_repeats_a_draw_and_another_does_not(self, model):
        if not self.repeats:
            with pytest.raises(PrivotError, match="a seed cannot be given"):
                model.sample(1, seed=0)
            return
        first = self.draw(model, 40, seed=1)
        assert self.draw(model, 40, seed=1).equals(first)
        assert not self.draw(model, 40, seed=2).equals(first)
        assert not model.sample(40).equals(model.sample(40))

    def test_what_is_loaded_draws_the_same(self, model, tmp_path):
        loaded = self.again(model, tmp_path)
        assert loaded.schema == model.schema
        if self.repeats:
            assert self.draw(loaded, 30).equals(self.draw(model, 30))

    @pytest.mark.parametrize("num_rows", [-1, 2.5, "many", True])
    def test_a_number_of_rows_that_cannot_be_is_named(self, model, num_rows):
        with pytest.raises(PrivotError, match=r"num_rows .*(whole|number)"):
            self.draw(model, num_rows)

    def test_a_seed_that_cannot_be_is_named(self, model):
        if self.repeats:
            with pytest.raises(PrivotError, match="seed -1 cannot be"):
                model.sample(1, seed=-1)
