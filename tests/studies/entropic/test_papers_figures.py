"""Recipes of the entropic papers' figures: noise and both ε, fits, starts, rows, the page."""

import json

import numpy as np
import pytest
import torch
from scipy.fft import dctn

from privot.errors import PrivotError
from privot.privacy import gaussian_epsilon
from privot.report.style import new_figure
from studies.common.image_features import ImageClassifier, save_classifier
from studies.common.image_recipe import Recipe, recipe_of
from studies.common.rows import read_rows
from studies.entropic import higher_privacy, noise_sweep, size_sweep
from studies.entropic.batch_fit import (
    LOSSES,
    FitPlan,
    build_generator,
    fit_images,
    planned,
    suited,
)
from studies.entropic.claims import claims_table, noisy_claims, privacy_claims
from studies.entropic.image_noise import DELTA, SIDE, ball_noise, claimed_epsilon, pixel_noise
from studies.entropic.measures import Excess, w2_reference
from studies.entropic.noisy_wasserstein import run_noisy_wasserstein
from studies.entropic.page import PARTS, tables_of
from studies.recipes import parser_of

denoising = pytest.importorskip(
    "studies.entropic.denoising", reason="PyWavelets", exc_type=ImportError
)

TINY = FitPlan(steps=4, batch_size=20, hidden=(8,), latent_dim=3)


def shapes(num_images, seed=0):
    """Bright disks of two sizes on black, (n, 784) in [−1, 1]."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(np.arange(SIDE), np.arange(SIDE))
    centers = rng.uniform(10, 18, (num_images, 2, 1, 1))
    radii = rng.choice([4, 8], (num_images, 1, 1))
    inside = np.hypot(x - centers[:, 0], y - centers[:, 1]) < radii
    flat = np.where(inside, 1.0, -1.0).reshape(num_images, -1)
    return torch.from_numpy(flat).float(), (radii[:, 0, 0] == 8).astype(np.uint8)


class MadeUp(Recipe):
    """A recipe whose data are drawn here."""

    def __init__(self, name, output):
        super().__init__(name, None, output, classifier_file=output / "judge.safetensors")
        output.mkdir(exist_ok=True)
        save_classifier(ImageClassifier(), self.classifier_file)
        images, labels = shapes(400)
        self.__dict__["clean"] = images
        self.__dict__["held_out"] = shapes(300, 1)[0]
        self.__dict__["images"] = type(
            "Images", (), {"y_train": labels, "y_test": shapes(300, 1)[1]}
        )


@pytest.fixture(autouse=True)
def fewer_images(monkeypatch):
    """Recipes judge a hundred images here, and compare fifty."""
    for module in (denoising, higher_privacy, noise_sweep, size_sweep):
        monkeypatch.setattr(module, "NUM_JUDGED", 100)
    monkeypatch.setattr("studies.entropic.noisy_wasserstein.NUM_JUDGED", 100)
    monkeypatch.setattr("studies.common.image_recipe.NUM_JUDGED", 100)
    for module in ("measures", "noise_sweep", "size_sweep"):
        monkeypatch.setattr(f"studies.entropic.{module}.NUM_POINTS", 50)
    monkeypatch.setattr(denoising, "_BLIND_SPOT_STEPS", 3)
    monkeypatch.setattr(denoising, "_TUNED_ON", 20)


def test_honest_epsilon_takes_the_diameter_and_the_papers_the_radius():
    """The numbers that the reference states: called 35 on R = 28, called 25 on R = 20."""
    stddev = denoising.SETTINGS["gaussian35"][1]
    noise = pixel_noise("gaussian", stddev)
    assert noise.guarantee.epsilon == pytest.approx(94.7, abs=0.05)
    assert noise.claimed_epsilon == pytest.approx(35)
    ball = ball_noise("gaussian", 25.0)
    assert ball.guarantee.epsilon == pytest.approx(64.4, abs=0.05)
    assert ball.guarantee.epsilon == pytest.approx(
        gaussian_epsilon(ball.scale, 40.0, DELTA), rel=1e-4
    )
    laplace = ball_noise("laplace", 35.0)
    assert (laplace.scale, laplace.claimed_epsilon) == (pytest.approx(4.0), pytest.approx(35))
    assert laplace.guarantee.epsilon == pytest.approx(70, rel=1e-3)
    assert claimed_epsilon(1, 4.0, 784.0) == 196


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_records_stay_in_their_ball_and_noise_has_its_deviation(kind):
    images, _ = shapes(300)
    noise = ball_noise(kind, 30.0)
    records = noise.records(images)
    radius = 20.0 if kind == "gaussian" else 140.0
    assert float(records.norm(p=noise.p, dim=1).max()) <= radius * (1 + 1e-5)
    gap = noise.report(images) - records
    # 235 200 draws: relative deviation of their own below .004; twelve of them, so no false alarms.
    assert float(gap.std()) == pytest.approx(noise.stddev, rel=0.05)
    simulated = noise.simulate(torch.zeros(300, SIDE**2), torch.Generator().manual_seed(0))
    assert float(simulated.std()) == pytest.approx(noise.stddev, rel=0.02)
    assert float(simulated.abs().mean()) == pytest.approx(
        noise.scale * (1 if kind == "laplace" else (2 / np.pi) ** 0.5), rel=0.02
    )


def test_cosines_are_scipys_and_only_the_largest_fifth_is_kept():
    images, _ = shapes(5)
    noise = ball_noise("laplace", 30.0)
    values = noise.into(images)
    expected = dctn(images.reshape(5, SIDE, SIDE).numpy(), axes=(1, 2), norm="ortho").reshape(5, -1)
    np.testing.assert_allclose(values, expected, atol=1e-4)
    torch.testing.assert_close(noise.back(values), images, atol=1e-4, rtol=0)
    assert float((noise.records(images) != 0).float().mean()) <= 0.2 + 1e-3


def test_matched_cost_is_the_negative_log_density():
    x, y = torch.randn(2, 3, SIDE**2, generator=torch.Generator().manual_seed(0))
    for kind, law in (
        ("gaussian", torch.distributions.Normal),
        ("laplace", torch.distributions.Laplace),
    ):
        noise = pixel_noise(kind, 1.5)
        density = law(x[:, None], 1.5).log_prob(y[None]).sum(dim=2)
        gap = noise.cost(x, y) + density
        assert float(gap.std()) < 1e-2 < float(density.std())


def test_the_start_finds_the_covariance_under_the_noise():
    images, _ = shapes(4000)
    noise = pixel_noise("gaussian", 2.0)
    reports = noise.report(images)
    truth = float(images.var(dim=0).sum())
    generator = build_generator(reports, noise, FitPlan())
    outputs = generator(generator.draw_latent(2000, torch.Generator().manual_seed(1))).detach()
    assert float((outputs.mean(dim=0) - images.mean(dim=0)).abs().mean()) < 0.3
    assert 0.15 * truth < float(outputs.var(dim=0).sum()) < truth


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_fits_and_repeats_itself(loss):
    images, _ = shapes(200)
    noise = pixel_noise("laplace", 1.0)
    reports = noise.report(images)
    one, same = (fit_images(reports, noise, loss, TINY) for _ in range(2))
    sample = one.sample(10, 0)
    assert sample.shape == (10, SIDE**2)
    assert torch.equal(sample, same.sample(10, 0))
    assert not torch.equal(sample, one.sample(10, 1))


def test_self_correction_learns_more_of_the_spread_than_small_batches_allow():
    images, _ = shapes(3000)
    noise = pixel_noise("gaussian", 2.0)
    reports = noise.report(images)
    plan = FitPlan(steps=120, batch_size=32, hidden=(64,), latent_dim=4, averaging=0.9)
    spread = {
        loss: float(fit_images(reports, noise, loss, plan).sample(1000, 0).var(dim=0).sum())
        for loss in ("entropic", "self_corrected")
    }
    truth = float(images.var(dim=0).sum())
    assert spread["entropic"] < 0.85 * spread["self_corrected"]
    assert spread["self_corrected"] < 1.3 * truth


def test_each_loss_gets_its_batch_size():
    plan = FitPlan(steps=400, batch_size=64)
    assert (suited(plan, "self_corrected").steps, suited(plan, "self_corrected").batch_size) == (
        400,
        64,
    )
    assert (suited(plan, "entropic").steps, suited(plan, "entropic").batch_size) == (100, 400)


def test_a_row_says_how_many_steps_it_was_told(tmp_path):
    parser = parser_of("entropic.noise_sweep")
    told = parser.parse_args(["--steps", "7", "--seed", "3", "-o", str(tmp_path)])
    assert planned(FitPlan(), told) == FitPlan(steps=7, seed=3)
    assert planned(FitPlan(), parser.parse_args([])) == FitPlan()
    told.command = "python -m studies entropic.noise_sweep --steps 7"
    path = recipe_of("noise_sweep", told).write({"found": 1.0}, new_figure(1, 1))
    row = json.loads(path.read_text())
    assert (row["command"], row["seed"]) == (told.command, 3)


def test_the_mean_image_beats_fresh_images_in_w2():
    """What the papers' only measure rewards, on noise of many dimensions."""
    clean, held_out = torch.randn(2, 200, 300, generator=torch.Generator().manual_seed(0))
    reference = w2_reference(clean, held_out)
    assert reference["mean_image"] < reference["floor"]


def test_fresh_clean_images_have_no_excess():
    images, _ = shapes(150)
    noise = pixel_noise("gaussian", 2.0)
    excess = Excess(images[:50], noise.report(images[100:]), noise, 50)
    assert excess.of(images[:50]) == 0
    assert excess.of(torch.zeros(50, SIDE**2)) > 5


@pytest.mark.slow
def test_recipes_write_rows_from_which_the_page_is_made(tmp_path):
    pytest.importorskip("pywt", reason="PyWavelets")
    denoising.run_denoising(MadeUp("denoising", tmp_path), "gaussian2", TINY)
    noise_sweep.run_noise_sweep(MadeUp("noise_sweep", tmp_path), TINY, (2.0,))
    size_sweep.run_size_sweep(MadeUp("size_sweep", tmp_path), TINY, (100, 400))
    higher_privacy.run_higher_privacy(
        MadeUp("higher_privacy", tmp_path), "laplace", TINY, (49.0, 25.0)
    )
    run_noisy_wasserstein(MadeUp("noisy_wasserstein", tmp_path), TINY)
    rows = read_rows(tmp_path, "higher_privacy")
    assert [row["stem"] for row in rows] == ["higher_privacy_mnist_laplace"]
    assert [p["epsilon"] for p in rows[0]["points"]] == pytest.approx([98, 98, 50, 50], rel=1e-3)
    assert {"seed", "seconds", "cores", "date"} <= rows[0].keys()
    for picture in tmp_path.glob("*.json"):
        assert picture.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    for name, (show, judge) in PARTS.items():
        if rows := read_rows(tmp_path, name):
            assert f"({tmp_path.name}/{name}" in show(rows, tmp_path)
            assert judge(rows)
    told = claims_table(privacy_claims(read_rows(tmp_path, "higher_privacy")))
    assert "the diameter makes it 98.0 to 50.0, 2.00 times as large | **corrected**" in told


def test_a_changed_number_changes_the_verdict():
    row = {"frechet": 10.0}
    results = {"noisy_wasserstein": row, "entropic": {"frechet": 5.0}, "self_corrected": row}
    facts = {"dataset": "mnist", "epsilon": 1.0, "results": results}
    assert "| confirmed |" in claims_table(noisy_claims([facts]))
    results["entropic"]["frechet"] = 11.0
    assert "| **corrected** |" in claims_table(noisy_claims([facts]))


def test_refusals(tmp_path):
    with pytest.raises(PrivotError, match="noise 'planar' is not known"):
        pixel_noise("planar", 1.0)
    reports = torch.zeros(3, SIDE**2)
    with pytest.raises(PrivotError, match="loss 'hinge' is not known: use one of entropic"):
        fit_images(reports, pixel_noise("laplace", 1.0), "hinge", TINY)
    with pytest.raises(PrivotError, match="has no rows of manifold_losses"):
        tables_of(tmp_path)
