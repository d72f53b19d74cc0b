"""The demo of images: what is learned by either mechanism, what is refused, and the report."""

import dataclasses
import json

import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from privot.core.errors import PrivotError
from privot.demo.digits import run_image_demo
from privot.local import FitSettings, LocalModel


def quiet(line):
    pass


@pytest.mark.slow
def test_the_demo_recovers_digits_and_says_its_epsilon(tmp_path):
    """Accuracy in two runs: see `docs/results/images.md` for MNIST."""
    metrics = run_image_demo(tmp_path, num_people=8000, say=quiet)
    assert metrics.mechanism == "candidates"
    assert metrics.delta == 0
    assert metrics.accuracy_synthetic > 0.6
    assert metrics.accuracy_real > 0.85
    assert metrics.accuracy_attack < 0.9
    assert json.loads((tmp_path / "metrics.json").read_text()) == dataclasses.asdict(metrics)
    page = (tmp_path / "report.html").read_text()
    assert str(LocalModel.load(tmp_path / "model").guarantee) in page
    assert "http://" not in page
    assert "https://" not in page
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")


def test_the_papers_version_is_noise_and_a_generator(tmp_path):
    settings = FitSettings(steps=3, hidden=(8,), batch_size=50)
    metrics = run_image_demo(
        tmp_path, num_people=300, epsilon=40.0, mechanism="gaussian", settings=settings, say=quiet
    )
    assert (metrics.mechanism, metrics.estimator) == ("gaussian", "generator")
    assert metrics.epsilon == pytest.approx(40, rel=1e-3)
    assert metrics.delta == 1e-5
    assert "label" in (tmp_path / "report.html").read_text()


def test_what_does_not_report_images_is_refused(tmp_path):
    with pytest.raises(PrivotError, match="laplace"):
        run_image_demo(tmp_path, mechanism="laplace", say=quiet)
    with pytest.raises(PrivotError, match="mnist"):
        run_image_demo(tmp_path, data=tmp_path, say=quiet)
