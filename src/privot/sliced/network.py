r"""A network that makes raw values of latents and labels, and what trains it on noisy slices.

Per release one step of Adam on

$$ ‖\hat μ_t − m_G‖^2 + d · \overline{W_2^2}(\text{centered slices}), $$

that is d times the smoothed sliced loss (`privot.sliced.loss`) with its mean part taken from all
releases (`"mean_first"`), or on the published loss (`"sliced"`). ‖μ̂ − m_G‖² is estimated without bias as
the inner product of the residuals of two independent halves of the generated batch, so that small
batches do not shrink the spread. Weights are averaged.

A budget that runs out (a resumed run may lack what a kill cost) ends the releases, not the fit: the
pooled mean is followed to the end, or, by the published loss, the weights are left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from privot.architectures import Architecture
from privot.disk import BudgetExhausted
from privot.errors import PrivotError
from privot.generators import make_network
from privot.models import NOWHERE, Checkpoint, History
from privot.sliced.loss import PooledMean, smoothed_sliced_loss, spread_loss, with_blanks
from privot.sliced.records import Records
from privot.sliced.releases.mechanism import Slices, SlicingMechanism
from privot.sliced.releases.plan import Counted
from privot.sliced.settings import SlicedSettings
from privot.sliced.tensor_law import LabeledLaw
from privot.training import Progress
from privot.training.loop import train
from privot.transport import entropic_cost

_CENTERED_ROWS = 1000  # rows of a single release that one step looks at


class LabeledNetwork(nn.Module, LabeledLaw):
    """A multilayer perceptron, or a DCGAN, from (z, one-hot label) to raw values of records.

    A fitted network makes every record from its own latent and label alone. Privacy: it sees released
    slices and its own draws, never a record; batch normalization, where there is any, is of its draws.
    """

    kind: ClassVar[str] = "network"

    def __init__(
        self,
        records: Records,
        latent_dim: int,
        hidden: tuple[int, ...],
        seed: int = 0,
        architecture: Architecture = "mlp",
    ) -> None:
        super().__init__()
        self.records, self.latent_dim = records, latent_dim
        labels = records.num_labels if records.num_labels > 1 else 0
        self.network = make_network(
            architecture, latent_dim + labels, records.array_shape, hidden, seed
        )
        # Every label alike: that is assumed in public.
        self.shares = torch.full((records.num_labels,), 1.0 / records.num_labels)

    def forward(self, latent: Tensor, labels: Tensor) -> Tensor:
        """Raw values of latents (n, latent_dim) and labels (n,)."""
        count = self.records.num_labels
        if count > 1:
            latent = torch.cat([latent, nn.functional.one_hot(labels, count).to(latent)], dim=1)
        return self.records.activate(self.network(latent))

    def draw(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """Raw values for labels, from fresh latents."""
        latent = self.network.draw_latent(len(labels), rng)[:, : self.latent_dim]
        values: Tensor = self(latent, labels)
        return values

    @torch.no_grad()
    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """See `LabeledLaw`."""
        return self.draw(labels, rng)

    def fields(self) -> dict[str, Any]:
        """See `LabeledLaw`."""
        hidden, architecture = list(self.network.hidden), self.network.architecture
        return {"latent_dim": self.latent_dim, "hidden": hidden, "architecture": architecture}

    def tensors(self) -> dict[str, Tensor]:
        """See `LabeledLaw`."""
        return self.state_dict()

    @classmethod
    def of_tensors(
        cls, records: Records, fields: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> Self:
        """See `LabeledLaw`."""
        shape = (fields["latent_dim"], tuple(fields["hidden"]))
        network = cls(records, *shape, architecture=fields["architecture"])
        network.load_state_dict(dict(tensors))
        return network.eval()


def train_network(
    mechanism: SlicingMechanism,
    records: Records,
    settings: SlicedSettings,
    checkpoint: Checkpoint,
    progress: Progress | None,
) -> tuple[LabeledNetwork, History]:
    """A network that follows the mechanism's releases, and its losses."""
    shape = (settings.latent_dim, settings.hidden, settings.seed, settings.architecture)
    network = LabeledNetwork(records, *shape)
    pooled, ledger = PooledMean(mechanism.ledger.plan), mechanism.ledger
    follow = SliceObjective(mechanism, pooled, network, settings)
    counted = Counted(network=network, pooled=pooled)
    if settings.release == "once":
        if checkpoint.resume:
            raise PrivotError(
                "release 'once' keeps its slices in memory and cannot be resumed: start again "
                "with a budget of its own"
            )
        checkpoint = NOWHERE

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        loss = follow(rng)
        counted.count(ledger)
        return loss

    history = train(
        counted,
        objective,
        settings.training,
        checkpoint=checkpoint.of({"settings": asdict(settings), "records": records.to_dict()}),
        progress=progress,
        seek=lambda _: counted.check(ledger),
    )
    # How long steps took depends on raw records.
    history.rows = [(*row[:-1], 0.0) for row in history.rows]
    return network.eval(), history


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
            projected = with_blanks((features @ blocks).flatten(0, 1), self.mechanism.ledger.plan)
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
