import pytest

from plugins.hotel import guests, schema

pd = pytest.importorskip("pandas")
pytest.importorskip("sdv")

from sdv.evaluation.single_table import evaluate_quality, run_diagnostic  # noqa: E402
from sdv.sampling import Condition  # noqa: E402

from privot import PrivotError, Randomizer, Schema  # noqa: E402
from privot.plugins.sdv import PrivotSynthesizer, metadata_of  # noqa: E402


@pytest.fixture(scope="module")
def fitted():
    synthesizer = PrivotSynthesizer(metadata_of(schema()), schema(), epsilon=6.0)
    synthesizer.fit(guests(pd, 5000))
    return synthesizer


def test_sdv_finds_the_samples_valid_and_of_quality(fitted):
    real, sample, metadata = guests(pd, 5000), fitted.sample(5000), metadata_of(schema())
    assert evaluate_quality(real, sample, metadata, verbose=False).get_score() > 0.9
    diagnostic = run_diagnostic(real, sample, metadata, verbose=False)
    assert diagnostic.get_properties().set_index("Property").Score["Data Structure"] == 1


def test_conditions_hold(fitted):
    suites = fitted.sample_from_conditions([Condition({"room": "suite"}, num_rows=200)])
    assert len(suites) == 200
    assert set(suites.room) == {"suite"}
    assert suites.nights.mean() > 8  # 11 in the data, 7.5 without the condition


def test_samples_repeat_after_a_reset_and_after_loading(fitted, tmp_path):
    fitted.save(tmp_path / "synthesizer.pkl")
    fitted.reset_sampling()
    first = fitted.sample(100)
    assert not first.equals(fitted.sample(100))
    loaded = PrivotSynthesizer.load(tmp_path / "synthesizer.pkl")
    loaded.reset_sampling()
    assert loaded.sample(100).equals(first)


def test_sdv_receives_no_row(monkeypatch):
    """SDV's transformers would hold the bounds of the rows: it is given samples alone."""
    seen = []
    monkeypatch.setattr(
        PrivotSynthesizer, "preprocess", lambda self, data: seen.append(data) or data[:0]
    )
    synthesizer = PrivotSynthesizer(metadata_of(schema()), schema(), epsilon=6.0)
    real = guests(pd, 500)
    synthesizer.fit(real)
    (given,) = seen
    assert not set(given.guest) >= set(real.guest)
    assert len(given) == 10_000


@pytest.mark.parametrize("step", ["preprocess", "auto_assign_transformers"])
def test_steps_by_which_sdv_would_store_bounds_of_rows_are_refused(fitted, step):
    """SDV's steps before and after a fit learn smallest and largest values, which `save` would write."""
    real = guests(pd, 500).assign(nights=13)
    with pytest.raises(PrivotError, match="call fit or fit_release alone"):
        getattr(fitted, step)(real)
    low = fitted._data_processor.formatters["nights"]._min_value
    assert low == 1  # the samples'


def test_reports_of_devices_are_learned_from():
    synthesizer = PrivotSynthesizer(metadata_of(schema()), schema())
    synthesizer.fit_release(Randomizer.calibrate(schema(), epsilon=3.0).privatize(guests(pd, 500)))
    assert synthesizer.model.guarantee.epsilon == pytest.approx(3)
    assert len(synthesizer.sample(7)) == 7


def test_what_does_not_match_is_refused(fitted):
    other = Schema.from_toml('[columns.room]\nkind = "boolean"')
    with pytest.raises(PrivotError, match=r"differ in columns \['came', 'guest', 'nights'\]"):
        PrivotSynthesizer(metadata_of(schema()), other)
    with pytest.raises(PrivotError, match="another schema"):
        fitted.fit_release(Randomizer.calibrate(other, epsilon=1.0).privatize({"room": [True]}))
    with pytest.raises(PrivotError, match="declare rules"):
        fitted.add_constraints([])
