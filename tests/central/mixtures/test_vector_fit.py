"""A curator's vectors: heaps, what goes together, what noise would drown."""

import numpy as np
import pytest

from central.mixtures.labeled_points import of, points, schema, table
from privot.central import SumSettings, fit
from privot.central.mixture_fit import VectorFit
from privot.central.sums import Budget
from privot.core.errors import PrivotError


@pytest.mark.parametrize("components", [None, 1])
def test_moments_of_labels_and_their_heaps_are_learned(components):
    model = fit(table(), schema(), epsilon=4.0, method=SumSettings(components=components))
    drawn, kinds = of(model.sample(20_000, seed=0))
    true, known = points()
    assert (kinds == "a").mean() == pytest.approx(0.7, abs=0.03)
    for kind in "ab":
        own, real = drawn[kinds == kind], true[known == kind]
        assert own.mean(axis=0) == pytest.approx(real.mean(axis=0), abs=0.35)
        # A single Gaussian of heaps that far apart is cut at the bounds, which takes .19 ± .004.
        rel = 0.25 if components == 1 else 0.1
        assert np.cov(own.T) == pytest.approx(np.cov(real.T), abs=1.0, rel=rel)
        assert np.corrcoef(own[:, 2], own[:, 3])[0, 1] > 0.7
    apart = np.abs(drawn[kinds == "a", 0])
    # One Gaussian has a quarter of its points between the heaps; there are none.
    between = (apart < 2).mean()
    assert between > 0.2 if components else between < 0.05
    assert model.guarantee.epsilon <= 4
    assert model.releases == 2


def test_components_grow_with_the_budget_and_the_records():
    few, more, many = (
        VectorFit(schema(), SumSettings(), Budget(epsilon, 1e-5, count)).components
        for epsilon, count in ((0.5, 500), (1.0, 6000), (10.0, 60_000))
    )
    assert (few, many) == (1, 20)
    assert 1 < more < 20


def test_what_noise_would_drown_is_refused_and_costs_nothing():
    with pytest.raises(PrivotError, match=r"noise of .* give [\d,]+ rows") as told:
        fit(table(60), schema(), epsilon=0.5)
    enough = int(str(told.value).split("give ")[1].split(" rows")[0].replace(",", ""))

    def planned(count):
        return VectorFit(schema(), SumSettings(), Budget(0.5, 1e-5, count)).plan()

    assert planned(enough).uses == 2
    with pytest.raises(PrivotError, match="would drown"):
        planned(int(0.95 * enough))
