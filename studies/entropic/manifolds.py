r"""The half circle, an ellipse and a rectangle, learned from reports that hide all of their shape.

Records lie on a public curve, so the noise has to hide its diameter only: Δ₁ = 1 + √2 and Δ₂ = 2 for
the half circle of radius 1. Even so, at ε = 5 the Laplace noise puts every coordinate off by 0.7
(standard deviation), and the reports show a blob. From them one generator is fitted by entropic
transport at the matched weight, and the same one by the unregularized distance, which learns the
blob.

**Raw and projected.** The generator puts out points of the plane; that they must lie on the curve is
public, so `LocalModel.sample` projects them to it: free post-processing, but it would flatter any model.
Hence two distances: `…_raw`, of the generator's own outputs, is the one to compare with the paper;
`…_projected`, of `LocalModel.sample`, is what a user gets.

**Honest ε.** Local privacy hides one record of the curve from another, so noise is scaled to the
diameter. The 2023 text scales it to the radius, the largest norm of a record, and for Gaussian noise
uses the looser formula of Zhao et al.: `epsilon_by_radius` is what that arithmetic would call the
noise of this run (`studies.entropic.image_noise`).

References:
    Reshetova, Chen, Özgür, *Training generative models from privatized data via entropic optimal
    transport* (2024; 2023), section IV-A, figures 1 and 2.

Usage:
    python -m studies entropic.manifolds --curve half_circle --mechanism laplace --epsilon 5 -o out
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from matplotlib.figure import Figure

from privot.core.errors import PrivotError
from privot.core.files import replacing_file
from privot.evaluation import sample_distance
from privot.local import FitSettings, LocalModel, fit
from privot.local.networks.generator_fit import GeneratorSampler
from privot.randomizer import Randomizer
from privot.report.panels import LEARNED, PRIVATE, RECEIVED, save_png
from privot.schema import Domain, Schema
from privot.schema.domains import from_unit
from studies.common.clouds import Cloud, draw_clouds
from studies.common.rows import write_row
from studies.entropic.image_noise import claimed_epsilon
from studies.rivals.batch_losses import unregularized

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

    @property
    def domain(self) -> Domain:
        """The curve as the support of a column, which knows its diameters."""
        return self.schema.point_column("point").domain

    def radius(self, norm: int) -> float:
        """Largest ℓ1 or ℓ2 norm of a point: the sensitivity that the 2023 text takes."""
        return float(np.linalg.norm(np.asarray(self.corners), ord=norm, axis=1).max())

    def draw(self, num_points: int, seed: int) -> np.ndarray:
        """Points (num_points, 2), uniform on the curve by arc length."""
        corners = np.asarray(self.corners)
        ends = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(corners, axis=0), axis=1))])
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
    Setting("ellipse", "gaussian", 10.0),
    Setting("rectangle", "laplace", 5.0),
    Setting("rectangle", "gaussian", 5.0),
    Setting("rectangle", "gaussian", 10.0),
)


@dataclass(frozen=True)
class Scale:
    """Numbers of records and of points in a distance, and how each of the generators is fitted."""

    num_people: int
    num_compared: int
    entropic: FitSettings
    unregularized: FitSettings


_LONG = FitSettings(estimator="generator", loss="plain", steps=3000, batch_size=1000, latent_dim=2)
_SHORT = FitSettings(estimator="generator", loss="plain", averaging=0.99, latent_dim=2)
FULL = Scale(400_000, 2000, _LONG, replace(_LONG, steps=2000, batch_size=300))
SMALL = Scale(50_000, 1000, replace(_SHORT, steps=1500), replace(_SHORT, steps=600, batch_size=250))


@dataclass(frozen=True)
class Outcome:
    """One row of the table; every `w2_…` is an exact W₂ to the clean records, in the curve's units.

    Arguments:
        setting: What was run.
        scale: At which size, and with which settings.
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
    """

    setting: Setting
    scale: Scale
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
    claimed = epsilon_by_radius(randomizer, curve)
    say(f"{setting.stem}: {randomizer.guarantee} (by the radius: {claimed:.2f})")
    entropic = fit(release, scale.entropic, seed=seed)
    learned = fit(release, scale.unregularized, seed=seed, loss=unregularized)
    clouds = {
        "raw": raw_points(entropic, _SAMPLES, seed),
        "projected": _points(entropic.sample(_SAMPLES, seed)),
        "unregularized_raw": raw_points(learned, _SAMPLES, seed),
        "unregularized_projected": _points(learned.sample(_SAMPLES, seed)),
        "released": _points(release.table),
        "released_projected": curve.domain.project(_points(release.table)),
        "floor": curve.draw(_SAMPLES, seed + 1),
    }
    distances = {
        f"w2_{name}": round(sample_distance(points, clean, scale.num_compared), 4)
        for name, points in clouds.items()
    }
    outcome = Outcome(
        setting, scale, seed, round(claimed, 3), round(_noise_stddev(randomizer), 4), **distances
    )
    say("   W₂  " + "  ".join(f"{name[3:]} {value:.3f}" for name, value in distances.items()))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write_row(folder / f"{setting.stem}.json", asdict(outcome))
        with replacing_file(folder / f"{setting.stem}.png") as draft:
            save_png(_picture(curve, outcome, clean, clouds), draft)
    return outcome


def epsilon_by_radius(randomizer: Randomizer, curve: Curve) -> float:
    """What noise scaled to the radius instead of the diameter would be called."""
    stddev = _noise_stddev(randomizer)
    if randomizer.delta:
        return claimed_epsilon("gaussian", stddev, curve.radius(2))
    return claimed_epsilon("laplace", stddev / math.sqrt(2), curve.radius(1))


@torch.no_grad()
def raw_points(model: LocalModel, num_points: int, seed: int) -> np.ndarray:
    """The generator's own outputs (num_points, 2) in the curve's units, not projected to it."""
    rng = torch.Generator().manual_seed(seed)
    assert isinstance(model.sampler, GeneratorSampler)
    outputs = model.sampler.outputs(num_points, rng)["point"]
    return from_unit(model.schema.point_column("point").domain, outputs.double().numpy())


def _noise_stddev(randomizer: Randomizer) -> float:
    scale = randomizer.schema.point_column("point").domain.scale[0]
    return math.sqrt(randomizer.mechanisms["point"].variance) * float(scale)


def _points(table: pa.Table) -> np.ndarray:
    return np.stack([table.column(name).to_numpy() for name in ("x", "y")], axis=1)


def _picture(
    curve: Curve, outcome: Outcome, clean: np.ndarray, clouds: dict[str, np.ndarray]
) -> Figure:
    """Records, reports, and the raw outputs of both generators."""
    noise = f"{outcome.setting.mechanism.capitalize()} ε = {outcome.setting.epsilon:g}"
    captions = (
        ("Clean records", "never seen by the curator", PRIVATE),
        ("Received reports", f"{noise}   W₂ {outcome.w2_released:.2f}", RECEIVED),
        ("Entropic transport", f"learned   W₂ {outcome.w2_raw:.2f}", LEARNED),
        ("Unregularized", f"learned   W₂ {outcome.w2_unregularized_raw:.2f}", LEARNED),
    )
    shown = (clean, clouds["released"], clouds["raw"], clouds["unregularized_raw"])
    panels = [Cloud(*caption, points) for caption, points in zip(captions, shown, strict=True)]
    return draw_clouds(panels, np.asarray(curve.corners), margin=0.9 * outcome.noise_stddev)


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--curve", choices=sorted(CURVES), default="half_circle")
    parser.add_argument("--mechanism", choices=("laplace", "gaussian"), default="laplace")
    parser.add_argument("--epsilon", type=float, default=5.0)
    parser.add_argument("--all", action="store_true", help="every setting of the table")
    parser.add_argument("--small", action="store_true", help="fewer records and steps: a minute")
    parser.add_argument("--seed", type=int, default=0, help="of all but the noise, which has none")
    parser.add_argument("-o", "--output", type=Path, default=Path("half_circle"))


def run(chosen: argparse.Namespace) -> None:
    """The command line: one setting, or `--all`."""
    settings = (
        SETTINGS if chosen.all else (Setting(chosen.curve, chosen.mechanism, chosen.epsilon),)
    )
    for setting in settings:
        run_manifold(
            setting, chosen.output, scale=SMALL if chosen.small else FULL, seed=chosen.seed
        )
