r"""Fitting a generative model to private records through noisy slices.

The mechanism owns the records; everything here sees releases only, so the guarantee of the plan is the
model's, however it is trained (post-processing). Per release:

- the mean record is pooled over all releases so far (`privot.sliced.releases.pooled`);
- `"factors"`: when the budget is spent, classes are read off the pooled mean in closed form;
- `"network"`: one step of Adam on

$$ ‖\hat μ_t − m_G‖^2 + d · \overline{W_2^2}(\text{centered slices}), $$

  that is d times the smoothed sliced loss with its mean part taken from all releases
  (`"mean_first"`), or on the published loss (`"sliced"`). ‖μ̂ − m_G‖² is estimated
  without bias as the inner product of the residuals of two independent halves of the
  generated batch, so that small batches do not shrink the spread. Weights are averaged.

A budget that runs out (a resumed run may lack what a kill cost) ends the releases, not the fit: the
pooled mean is followed to the end, or, by the published loss, the weights are left as they are.

**Resuming.** The checkpoint holds the model, the pooled mean and the optimizer; the ledger is a file of
its own that is never behind (`privot.disk.ledger`). After a kill, releases that were counted but
whose effect was lost stay spent. Losses in the history are functions of releases. Times depend on
raw records: a model has none, a checkpoint keeps them, and stays with the curator.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from privot.disk import BudgetExhausted
from privot.errors import PrivotError
from privot.models import Checkpoint, History
from privot.sliced.factors import estimate_factors, require_visible
from privot.sliced.images import LabeledImages
from privot.sliced.loss import smoothed_sliced_loss, spread_loss
from privot.sliced.model import SlicedModel
from privot.sliced.releases.checkpoints import Counted, load_counted, open_ledger, save_counted
from privot.sliced.releases.given import given_labels, given_values
from privot.sliced.releases.mechanism import Slices, SlicingMechanism
from privot.sliced.releases.pooled import PooledMean
from privot.sliced.releases.settings import SlicedSettings
from privot.sliced.samplers import FactorSampler, LabeledNetwork, Records
from privot.training import Interrupted, Progress, train
from privot.training.interrupt import deferred_interruption
from privot.training.threads import threads_for
from privot.transport import entropic_cost

_CHECKPOINT_SECONDS = 30.0
_CENTERED_ROWS = 1000  # rows of a single release that one step looks at


def fit_sliced(
    values: ArrayLike | Tensor,
    labels: ArrayLike | Tensor | None,
    records: Records,
    settings: SlicedSettings,
    *,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> SlicedModel:
    """Learn a model of private records through noisy slices, keeping the (ε, δ) of the settings.

    Arguments:
        values: Images (n, …) in [0, 1], floats, or `TableRecords.encode(table)`.
        labels: Labels (n,), whole numbers from 0; None where the map has none.
        records: The public map from raw values to records.
        settings: Budget and method.
        checkpoint: File of the run's state; its ledger is written beside it, as `<name>.ledger`.
            Without it, the run counts in memory only and cannot be resumed. Either way it is entered
            in the account of its records, and the curator is warned if it is not the first.
        resume: Whether to go on with checkpoint and ledger.
        progress: Told after every step.

    Raises:
        PrivotError: for input or settings that cannot be used, a ledger of another plan, or a run to
            be resumed that is finished.
        Interrupted: on SIGINT or SIGTERM, after state and ledger were saved.
    """
    path = None if checkpoint is None else Path(checkpoint)
    values = given_values(values)
    labels = given_labels(labels, len(values), records.num_labels)
    squared = isinstance(records, LabeledImages) and records.degree == 2
    estimator = settings.chosen_estimator(records, squared)
    plan = settings.plan(len(values), records)
    if estimator == "factors":
        if not isinstance(records, LabeledImages):
            raise PrivotError("estimator 'factors' needs images: use 'network'")
        require_visible(plan, records)
    ledger = open_ledger(plan, path, resume)
    mechanism = SlicingMechanism(values, labels, records, ledger)
    pooled = PooledMean(ledger.plan)
    history: History | None = None
    try:
        with threads_for(0):
            if estimator == "factors":
                assert isinstance(records, LabeledImages)
                pool_releases(mechanism, pooled, path, resume, progress)
                sampler: FactorSampler | LabeledNetwork = FactorSampler(
                    estimate_factors(pooled, records), records, settings.dither
                )
            else:
                sampler, history = _train_network(
                    mechanism, pooled, records, settings, path, resume, progress
                )
    finally:
        ledger.close()
    made_with = asdict(settings) | {"estimator": estimator, "releases": ledger.spent}
    return SlicedModel(sampler, records, ledger.plan, ledger.spent, made_with, history)


def pool_releases(
    mechanism: SlicingMechanism,
    pooled: PooledMean,
    checkpoint: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> None:
    """Spend what is left of the budget on the pooled mean.

    Raises:
        Interrupted: on a signal, between two releases, after saving.
    """
    plan, counted = mechanism.ledger.plan, Counted(pooled=pooled)
    if resume and checkpoint is not None and checkpoint.exists():
        load_counted(counted, {}, mechanism.ledger, checkpoint)
    saved = time.perf_counter()
    with deferred_interruption() as interruption:
        while mechanism.ledger.left:
            pooled.add(mechanism.release())
            if progress is not None:
                progress(mechanism.ledger.spent, plan.steps, pooled.stddev)
            due = time.perf_counter() - saved > _CHECKPOINT_SECONDS
            if checkpoint is not None and (due or interruption.requested):
                save_counted(counted, {}, mechanism.ledger, checkpoint)
                saved = time.perf_counter()
            if interruption.requested:
                raise Interrupted(f"stopped after release {mechanism.ledger.spent} of {plan.steps}")
    if checkpoint is not None:
        save_counted(counted, {}, mechanism.ledger, checkpoint)


def _train_network(
    mechanism: SlicingMechanism,
    pooled: PooledMean,
    records: Records,
    settings: SlicedSettings,
    checkpoint: Path | None,
    resume: bool,
    progress: Progress | None,
) -> tuple[LabeledNetwork, History]:
    network = LabeledNetwork(records, settings.latent_dim, settings.hidden, settings.seed)
    follow = SliceObjective(mechanism, pooled, network, settings)
    counted, ledger = Counted(network=network, pooled=pooled), mechanism.ledger
    if settings.release == "once":
        if resume:
            raise PrivotError(
                "release 'once' keeps its slices in memory and cannot be resumed: start again "
                "with a budget of its own"
            )
        checkpoint = None

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        loss = follow(rng)
        counted.count(ledger)
        return loss

    identity = {
        "settings": asdict(settings),
        "records": records.to_dict(),
        "ledger": ledger.id,
    }
    history = train(
        counted,
        objective,
        settings.training,
        checkpoint=Checkpoint(checkpoint, identity, resume),
        progress=progress,
        seek=lambda _: counted.check(ledger),
    )
    # How long steps took depends on raw records.
    history.rows = [(*row[:-1], 0.0) for row in history.rows]
    network.eval()
    return network, history


class SliceObjective:
    """The loss of one step, from a fresh release or from the one that was made.

    Arguments:
        mechanism: Whom to ask for releases.
        pooled: Estimate of the mean record that they are added to.
        network: What is trained.
        settings: Loss and sizes.
    """

    def __init__(
        self,
        mechanism: SlicingMechanism,
        pooled: PooledMean,
        network: LabeledNetwork,
        settings: SlicedSettings,
    ) -> None:
        self.mechanism, self.pooled, self.network = mechanism, pooled, network
        self.settings = settings
        self.stddev = mechanism.ledger.plan.stddev
        count = mechanism.map.num_labels
        each = 2 * max(1, settings.generated // (2 * count))
        self.labels = torch.arange(count).repeat_interleave(each)
        self._released: Slices | None = None

    def __call__(self, rng: torch.Generator) -> tuple[Tensor, float]:
        """Loss and 0 (there is no marginal to fit)."""
        slices = self._next(rng)
        record_map = self.mechanism.map
        values = self.network.draw(self.labels, rng)
        features = record_map.features(record_map.prepare(values))
        # (labels, each, width): rows were drawn label by label.
        features = features.reshape(record_map.num_labels, -1, record_map.width)
        loss = 0.0 * features.sum()  # with the budget spent and no pooled mean, weights stay
        if slices is not None:
            blocks = slices.directions.reshape(record_map.num_labels, record_map.width, -1)
            projected = (features @ blocks).flatten(0, 1)
            # Blank rows of a padded batch are blank on this side as well.
            blanks = round(len(projected) * (self.pooled.padding - 1))
            projected = torch.cat([projected, projected.new_zeros(blanks, projected.shape[1])])
            loss = self._slice_loss(slices.values, projected, rng)
        if self.settings.loss == "mean_first":
            halves = features.unflatten(1, (2, -1)).mean(dim=2) / record_map.num_labels
            target = self.pooled.estimate.reshape(record_map.num_labels, 1, record_map.width)
            residual = halves - target
            loss = loss + (residual[:, 0] * residual[:, 1]).sum()
        return loss, 0.0

    def _slice_loss(self, released: Tensor, projected: Tensor, rng: torch.Generator) -> Tensor:
        dim = self.mechanism.ledger.plan.accounting.dim
        if self.settings.loss == "mean_first":
            return dim * spread_loss(released, projected, self.stddev, rng)
        if self.settings.loss == "sliced":
            return dim * smoothed_sliced_loss(
                released, projected, self.stddev, self.settings.q, rng
            )
        cost = torch.cdist(projected, released).square() / (2 * self.stddev**2)
        return entropic_cost(cost)[0]

    def _next(self, rng: torch.Generator) -> Slices | None:
        """Slices to look at; None once the budget is spent."""
        if self.settings.release == "once":
            if self._released is None:
                self._released = self.mechanism.release()
                self.pooled.add(self._released)
            rows = torch.randint(
                len(self._released.values), (min(_CENTERED_ROWS, len(self.labels)),), generator=rng
            )
            return Slices(self._released.directions, self._released.values[rows])
        try:
            slices = self.mechanism.release()
        except BudgetExhausted:
            return None
        if self.settings.loss == "mean_first":
            self.pooled.add(slices)
        return slices
