import pytest

from central.halves import learn

pytestmark = pytest.mark.usefixtures("little_noise")


def test_times_are_not_kept():
    settings = {"steps": 20, "generated": 20}
    assert (learn(settings).history["seconds"] == 0).all()


def test_a_killed_run_stays_within_budget_and_is_usable(tmp_path):
    """The kill's releases stay counted: the rest of the fit runs on what was pooled."""
    settings = {"steps": 60, "generated": 20}
    path = tmp_path / "run"

    def stop(step, steps, loss):
        if step == 45:
            raise MemoryError

    with pytest.raises(MemoryError):
        learn(settings, checkpoint=path, progress=stop)
    model = learn(settings, checkpoint=path, resume=True)
    assert model.releases == 60
    assert len(model.sample(4)) == 4
