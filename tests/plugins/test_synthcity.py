import pytest

from plugins.hotel import SCHEMA, guests

pd = pytest.importorskip("pandas")
pytest.importorskip("synthcity.plugins")

from synthcity.plugins import Plugins  # noqa: E402
from synthcity.plugins.core.constraints import Constraints  # noqa: E402
from synthcity.plugins.core.dataloader import GenericDataLoader  # noqa: E402
from synthcity.plugins.core.plugin import Plugin  # noqa: E402

from privot import PrivotError  # noqa: E402
from privot.plugins.synthcity import PrivotPlugin  # noqa: E402


@pytest.fixture(scope="module")
def fitted():
    plugins = Plugins(categories=[])
    plugins.add("privot", PrivotPlugin)
    plugin = plugins.get("privot", schema=SCHEMA, epsilon=6.0)
    return plugin.fit(GenericDataLoader(guests(pd, 5000)))


def test_generated_rows_follow_the_data(fitted):
    rows = fitted.generate().dataframe()
    assert len(rows) == 5000
    means = rows.groupby("room").nights.mean()
    assert means["suite"] - means["basic"] > 4  # 7 in the data


def test_constraints_hold_and_impossible_ones_are_refused(fitted):
    rows = fitted.generate(100, Constraints(rules=[("nights", ">=", 10)])).dataframe()
    assert len(rows) == 100
    assert rows.nights.min() >= 10
    with pytest.raises(PrivotError, match="relax them"):
        fitted.generate(2, Constraints(rules=[("nights", ">=", 15)]))


def test_a_seed_repeats_rows_after_loading_too(fitted):
    first = fitted.generate(50, random_state=3).dataframe()
    assert not first.equals(fitted.generate(50, random_state=4).dataframe())
    loaded = PrivotPlugin.load(fitted.save())
    assert loaded.generate(50, random_state=3).dataframe().equals(first)


def test_synthcity_receives_no_row(monkeypatch):
    """synthcity's schema would hold the bounds of the rows: it is given samples alone."""
    seen = []
    monkeypatch.setattr(Plugin, "fit", lambda self, rows: seen.append(rows.dataframe()))
    rows = guests(pd, 500)
    plugin = PrivotPlugin(schema=SCHEMA)
    plugin.data_info = {}
    plugin.fit(rows)
    (given,) = seen
    assert len(given) == 10_000
    assert not set(given.guest) >= set(rows.guest)


def test_what_is_missing_is_refused(fitted):
    with pytest.raises(PrivotError, match="schema="):
        PrivotPlugin().fit(guests(pd, 10))
    with pytest.raises(PrivotError, match="cond"):
        fitted.fit(guests(pd, 10), cond=[1] * 10)
