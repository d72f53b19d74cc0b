r"""The half circle, an ellipse and a rectangle, learned from reports that hide all of their shape.

Records lie on a public curve, so the noise has to hide its diameter only: Δ₁ = 1 + √2 and Δ₂ = 2 for
the half circle of radius 1. Even so, at ε = 5 the Laplace noise puts every coordinate off by 0.7
(standard deviation), and the reports show a blob. From them one generator is fitted by entropic
transport at the matched weight, and the same one by the unregularized distance, which learns the
blob.

**Raw and projected.** The generator puts out points of the plane; that they must lie on the curve is
public, so `Model.sample` projects them to it: free post-processing, but it would flatter any model.
Hence two distances: `…_raw`, of the generator's own outputs, is the one to compare with the paper;
`…_projected`, of `Model.sample`, is what a user gets.

**Honest ε.** Local privacy hides one record of the curve from another, so noise is scaled to the
diameter. The 2023 text scales it to the radius, the largest norm of a record, and for Gaussian noise
uses the looser formula of Zhao et al.: `epsilon_by_radius` is what that arithmetic would call the
noise of this run.

References:
    Reshetova, Chen, Özgür, *Training generative models from privatized data via entropic optimal
    transport* (2024; 2023), section IV-A, figures 1 and 2.

Usage:
    python -m privot.experiments.manifolds --curve half_circle --mechanism laplace --epsilon 5 -o out
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from privot.baselines.unregularized import fit_unregularized
from privot.errors import PrivotError
from privot.evaluation import sample_distance
from privot.files import replacing_file
from privot.local import FitSettings, Model, fit
from privot.local.heads import Head
from privot.mechanisms import Gaussian, Laplace
from privot.release import Randomizer, Release
from privot.report.maps import Panel, draw_maps
from privot.report.style import save_png
from privot.schema import Schema, from_unit

_SAMPLES = 100_000


@dataclass(frozen=True)
class Curve:
    """A curve in the plane, straight between `corners`; closed if it ends where it starts."""

    name: str
    corners: tuple[tuple[float, float], ...]

    @property
    def schema(self) -> Schema:
        """One vector column `point` of coordinates x and y, whose support is the curve."""
        point = {"kind": "vector", "columns": ["x", "y"], "support": self.corners}
        return Schema.from_dict({"columns": {"point": point}})

    def radius(self, norm: int) -> float:
        """Largest ℓ1 or ℓ2 norm of a point: the sensitivity that the 2023 text takes."""
        return float(np.linalg.norm(np.asarray(self.corners), ord=norm, axis=1).max())

    def draw(self, num_points: int, seed: int) -> np.ndarray:
        """Points (num_points, 2), uniform on the curve by arc length."""
        corners = np.asarray(self.corners)
        ends = np.concatenate(
            [[0.0], np.cumsum(np.linalg.norm(np.diff(corners, axis=0), axis=1))]
        )
        along = np.random.default_rng(seed).random(num_points) * ends[-1]
        return np.stack([np.interp(along, ends, corners[:, j]) for j in (0, 1)], axis=1)


def _arc(name: str, width: float, height: float, turn: float) -> Curve:
    # A corner every degree: the polygon is within 4e-5 of the arc; 45° is one, so Δ₁ is exact.
    angles = np.deg2rad(np.arange(0, turn + 0.5))
    points = zip(width * np.cos(angles), height * np.sin(angles), strict=True)
    return Curve(name, tuple((float(x), float(y)) for x, y in points))


CURVES = {
    curve.name: curve
    for curve in (
        _arc("half_circle", 1.0, 1.0, 180),
        _arc("ellipse", 1.0, 0.5, 360),
        Curve("rectangle", ((-1.0, -0.5), (1.0, -0.5), (1.0, 0.5), (-1.0, 0.5), (-1.0, -0.5))),
    )
}


@dataclass(frozen=True)
class Setting:
    """Which curve, hidden how."""

    curve: str
    mechanism: str
    epsilon: float

    @property
    def delta(self) -> float:
        """Zero for Laplace noise, the papers' 1e-4 for Gaussian noise."""
        return 1e-4 if self.mechanism == "gaussian" else 0.0

    @property
    def stem(self) -> str:
        """Name of the files of its results."""
        return f"{self.curve}_{self.mechanism}_epsilon{self.epsilon:g}"


SETTINGS = (
    Setting("half_circle", "laplace", 5.0),
    Setting("half_circle", "gaussian", 5.0),
    Setting("half_circle", "gaussian", 10.0),
    Setting("ellipse", "laplace", 5.0),
    Setting("ellipse", "gaussian", 5.0),
    Setting("rectangle", "laplace", 5.0),
    Setting("rectangle", "gaussian", 5.0),
)


@dataclass(frozen=True)
class Scale:
    """How many people, and how each of the two generators is fitted."""

    num_people: int
    entropic: FitSettings
    unregularized: FitSettings


FULL = Scale(400_000, FitSettings(loss="plain"), FitSettings(steps=3000))
SMALL = Scale(
    50_000,
    FitSettings(loss="plain", steps=1500),
    FitSettings(steps=500, batch_size=250),
)


@dataclass(frozen=True)
class Outcome:
    """One row of the table: exact W₂ of 2 000 against 2 000 points, in the curve's own units.

    Arguments:
        setting: What was run.
        num_people: Number n of records.
        seed: Of records, initial weights, batches, latents; the noise has none.
        epsilon_by_radius: What the 2023 text's arithmetic would call this noise.
        noise_stddev: Standard deviation of a coordinate's noise.
        w2_raw: Entropic generator's own outputs: the number to compare with the paper.
        w2_projected: The same model's samples, projected to the known curve.
        w2_unregularized_raw: Unregularized generator's own outputs.
        w2_unregularized_projected: The same, projected to the known curve.
        w2_released: Reports as they are.
        w2_released_projected: Reports projected to the known curve.
        w2_floor: Fresh records.
        entropic: Settings of the entropic fit.
        unregularized: Settings of the unregularized fit.
    """

    setting: Setting
    num_people: int
    seed: int
    epsilon_by_radius: float
    noise_stddev: float
    w2_raw: float
    w2_projected: float
    w2_unregularized_raw: float
    w2_unregularized_projected: float
    w2_released: float
    w2_released_projected: float
    w2_floor: float
    entropic: FitSettings
    unregularized: FitSettings


def run_manifold(
    setting: Setting,
    folder: Path | None = None,
    *,
    scale: Scale = FULL,
    seed: int = 0,
    say: Callable[[str], None] = print,
) -> Outcome:
    """Draw records, privatize, fit both losses, measure; write a JSON row and a picture to `folder`."""
    if setting.curve not in CURVES:
        raise PrivotError(f"curve {setting.curve!r} is not known: use {', '.join(CURVES)}")
    curve = CURVES[setting.curve]
    clean = curve.draw(scale.num_people, seed)
    randomizer = Randomizer.calibrate(
        curve.schema, setting.epsilon, setting.delta, mechanism=setting.mechanism
    )
    release = randomizer.privatize({"x": clean[:, 0], "y": clean[:, 1]})
    noisy = _points(release.table)
    claimed = epsilon_by_radius(randomizer, curve, setting.delta)
    say(f"{setting.stem}: {randomizer.guarantee} (by the radius, {claimed:.2f})")
    entropic = replace(scale.entropic, seed=seed)
    unregularized = replace(scale.unregularized, seed=seed)
    model = fit(release, entropic)
    blob = fit_unregularized(release, unregularized)
    learned, noise_learned = raw_points(model, _SAMPLES, seed), raw_points(blob, _SAMPLES, seed)
    outcome = Outcome(
        setting,
        scale.num_people,
        seed,
        round(claimed, 3),
        round(_noise_stddev(release), 4),
        _distance(learned, clean),
        _distance(_points(model.sample(_SAMPLES, seed)), clean),
        _distance(noise_learned, clean),
        _distance(_points(blob.sample(_SAMPLES, seed)), clean),
        _distance(noisy, clean),
        _distance(curve.schema.continuous["point"].domain.project(noisy[:_SAMPLES]), clean),
        _distance(curve.draw(_SAMPLES, seed + 1), clean),
        entropic,
        unregularized,
    )
    say(
        f"   W₂ to the curve: reports {outcome.w2_released:.3f}, unregularized "
        f"{outcome.w2_unregularized_raw:.3f}, entropic {outcome.w2_raw:.3f} "
        f"(projected {outcome.w2_projected:.3f}), floor {outcome.w2_floor:.3f}"
    )
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing_file(folder / f"{setting.stem}.json") as draft:
            draft.write_text(json.dumps(asdict(outcome), indent=2) + "\n", encoding="utf-8")
        with replacing_file(folder / f"{setting.stem}.png") as draft:
            _draw(draft, curve, outcome, (clean, noisy, learned, noise_learned))
    return outcome


def epsilon_by_radius(randomizer: Randomizer, curve: Curve, delta: float) -> float:
    r"""What noise scaled to the radius R instead of the diameter would be called.

    Laplace: R₁/b. Gaussian: with $s = \sqrt2 σ/R_2$, Zhao et al.'s $s = (c + \sqrt{c^2+ε})/ε$ solved
    for ε, which is $(1 + 2cs)/s^2$, $c^2 = \log(2/(\sqrt{16δ+1} − 1))$.
    """
    mechanism = randomizer.mechanisms["point"]
    units = float(curve.schema.continuous["point"].domain.scale[0])
    if isinstance(mechanism, Laplace):
        return curve.radius(1) / (mechanism.scale * units)
    assert isinstance(mechanism, Gaussian)
    c = math.sqrt(math.log(2 / (math.sqrt(16 * delta + 1) - 1)))
    s = math.sqrt(2) * mechanism.stddev * units / curve.radius(2)
    return (1 + 2 * c * s) / s**2


@torch.no_grad()
def raw_points(model: Model, num_points: int, seed: int) -> np.ndarray:
    """The generator's own outputs (num_points, 2) in the curve's units, not projected to it."""
    rng = torch.Generator().manual_seed(seed)
    latent = model.generator.draw_latent(num_points, rng)
    outputs = Head(model.schema)(model.generator(latent))["point"]
    return from_unit(model.schema.continuous["point"].domain, outputs.double().numpy())


def _noise_stddev(release: Release) -> float:
    mechanism = release.randomizer.mechanisms["point"]
    assert isinstance(mechanism, Laplace | Gaussian)
    return math.sqrt(mechanism.variance) * float(release.schema.continuous["point"].domain.scale[0])


def _points(table: object) -> np.ndarray:
    return np.stack([table.column(name).to_numpy() for name in ("x", "y")], axis=1)  # type: ignore[attr-defined]


def _distance(points: np.ndarray, clean: np.ndarray) -> float:
    return round(sample_distance(points, clean, num_points=2000, repeats=3), 4)


def _draw(path: Path, curve: Curve, outcome: Outcome, points: Sequence[np.ndarray]) -> None:
    """Four maps: the records, the reports, and the raw outputs of both generators."""
    setting = outcome.setting
    noise = f"{setting.mechanism} noise, ε = {setting.epsilon:g}"
    titles = (
        ("Private", f"{outcome.num_people:,} records on a curve".replace(",", " ")),
        ("Received", f"{noise}: W₂ {outcome.w2_released:.2f}"),
        ("Learned", f"entropic transport: W₂ {outcome.w2_raw:.3f}"),
        ("Without entropy", f"unregularized: W₂ {outcome.w2_unregularized_raw:.2f}"),
    )
    panels = [Panel(*title, cloud) for title, cloud in zip(titles, points, strict=True)]
    corners = np.asarray(curve.corners)
    middle = (corners.min(axis=0) + corners.max(axis=0)) / 2
    half = 1.0 + 1.5 * outcome.noise_stddev
    bounds = tuple((float(m - half), float(m + half)) for m in middle)
    figure = draw_maps(panels, bounds, geographic=False)  # type: ignore[arg-type]
    for axis in figure.axes[1:]:
        axis.plot(*corners.T, color="white", linewidth=0.7, alpha=0.55, linestyle=(0, (1, 3)))
    save_png(figure, path)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line: one setting, or `--all`."""
    parser = argparse.ArgumentParser(description="Learn a curve from locally private reports.")
    parser.add_argument("--curve", choices=sorted(CURVES), default="half_circle")
    parser.add_argument("--mechanism", choices=("laplace", "gaussian"), default="laplace")
    parser.add_argument("--epsilon", type=float, default=5.0)
    parser.add_argument("--all", action="store_true", help="every setting of the table")
    parser.add_argument("--small", action="store_true", help="fewer records and steps: a minute")
    parser.add_argument("--seed", type=int, default=0, help="of all but the noise, which has none")
    parser.add_argument("-o", "--output", type=Path, default=Path("half_circle"))
    chosen = parser.parse_args(arguments)
    settings = SETTINGS if chosen.all else (Setting(chosen.curve, chosen.mechanism, chosen.epsilon),)
    for setting in settings:
        run_manifold(setting, chosen.output, scale=SMALL if chosen.small else FULL, seed=chosen.seed)


if __name__ == "__main__":
    main()
