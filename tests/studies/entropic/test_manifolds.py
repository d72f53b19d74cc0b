"""The half circle of the papers: its curves, its two epsilons, and who recovers it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ellipeinc
from scipy.stats import kstest

from privot import FitSettings, Randomizer
from privot.core.errors import PrivotError
from privot.privacy import calibrate_gaussian_zhao
from studies.__main__ import main
from studies.entropic.manifolds import (
    CURVES,
    SETTINGS,
    Scale,
    Setting,
    epsilon_by_radius,
    run_manifold,
)

TINY = Scale(
    20_000,
    400,
    FitSettings(
        estimator="generator",
        loss="plain",
        steps=900,
        batch_size=300,
        hidden=(64, 64),
        learning_rate=2e-3,
        averaging=0.98,
    ),
    FitSettings(
        estimator="generator",
        loss="plain",
        steps=300,
        batch_size=100,
        hidden=(64, 64),
        learning_rate=2e-3,
        averaging=0.98,
    ),
)


def share_of_length(name, points):
    """How far along its curve each point is, in [0, 1), from closed forms instead of corners."""
    x, y = points.T
    angle = np.arctan2(y, x) % (2 * np.pi)
    if name == "half_circle":
        np.testing.assert_allclose(np.hypot(x, y), 1, atol=4e-5)
        return angle / np.pi
    if name == "ellipse":
        np.testing.assert_allclose(np.hypot(x, 2 * y), 1, atol=4e-5)
        # Of ds = sqrt(sin² t + cos² t / 4) dt: the elliptic integral from the top, t = π/2.
        quarter = ellipeinc(np.pi / 2, 0.75)
        t = np.arctan2(2 * y, x) % (2 * np.pi)
        return (ellipeinc(t - np.pi / 2, 0.75) + quarter) / (4 * quarter)
    np.testing.assert_allclose(np.maximum(np.abs(x), 2 * np.abs(y)), 1, atol=1e-12)
    bottom, right, top = (np.isclose(side, 1, atol=1e-12) for side in (-2 * y, x, 2 * y))
    along = np.select([bottom, right, top], [1 + x, 2.5 + y, 4 - x], default=5.5 - y)
    return along / 6


@pytest.mark.parametrize("name", CURVES)
def test_records_lie_on_the_curve_uniformly_by_length(name):
    points = CURVES[name].draw(50_000, seed=0)
    np.testing.assert_allclose(CURVES[name].domain.project(points), points, atol=1e-12)
    assert kstest(share_of_length(name, points), "uniform").pvalue > 1e-3
    np.testing.assert_array_equal(points[:9], CURVES[name].draw(50_000, seed=0)[:9])


def test_uniform_by_angle_is_not_uniform_by_length():
    """The test above has power: the tempting parametrization of the ellipse fails it."""
    t = np.random.default_rng(0).random(50_000) * 2 * np.pi
    by_angle = np.stack([np.cos(t), np.sin(t) / 2], axis=1)
    assert kstest(share_of_length("ellipse", by_angle), "uniform").pvalue < 1e-9


def test_noise_hides_the_diameter_of_the_half_circle():
    half_circle = CURVES["half_circle"]
    assert half_circle.domain.diameter(1) == pytest.approx(1 + np.sqrt(2), abs=1e-12)
    assert half_circle.domain.diameter(2) == pytest.approx(2, abs=1e-12)
    release = Randomizer.calibrate(half_circle.schema, 5.0, mechanism="laplace")
    assert release.mechanisms["point"].scale == pytest.approx((1 + np.sqrt(2)) / 5, rel=1e-5)


@pytest.mark.parametrize("name", CURVES)
def test_epsilon_by_radius_is_what_the_radius_would_have_been_calibrated_for(name):
    curve = CURVES[name]
    laplace = Randomizer.calibrate(curve.schema, 5.0, mechanism="laplace")
    scale = laplace.mechanisms["point"].scale * curve.domain.scale[0]
    claimed = epsilon_by_radius(laplace, curve)
    assert curve.radius(1) / claimed == pytest.approx(scale, rel=1e-6)
    if name != "half_circle":  # symmetric about the origin: the diameter is twice the radius
        assert claimed == pytest.approx(2.5, rel=1e-5)
    gaussian = Randomizer.calibrate(curve.schema, 5.0, 1e-4, mechanism="gaussian")
    stddev = gaussian.mechanisms["point"].stddev * curve.domain.scale[0]
    claimed = epsilon_by_radius(gaussian, curve)
    assert calibrate_gaussian_zhao(curve.radius(2), claimed, 1e-4) == pytest.approx(stddev)


def test_entropic_transport_recovers_the_half_circle_and_the_unregularized_loss_does_not(tmp_path):
    """At ε = 10; raw outputs, nothing projected to the curve that is known.

    The noise is drawn afresh. Over eight runs the distances varied by .002 (raw), .003 (projected),
    .005 (unregularized) and .012 (released): each bound is at least six of these from its mean, so that
    chance fails the test less than once in 1e6 runs.
    """
    setting = Setting("half_circle", "laplace", 10.0)
    said = []
    outcome = run_manifold(setting, tmp_path, scale=TINY, say=said.append)
    assert outcome.w2_raw < 0.14
    assert outcome.w2_unregularized_raw > 2 * outcome.w2_raw
    assert outcome.w2_unregularized_raw > 0.7 * outcome.w2_released
    assert outcome.w2_projected < 0.14  # both near the floor of drawing alone
    assert outcome.w2_floor < 0.1 < 0.25 < outcome.w2_released
    row = json.loads((tmp_path / f"{setting.stem}.json").read_text())
    assert row["w2_raw"] == outcome.w2_raw
    assert row["setting"] == {"curve": "half_circle", "mechanism": "laplace", "epsilon": 10.0}
    assert row["scale"]["entropic"]["steps"] == 900
    assert (tmp_path / f"{setting.stem}.png").read_bytes().startswith(b"\x89PNG")
    assert "ε = 10 (pure)" in said[0]
    assert "by the radius: 5.86" in said[0]


def test_unknown_names_are_refused(capsys):
    with pytest.raises(PrivotError, match="curve 'spiral' is not known: use half_circle"):
        run_manifold(replace(SETTINGS[0], curve="spiral"))
    with pytest.raises(SystemExit):
        main(["entropic.manifolds", "--curve", "spiral"])
    assert "choose from" in capsys.readouterr().err
