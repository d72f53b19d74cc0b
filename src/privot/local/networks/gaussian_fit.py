r"""Fit of Gaussian classes to a release of candidates, by penalized maximum likelihood.

**Model.** The symbols are those of `privot.local.gaussians`: class c has the share $w_c$ and points
$z' = k_c (m_c + P_c (A ξ + D^{1/2} η))$; the channel is a smooth step from b to a at t, of width τ.

**Likelihood.** The vector y of a report has a part for each label c: one number $y_{c0}$ for the label
and q numbers $y_c$ for the point. With $a_0$ the share of the label in the squared length of features,
and $a_1 = 1 − a_0$, a record with label c and point z has the score

$$ u = \sqrt{a_0} \, y_{c0} + \sqrt{a_1} \, ⟨y_c, z⟩ , $$

and for a Gaussian z′ the score u is normal, with mean
$μ = \sqrt{a_0} y_{c0} + \sqrt{a_1} k_c ⟨y_c, m_c⟩$ and variance
$v = a_1 k_c^2 \, y_c^⊤ P_c (A A^⊤ + D) P_c \, y_c$. The mean of a smooth step over a normal u is again
a smooth step, so

$$ p(y) = \sum_c w_c \, \frac{1}{Z_c} \Big( b + (a − b) Φ\Big( \frac{μ − t}{\sqrt{v + τ^2}} \Big)
   \Big) , \qquad Z_c = \mathbb E \, Z(a_0 + a_1 ‖z'‖^2) $$

is a density for all parameters. Without $Z_c$ the likelihood would grow with the length of the points.
$Z_c$ is computed by Gauss–Hermite quadrature, with $‖z'‖^2$ approximated as log-normal of mean 1 and the
same variance. Missing points of a label form one more component, whose only point is the feature for
missing points.

*Comparison with moments.* Means of reports are linear in the features' moments. For large ε, f is not
linear: its k-th Hermite coefficient determines the information on k-th moments. The first coefficient is
g, the second $g^2/\sqrt2$. The likelihood uses all moments, so features for first moments suffice.

**Prior.** Deviations of class means from the common mean are normal; their variance is the observed
variance of the linear estimate minus its known noise. Factors are normal with mean 0. Variances are
log-normal around typical values. Their spread is small for a point's direction, and large for its
length and brightness, which differ most between data sets.

**Fit.** The start is the linear estimate of shares and class means, which is unbiased with known noise;
it also gives the variances of the prior. Then Adam maximizes the likelihood plus the log prior on
batches of a few thousand reports. Reports are decoded when they are drawn, so memory does not grow with
their number. The estimated common mean has noise of standard deviation $1/(g \sqrt{a_1 n})$ in each of q
coordinates. If this noise has a larger norm than any record, nothing can be learned, and an error is
raised.

Settings were chosen on the training sets of MNIST and Fashion-MNIST: models were fitted to simulated
reports of 50 000 images and evaluated on the other 10 000 (`docs/results/images.md`).
"""

import hashlib
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from privot.core.errors import PrivotError
from privot.core.processes import started_by_torchrun
from privot.local.gaussians import GaussianClasses, GaussianSampler, ImageCompletion, SmoothChannel
from privot.local.model import LocalModel
from privot.local.releases import Releases
from privot.local.settings import FitSettings, Run
from privot.mechanisms.candidates.features import Moments
from privot.models import Checkpoint, History
from privot.privacy.rounding import exactly
from privot.randomizer import Release
from privot.randomizer.reports.candidates import CandidateAnswers, CandidatesReport
from privot.schema.domains import Array
from privot.training import attach_model
from privot.training.loop import TrainingSettings, train

_NODES, _MIN_LENGTH = 9, 1e-6  # number of quadrature nodes; least length of a mean
_SHARE_SPREAD, _LEVEL_SPREAD = 1.0, 0.5  # prior deviations of log shares, and of the log level of D
_FACTOR_PRECISION = 1.5  # prior precision of a factor, times its initial variance
_BATCH, _RATE, _AVERAGING = 2_000, 0.01, 0.99  # default settings of the training
_PASSES, _MIN_STEPS, _MAX_STEPS = 10, 300, 3_000  # passes over all reports; limits of the steps
_FACTORS = 16  # largest r
# Limits of the start.
_MIN_MISSING, _MAX_MISSING = 0.01, 0.9  # share of missing points
_MIN_SHARE = 0.3  # share of a label, times C
_MIN_RETAINED = 0.05  # part of the means' deviations after shrinkage
_MIN_WITHIN, _MAX_WITHIN = 0.1, 0.6  # total variance within classes
_MIN_BETWEEN = 0.1  # part of the means' observed variance that is not noise


@dataclass(frozen=True)
class LabelParts:
    """Parts of the vectors y of n reports."""

    labels: Tensor  # $y_{c0}$ (n, C); zeros without labels
    points: Tensor  # $y_c$ (n, C, q)
    missing: Tensor  # the number for missing points (n,); zeros if points cannot be missing


@dataclass(frozen=True)
class Start:
    """Initial values of a fit, which also determine its prior."""

    shares: Array  # w (C,)
    missing: float  # share of missing points
    means: Array  # m (C, q)
    variance_between: float  # prior variance of each coordinate of the means between classes
    variances: Array  # typical variances (q,) of z given the class
    spreads: Array  # prior deviations (q,) of the log standard deviations of z


class _PointMoments(NamedTuple):
    """Moments of the points z′ in each class (C,), with S = $A A^⊤ + D$."""

    radial_reductions: Tensor  # ρ
    trace: Tensor  # of P S P
    variance: Tensor  # of ‖z'‖² / k²


class ClassParameters(nn.Module):
    """Parameters of Gaussian classes, their likelihood, and their prior.

    `num_factors` is r, `nullable` says whether points may be missing, and `seed` is for initial factors.
    """

    base: Tensor  # initial diagonal of D (q,)
    spreads: Tensor  # prior deviations (q,) of `log_ratios`
    nodes: Tensor  # nodes of the quadrature
    weights: Tensor  # weights of the nodes

    def __init__(
        self, channel: SmoothChannel, start: Start, num_factors: int, nullable: bool, seed: int
    ) -> None:
        super().__init__()
        self.channel, self.nullable = channel, nullable
        self.variance_between = start.variance_between
        count, size = start.means.shape
        rng = torch.Generator().manual_seed(seed)
        self.logits = nn.Parameter(_single(np.log(start.shares)))
        self.missing = nn.Parameter(
            torch.full((count,), math.log(start.missing / (1 - start.missing)))
        )
        self.means = nn.Parameter(_single(start.means))
        # Initially, factors and D have half of each variance.
        self.register_buffer("base", _single(start.variances / 2))
        self.register_buffer("spreads", _single(start.spreads))
        spread = torch.sqrt(self.base / num_factors)[:, None]
        self.factors = nn.Parameter(spread * torch.randn(size, num_factors, generator=rng))
        self.log_ratios = nn.Parameter(torch.zeros(size))
        self.log_level = nn.Parameter(torch.zeros(()))
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        self.register_buffer("nodes", _single(nodes))
        self.register_buffer("weights", _single(weights / weights.sum()))

    @property
    def variances(self) -> Tensor:
        """Diagonal of D (q,)."""
        return self.base * torch.exp(2 * (self.log_ratios + self.log_level))

    def log_densities(self, y: LabelParts) -> Tensor:
        """Compute ln p (n,) of n reports."""
        label_weight, point_weight = self.channel.label_weight, 1 - self.channel.label_weight
        variances = self.variances
        lengths = self.means.norm(dim=1).clamp_min(_MIN_LENGTH)
        directions = self.means / lengths[:, None]
        rho, trace, variance_of_square = self._point_moments(lengths, directions, variances)
        squared_scales = 1 / (lengths**2 + trace)  # k²
        along = (y.points * directions).sum(dim=2)
        projected = y.points - (rho * along)[:, :, None] * directions  # P y
        label = math.sqrt(label_weight) * y.labels
        mean = label + math.sqrt(point_weight) * along * lengths * squared_scales.sqrt()
        spread = ((projected @ self.factors) ** 2).sum(dim=2) + projected**2 @ variances
        density = self._smooth_step(mean, point_weight * squared_scales * spread)
        density = density / self._mass(squared_scales**2 * variance_of_square)
        if self.nullable:
            missing = torch.sigmoid(self.missing)
            missing_score = label + math.sqrt(point_weight) * y.missing[:, None]
            density_missing = self._smooth_step(missing_score, 0.0)
            density = (1 - missing) * density + missing * density_missing
        return torch.log((torch.softmax(self.logits, dim=0) * density).sum(dim=1))

    def penalty(self) -> Tensor:
        """Compute the negative log density of the prior, up to a constant."""
        deviations = self.means - self.means.mean(dim=0)
        total = (deviations**2).sum() / self.variance_between
        total = total + ((self.logits - self.logits.mean()) ** 2).sum() / _SHARE_SPREAD**2
        total = total + ((self.log_ratios / self.spreads) ** 2).sum()
        total = total + self.log_level**2 / _LEVEL_SPREAD**2
        variance = 2 * self.base[:, None] / self.factors.shape[1]
        return (total + _FACTOR_PRECISION * (self.factors**2 / variance).sum()) / 2

    @torch.no_grad()
    def law(self) -> GaussianClasses:
        """Convert the parameters to a distribution."""
        missing = torch.sigmoid(self.missing) if self.nullable else torch.zeros_like(self.missing)
        shares = torch.softmax(self.logits.double(), dim=0)
        parts = (shares, missing, self.means, self.factors, self.variances)
        return GaussianClasses(self.channel, *(part.double().numpy().copy() for part in parts))

    def _smooth_step(self, mean: Tensor, variance: Tensor | float) -> Tensor:
        """Compute the mean density of a report whose score is normal with this mean and variance."""
        channel = self.channel
        width = torch.sqrt(torch.as_tensor(channel.width**2 + variance))
        step = torch.special.ndtr((mean - channel.threshold) / width)
        return channel.outside + (channel.inside - channel.outside) * step

    def _point_moments(
        self, lengths: Tensor, directions: Tensor, variances: Tensor
    ) -> _PointMoments:
        """Compute moments for means of these lengths (C,) and directions (C, q), and D (q,)."""
        factors = self.factors
        product = factors.T @ factors
        scaled = directions @ factors @ factors.T + directions * variances
        along = (scaled * directions).sum(dim=1)  # hᵀ S h
        trace = product.diagonal().sum() + variances.sum()  # tr S
        rho = lengths**2 / (lengths**2 + trace)
        removed = 2 * rho - rho**2  # 1 − (1 − ρ)²
        # tr S², then tr (P S P)²; for a Gaussian of mean m, Var ‖·‖² = 2 tr (P S P)² + 4 mᵀ P S P m.
        square = (product**2).sum() + 2 * (factors**2).sum(dim=1) @ variances + (variances**2).sum()
        square = square - 2 * removed * (scaled**2).sum(dim=1) + (removed * along) ** 2
        radial = lengths**2 * (1 - rho) ** 2 * along  # mᵀ P S P m
        return _PointMoments(rho, trace - removed * along, 2 * square + 4 * radial)

    def _mass(self, variance: Tensor) -> Tensor:
        """Compute $Z_c$ (C,) for squared lengths ‖z'‖² of mean 1 and these variances (C,)."""
        channel = self.channel
        log_variance = torch.log1p(variance)[:, None]
        squares = torch.exp(torch.sqrt(log_variance) * self.nodes - log_variance / 2)
        total = channel.label_weight + (1 - channel.label_weight) * squares + channel.width**2
        below = torch.special.ndtr(-channel.threshold / total.sqrt()) @ self.weights
        return channel.outside + (channel.inside - channel.outside) * below


def _single(values: Array) -> Tensor:
    """Convert an array to a tensor in single precision."""
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)


def fit_gaussians(release: Release, settings: FitSettings, run: Run) -> LocalModel:
    """Fit a model whose sampler is Gaussian classes: see `privot.local.fitting.fit`.

    Raises:
        PrivotError: for a release without candidates or with other columns, a setting that would be
            ignored, or too few reports.
    """
    report = _require_candidates(release)
    _require_all_used(settings, run)
    answers = report.read(release.table)
    moments, stddev = report.moments(answers)
    _require_enough(report, stddev, len(release))
    typical = report.coordinates.prior_variances, report.coordinates.prior_spreads
    start = linear_start(moments, stddev, 1 - report.features.label_weight, *typical)
    channel = SmoothChannel.of(report.mechanism, report.features.label_weight)
    rank = min(_FACTORS, report.features.num_coordinates)
    classes = ClassParameters(channel, start, rank, report.features.nullable, settings.seed)
    size = min(len(release), settings.batch_size or _BATCH)
    steps_of_passes = _PASSES * len(release) // size
    steps = settings.steps or min(_MAX_STEPS, max(_MIN_STEPS, steps_of_passes))
    rate = settings.learning_rate or _RATE
    text = release.randomizer.to_json() + release.rows.digest()
    identity = {"release": hashlib.sha256(text.encode()).hexdigest(), "batch_size": size}
    made_with = {
        "estimator": "gaussian_classes",
        "loss": "likelihood of candidates",
        "seed": settings.seed,
        "steps": steps,
        "batch_size": size,
        "learning_rate": rate,
        "num_reports": len(release),
        "stddev": stddev,
    }

    def learned(history: History) -> LocalModel:
        law, completion = classes.law(), None
        if report.coordinates.column.image_shape is not None:
            rng = np.random.default_rng(settings.seed)
            completion = ImageCompletion.of(law, report.coordinates, rng)
        sampler = GaussianSampler(law, report, completion)
        return LocalModel.of(Releases.of(release), sampler, made_with | history.totals(), history)

    with attach_model(learned):
        history = train(
            classes,
            Objective(classes, report, answers, size),
            TrainingSettings(steps, rate, _AVERAGING, settings.seed, settings.minutes),
            checkpoint=Checkpoint(run.checkpoint, identity, run.resume),
            progress=run.progress,
        )
    return learned(history)


def linear_start(
    moments: Moments, stddev: float, weight: float, variances: Array, spreads: Array
) -> Start:
    """Estimate shares and means from noisy moments, with means shrunk by the known noise.

    Means of features have noise of deviation `stddev`; `weight` is $a_1$. `variances` (q,) are typical
    up to a common factor; `spreads` are described in `Start`.
    """
    count = len(moments.first)
    shares = np.maximum(moments.shares, _MIN_SHARE / count)
    shares = (shares / shares.sum() + 1 / count) / 2 if count > 1 else np.ones(1)
    missing = min(_MAX_MISSING, max(_MIN_MISSING, moments.missing))
    present = shares if moments.missing == 0 else (1 - missing) * shares
    means = moments.first / present[:, None]
    deviations = means - means.mean(axis=0)  # 0 for one class, whose mean is not shrunk
    noise = (1 - 1 / count) * stddev**2 / weight * float((present**-2).mean())  # of a deviation
    total = max(1e-12, float((deviations**2).mean()))
    means = means.mean(axis=0) + max(_MIN_RETAINED, 1 - noise / total) * deviations
    # Points have length 1, so the variances within classes and the squared means sum to 1.
    within = 1 - float(shares @ (means**2).sum(axis=1))
    within = min(_MAX_WITHIN, max(_MIN_WITHIN, within))
    return Start(
        shares,
        missing,
        means,
        max(total - noise, _MIN_BETWEEN * total),
        variances * (within / variances.sum()),
        spreads,
    )


class Objective:
    """Negative log posterior per report, estimated from a random batch of `size` reports."""

    def __init__(
        self,
        classes: ClassParameters,
        report: CandidatesReport,
        answers: CandidateAnswers,
        size: int,
    ) -> None:
        self.classes, self.report, self.answers, self.size = classes, report, answers, size

    def __call__(self, rng: torch.Generator) -> tuple[Tensor, float]:
        """Compute the loss of one step, and 0 for `train`'s marginal error."""
        total = len(self.answers.seeds)
        rows = torch.randint(total, (self.size,), generator=rng).numpy()
        log_likelihood = self.classes.log_densities(self._parts(rows)).mean()
        return self.classes.penalty() / total - log_likelihood, 0.0

    def _parts(self, rows: Array) -> LabelParts:
        """Decode the reports of these rows."""
        codebook, features = self.report.mechanism.codebook, self.report.features
        y = codebook.rows(self.answers.seeds[rows], self.answers.indices[rows])
        parts = features.parts(y * np.float32(math.sqrt(codebook.dimension)))
        return LabelParts(*(torch.from_numpy(np.ascontiguousarray(part)) for part in parts))


def _require_candidates(release: Release) -> CandidatesReport:
    """Return the candidates report; raise PrivotError if there is none, or another column."""
    report = release.randomizer.candidates
    if report is None:
        raise PrivotError(
            "estimator 'gaussian_classes' is for candidates: this release has none; use estimator "
            "'auto'"
        )
    apart = [name for name in release.schema.columns if name not in report.columns]
    if apart:
        raise PrivotError(
            f"columns {apart} were reported apart from the candidates of column {report.name!r}, and no "
            "estimator learns both: calibrate with mechanism 'laplace', or with a schema for each"
        )
    return report


def _require_enough(report: CandidatesReport, stddev: float, num_reports: int) -> None:
    """Raise PrivotError if the noise of the common mean is longer than any record."""
    squared = stddev**2 * report.features.num_coordinates / (1 - report.features.label_weight)
    if squared > 1:
        raise PrivotError(
            f"{num_reports:,} reports at ε = {exactly(report.mechanism.epsilon)} say nothing about "
            f"column {report.name!r}: its mean would err by more than any record's length; collect "
            f"at least {math.ceil(num_reports * squared):,} reports, or calibrate a larger ε"
        )


def _require_all_used(settings: FitSettings, run: Run) -> None:
    """Raise PrivotError for several processes, and for settings that only a generator uses."""
    if started_by_torchrun():
        raise PrivotError(
            "estimator 'gaussian_classes' runs in one process: start it without torchrun"
        )
    if run.loss is not None or settings.loss != "auto":
        raise PrivotError(
            "loss would be ignored: this release is fitted by Gaussian classes; leave it out"
        )
