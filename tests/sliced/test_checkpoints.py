import json
import signal

import pytest

from privot.errors import PrivotError
from privot.training import Interrupted
from sliced.halves import learn

pytestmark = pytest.mark.usefixtures("little_noise")


@pytest.mark.parametrize("estimator", ["factors", "network"])
def test_interrupted_runs_go_on_with_their_ledger(tmp_path, estimator):
    settings = {"steps": 300, "estimator": estimator, "generated": 20}
    path = tmp_path / "run"

    def stop(step, steps, loss):
        if step == 100:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        learn(settings, checkpoint=path, progress=stop)
    spent = json.loads((tmp_path / "run.ledger").read_text())["entries"][-1]["spent"]
    assert 100 <= spent < 300
    with pytest.raises(PrivotError, match="releases already"):
        learn(settings, checkpoint=path)
    other = {"steps": 300, "batch_size": 30, "estimator": estimator}
    with pytest.raises(PrivotError, match="another budget"):
        learn(other, checkpoint=path, resume=True)
    model = learn(settings, checkpoint=path, resume=True)
    assert model.releases == 300
    assert model.guarantee.epsilon == model.plan.guarantee.epsilon


@pytest.mark.parametrize("estimator", ["factors", "network"])
def test_a_run_without_its_ledger_is_not_resumed(tmp_path, estimator):
    """Its checkpoint holds releases that nobody could count."""
    settings = {"steps": 300, "estimator": estimator, "generated": 20}

    def stop(step, steps, loss):
        if step == 100:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        learn(settings, checkpoint=tmp_path / "run", progress=stop)
    (tmp_path / "run.ledger").unlink()
    with pytest.raises(PrivotError, match="run.ledger is gone"):
        learn(settings, checkpoint=tmp_path / "run", resume=True)
