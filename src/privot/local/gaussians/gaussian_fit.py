r"""Fitting Gaussian classes to a release of candidates.

The linear estimate of labels' shares and class means, unbiased and of known noise, is the start; it also
gives the prior's variances. From there, steps of Adam on the likelihood of a few thousand reports each,
plus the prior's share. Reports are decoded as they are drawn, so that memory does not grow with them.

What nothing can be learned of is refused: where the noise of the common mean, of standard deviation
$1/(g \sqrt{a_1 n})$ in each of q coordinates, is longer than any record.

Settings were chosen on training sets alone, for MNIST and Fashion-MNIST alike: fitted to simulated
reports of 50 000 training images, judged on the other 10 000 (`docs/results/images.md`).
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.local.gaussians.channel import SmoothChannel
from privot.local.gaussians.likelihood import ClassParameters, LabelParts, Start
from privot.local.gaussians.pictures import Pictures
from privot.local.gaussians.sampler import GaussianSampler
from privot.local.model import LocalModel
from privot.local.settings import FitSettings, Run
from privot.mechanisms.candidates.features import Moments
from privot.models import Checkpoint, History
from privot.privacy.rounding import exactly
from privot.release import Release
from privot.release.reports.candidates import CandidateAnswers, CandidatesReport
from privot.schema import Array
from privot.training.loop import TrainingSettings, train
from privot.training.processes import started_by_torchrun
from privot.training.stopping import learning

_BATCH, _RATE, _AVERAGING = 2_000, 0.01, 0.99
_PASSES, _FEWEST_STEPS, _MOST_STEPS = 10, 300, 3_000
_FACTORS = 16
_LEAST_MISSING, _MOST_MISSING = 0.01, 0.9
_LEAST_SHARE, _LEAST_KEPT, _LEAST_WITHIN, _MOST_WITHIN = 0.3, 0.05, 0.1, 0.6


def fit_gaussians(release: Release, settings: FitSettings, run: Run) -> LocalModel:
    """A model whose sampler is Gaussian classes; see `privot.local.fitting.fit`.

    Raises:
        PrivotError: for another release, a setting that would be ignored, or too few reports.
    """
    report = _require_candidates(release)
    _refuse_ignored(settings, run)
    answers = report.read(release.table)
    moments, stddev = report.moments(answers)
    _require_enough(report, stddev, len(release))
    typical = report.coordinates.typical_variances, report.coordinates.variance_spreads
    start = linear_start(moments, stddev, 1 - report.features.label_weight, *typical)
    channel = SmoothChannel.of(report.mechanism, report.features.label_weight)
    rank = min(_FACTORS, report.features.points)
    classes = ClassParameters(channel, start, rank, report.features.nullable, settings.seed)
    size = min(len(release), settings.batch_size or _BATCH)
    steps = settings.steps or _steps(len(release), size)
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
        law, pictures = classes.law(), None
        if report.coordinates.column.image_shape is not None:
            pictures = Pictures.of(law, report.coordinates, np.random.default_rng(settings.seed))
        sampler = GaussianSampler(law, report, pictures)
        return LocalModel(sampler, release.randomizer, made_with | history.done(), history)

    with learning(learned):
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
    """Shares and means from moments whose numbers have noise, shrunk by what is known of it."""
    count = len(moments.first)
    shares = np.maximum(moments.shares, _LEAST_SHARE / count)
    shares = (shares / shares.sum() + 1 / count) / 2 if count > 1 else np.ones(1)
    missing = min(_MOST_MISSING, max(_LEAST_MISSING, moments.missing))
    present = shares if moments.missing == 0 else (1 - missing) * shares
    means = moments.first / present[:, None]
    # With one class there is nothing between classes, and the mean is left as it is.
    away = means - means.mean(axis=0)
    noise = (1 - 1 / count) * stddev**2 / weight * float((present**-2).mean())
    seen = max(1e-12, float((away**2).mean()))
    kept = max(_LEAST_KEPT, 1 - noise / seen)
    means = means.mean(axis=0) + kept * away
    within = 1 - float(shares @ (means**2).sum(axis=1))
    within = min(_MOST_WITHIN, max(_LEAST_WITHIN, within))
    return Start(
        shares,
        missing,
        means,
        max(seen - noise, 0.1 * seen),
        variances * (within / variances.sum()),
        spreads,
    )


class Objective:
    """Mean of −ln p over some reports, with the prior's share: a function of the run's generator."""

    def __init__(
        self,
        classes: ClassParameters,
        report: CandidatesReport,
        answers: CandidateAnswers,
        size: int,
    ) -> None:
        self.classes, self.report, self.answers, self.size = classes, report, answers, size

    def __call__(self, rng: torch.Generator) -> tuple[Tensor, float]:
        """One step; there is no marginal error."""
        total = len(self.answers.seeds)
        rows = torch.randint(total, (self.size,), generator=rng).numpy()
        fit = self.classes.log_densities(self._parts(rows)).mean()
        return self.classes.penalty() / total - fit, 0.0

    def _parts(self, rows: Array) -> LabelParts:
        codebook, features = self.report.mechanism.codebook, self.report.features
        y = codebook.rows(self.answers.seeds[rows], self.answers.indices[rows])
        parts = features.parts(y * np.float32(math.sqrt(codebook.dimension)))
        return LabelParts(*(torch.from_numpy(np.ascontiguousarray(part)) for part in parts))


def _steps(num_reports: int, size: int) -> int:
    return min(_MOST_STEPS, max(_FEWEST_STEPS, _PASSES * num_reports // size))


def _require_candidates(release: Release) -> CandidatesReport:
    """The report that all of a release's columns are in."""
    report = release.randomizer.candidates
    if report is None:
        raise PrivotError(
            "estimator 'gaussian_classes' is for candidates: this release holds none; use estimator "
            "'auto'"
        )
    if apart := [name for name in release.schema.columns if name not in report.columns]:
        raise PrivotError(
            f"columns {apart} were reported apart from the candidates of column {report.name!r}, and no "
            "estimator learns both: calibrate with mechanism 'laplace', or with a schema for each"
        )
    return report


def _require_enough(report: CandidatesReport, stddev: float, num_reports: int) -> None:
    """Refuse reports that say nothing: see the module."""
    squared = stddev**2 * report.features.points / (1 - report.features.label_weight)
    if squared > 1:
        raise PrivotError(
            f"{num_reports:,} reports at ε = {exactly(report.mechanism.epsilon)} say nothing about "
            f"column {report.name!r}: its mean would err by more than any record's length; collect "
            f"at least {math.ceil(num_reports * squared):,}, or more per person"
        )


def _refuse_ignored(settings: FitSettings, run: Run) -> None:
    """Refuse what only a generator takes."""
    if started_by_torchrun():
        raise PrivotError(
            "estimator 'gaussian_classes' looks at few reports at a time, in one process: start it "
            "without torchrun"
        )
    if run.loss is not None or settings.loss != "auto":
        raise PrivotError(
            "loss would be ignored: this release is fitted by Gaussian classes; leave it out"
        )
