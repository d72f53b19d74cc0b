"""Models: the budget in arithmetic, the secret folder, every tilt there and back."""

import json
import os
import stat

import numpy as np
import pytest

from privot import Schema, integral
from privot.core.errors import PrivotError
from privot.integral import BoostSettings, ClippedRatioSettings, IntegralModel, PointSpace
from privot.integral.learners import NetworkSettings
from privot.integral.references import CustomReference, StandardNormal
from privot.privacy import ApproximateDP
from privot.privacy.ledger import BudgetExhausted

QUICK = NetworkSettings(hidden=(8,), steps=30, batch_size=64)
RECORDS = np.random.default_rng(0).normal(0.7, 0.6, (400, 1))
NORMAL = StandardNormal(1)
OWN = CustomReference(1, NORMAL.sample, NORMAL.log_density)


def fit(settings=None, reference=NORMAL, epsilon=2.0, draws=10, **more):
    space = PointSpace(reference, "person")
    return integral.fit(RECORDS, space, epsilon=epsilon, draws=draws, settings=settings, **more)


def test_an_estimated_normalizer_is_stated_as_delta():
    settings = ClippedRatioSettings(
        normalizer="estimated", delta=1e-5, normalizer_draws=2**17, network=QUICK
    )
    promise = fit(settings, epsilon=5.0, draws=2).guarantee
    assert isinstance(promise, ApproximateDP)
    assert (promise.delta, promise.neighboring) == (1e-5, "any")


@pytest.mark.parametrize("mixed", [[1, "secret"], ["secret", None]])
def test_a_refusal_repeats_no_value(mixed):
    schema = Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [0, 100]')
    with pytest.raises(PrivotError) as refused:
        integral.fit({"age": np.array(mixed, object)}, schema, draws=1, epsilon=1.0)
    assert "secret" not in str(refused.value)


def test_a_seed_repeats_the_fit_and_never_a_draw(tmp_path):
    one, two = fit(), fit()
    one.save(tmp_path / "one")
    two.save(tmp_path / "two")
    x = np.linspace(-3, 3, 50)[:, None]
    np.testing.assert_array_equal(one.density.log_tilt(x), two.density.log_tilt(x))
    assert (one.sample(5) != two.sample(5)).all()


def test_a_ledger_that_is_gone_is_not_begun_again(tmp_path, monkeypatch):
    """It was removed, is in no copy, or `save` was killed before it: all draws would be there afresh."""
    model = fit(draws=2)
    model.save(tmp_path / "secret")
    model.sample(2)
    (tmp_path / "secret" / "ledger.json").unlink()
    killed = fit(draws=2)
    monkeypatch.setattr("privot.integral.model.charge", lambda *_: os._exit(9))
    if not (child := os.fork()):
        killed.save(tmp_path / "killed")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    for folder in ("secret", "killed"):
        assert (tmp_path / folder / "model.json").exists()
        with pytest.raises(PrivotError, match="is gone"):
            IntegralModel.load(tmp_path / folder)


def test_what_is_loaded_shares_the_ledger(tmp_path):
    model = fit(draws=10)
    with pytest.raises(PrivotError, match="is not saved"):
        model.sample(4)
    model.save(tmp_path / "secret")
    model.sample(4)
    again = IntegralModel.load(tmp_path / "secret")
    assert again.guarantee == model.guarantee
    assert again.draws_left == model.draws_left == 6
    again.sample(5)
    assert model.draws_left == 1, "the saved model and its folder have one ledger"
    with pytest.raises(PrivotError, match="at most 1"):
        model.sample(2)


def test_the_folder_is_secret_and_says_so(tmp_path):
    fit().save(tmp_path / "secret")
    fields = json.loads((tmp_path / "secret" / "model.json").read_text())
    assert fields["publishable"] is False
    assert "SECRET" in fields["warning"]
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o700
    files = {
        file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "secret").iterdir()
    }
    assert files == dict.fromkeys(("ledger.json", "model.json", "weights.safetensors"), 0o600)


def test_the_gain_is_in_no_file(tmp_path):
    """`model.json` is the same for any data but for the plan's id; the gain is the records' mean."""
    settings, written = BoostSettings(rounds=2, network=QUICK), []
    for middle in (0.7, -1.5):
        records, space = RECORDS + middle, PointSpace(NORMAL, "person")
        model = integral.fit(records, space, epsilon=4.0, draws=3, settings=settings)
        fields = model.fields()
        fields["plan"] = {**fields["plan"], "id": ""}
        written.append((fields, model.gain(records)))
        gained = model.density.log_unnormalized(records) - NORMAL.log_density(records)
        assert gained.mean() - 1e-8 <= written[-1][1] <= gained.mean()
    assert written[0][0] == written[1][0]
    assert 0 < written[0][1] != written[1][1] > 0


def test_no_second_folder_doubles_the_budget(tmp_path):
    model = fit()
    model.save(tmp_path / "secret")
    with pytest.raises(PrivotError, match="double its budget"):
        model.save(tmp_path / "another")
    with pytest.raises(PrivotError, match="never overwritten"):
        fit().save(tmp_path / "secret")


def test_refused_samples_spend_nothing(tmp_path):
    model = fit()
    model.save(tmp_path / "secret")
    for n, proposals in ((0, None), (-1, None), (11, None), (1, 0)):
        with pytest.raises(PrivotError):
            model.sample(n, proposals=proposals)
    assert model.draws_left == 10
    assert model.sample(10, proposals=3).shape == (10, 1)
    with pytest.raises(BudgetExhausted, match="all 10 draws are spent"):
        model.sample(1)


def test_changed_files_are_refused(tmp_path):
    fit().save(tmp_path / "secret")
    weights = tmp_path / "secret" / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + b"x")
    with pytest.raises(PrivotError, match="damaged"):
        IntegralModel.load(tmp_path / "secret")
    weights.write_bytes(whole)
    path = tmp_path / "secret" / "model.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"draws": 1000}))
    with pytest.raises(PrivotError, match=r"damaged \(model.json was changed\)"):
        IntegralModel.load(tmp_path / "secret").sample(1)
    path.write_text(json.dumps(fields | {"kind": "local"}))
    with pytest.raises(PrivotError, match="kind 'local'"):
        IntegralModel.load(tmp_path / "secret")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit(draws=0), "draws 0 cannot be"),
        (lambda: fit(epsilon=-1.0), "epsilon is -1.0"),
        (lambda: fit(epsilon=1e9, draws=1), "epsilon"),
        (lambda: IntegralModel.load("nowhere"), "cannot be read"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(PrivotError, match=message):
        call()


def test_own_reference_must_come_back(tmp_path):
    fit(ClippedRatioSettings(network=QUICK), OWN).save(tmp_path / "secret")
    with pytest.raises(PrivotError, match="custom reference"):
        IntegralModel.load(tmp_path / "secret")


def test_without_a_state_folder_nothing_is_fitted(tmp_path, monkeypatch):
    """Before an hour of fitting, not after; and a folder without its ledger is not left behind."""
    (tmp_path / "file").write_text("")
    model = fit()
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path / "file"))
    for call in (fit, lambda: model.save(tmp_path / "secret")):
        with pytest.raises(PrivotError, match="set PRIVOT_STATE_DIR"):
            call()
    assert not (tmp_path / "secret").exists()
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path / "elsewhere"))
    model.save(tmp_path / "secret")
