"""People to rehearse with: made-up ones are as declared, a model's keep its columns or are its own."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from privot.core.errors import PrivotError
from privot.evaluation import total_variation
from privot.evaluation.distances import independent
from privot.evaluation.estimates import sampler_of
from privot.forecast.fits import dependence, population_of, random_population, with_dependence
from privot.local import fit
from privot.local.classes.mixture import LatentClasses
from privot.randomizer import Randomizer
from privot.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "columns": {
            "a": {"kind": "boolean"},
            "b": {"kind": "categorical", "categories": ["x", "y", "z"]},
            "c": {"kind": "numeric", "bounds": [0, 12], "bins": 6, "spikes": [0]},
        }
    }
)


@pytest.fixture(scope="module")
def model():
    release = Randomizer.calibrate(SCHEMA, 8.0).privatize(
        random_population(SCHEMA, 4).draw(3000, 0)
    )
    return fit(release, seed=0)


def test_made_up_people_depend_as_they_should_and_are_drawn_from_their_law():
    first, second = random_population(SCHEMA, 0), random_population(SCHEMA, 1)
    pairs = [first.law.marginal(pair) for pair in combinations(range(3), 2)]
    gaps = [total_variation(joint, independent(joint)) for joint in pairs]
    assert dependence(first.law) == np.mean(gaps) == pytest.approx(0.1, abs=0.01)
    assert total_variation(first.law.marginal((0, 1)), second.law.marginal((0, 1))) > 0.02
    drawn = first.draw(40_000, 3)
    codes = [c.encode_codes(n, drawn) for n, c in SCHEMA.coded.items()]
    shares = np.bincount(codes[0] * 3 + codes[1], minlength=6).reshape(2, 3) / 40_000
    assert total_variation(shares, first.law.marginal((0, 1))) < 0.02


@pytest.mark.parametrize("strength", [0.0, 0.05, 0.15])
def test_people_with_a_models_columns_keep_them_and_depend_as_strongly_as_wanted(model, strength):
    """By twelve models of 3000 reports it is .0467 ± .0002 for .05 and .150 ± .001 for .15.

    Limits are nine deviations away or more; another strength of these is .05 off or more.
    """
    varied = with_dependence(model, strength, seed=1)
    own, other = sampler_of(model).classes, sampler_of(varied).classes
    for column in range(3):
        kept, wanted = other.marginal([column]), own.marginal([column])
        assert total_variation(kept, wanted) < 1e-4
    assert dependence(other) == pytest.approx(strength, abs=0.01)


def test_neighbors_in_a_number_are_alike_and_a_spike_has_none(model):
    even = LatentClasses(
        np.ones(1), tuple(np.full((k, 1), 1 / k) for k in sampler_of(model).classes.sizes)
    )
    of_even = replace(model, sampler=replace(model.sampler, atoms=even))
    scores = []
    for seed in range(5):
        table = with_dependence(of_even, 0.1, seed).sampler.atoms.probabilities[2]
        scores.append(np.log(table / table.mean(axis=1, keepdims=True)))
    order = model.sampler.places[2].cells.in_order
    (spike,) = np.setdiff1d(np.arange(7), order)
    alike = np.corrcoef(np.concatenate(scores, axis=1)[[*order, spike]])
    assert alike.diagonal(1)[:-1].mean() > 0.5
    assert abs(alike[-1, :-1]).max() < 0.5
    assert alike[0, 5] < 0.3


def test_a_models_people_are_its_own(model):
    people = population_of(model, SCHEMA)
    assert people.errors(model)[:2].tolist() == [0, 0]
    drawn = people.draw(2_000, 0)
    shares = np.bincount(SCHEMA.coded["b"].encode_codes("b", drawn), minlength=3) / 2_000
    assert total_variation(shares, people.law.marginal([1])) < 0.06


def test_a_model_of_others_is_refused(model):
    columns = dict(SCHEMA.to_dict()["columns"])
    with pytest.raises(PrivotError, match="like is of the columns a, b, c"):
        population_of(
            model, Schema.from_dict({"columns": {k: columns[k] for k in ("b", "a", "c")}})
        )
    columns["b"] = {"kind": "boolean"}
    with pytest.raises(PrivotError, match="like has no column 'b'"):
        population_of(model, Schema.from_dict({"columns": columns}))
