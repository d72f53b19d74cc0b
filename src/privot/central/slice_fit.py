r"""Fits of networks to noisy slices of records, and the pooled estimate of the mean record.

**The smoothed sliced loss.** With noise N(0, σ²) on the slices of private and of generated records, the
mean over directions of W_q^q between them is the q-th power of the sliced Wasserstein distance of the
two laws convolved with N(0, σ²I): a metric for every σ ≥ 0 (Rakotomamonjy, Ralaivola 2021, theorem 3).
The private slices are constants. The gradient flows to the generated ones through the sort: optimal
transport on the line matches ranks, and the matching is locally constant where no two points tie. For
laws P and Q on the line with means $m_P$ and $m_Q$,

$$ W_2^2(P, Q) = (m_P - m_Q)^2 + W_2^2(P - m_P, Q - m_Q), $$

and for laws in R^d the mean of the first part over uniform directions is ‖m_P − m_Q‖²/d. So the loss for
q = 2 has two parts, each of which may use another estimate: `spread_loss` is the second part, from one
release; the first part is estimated much better from all releases so far (`PooledMean`).

**Training.** Each release is followed by one step of Adam on the default loss (`"mean_first"`)

$$ ‖\hat μ_t − m_G‖^2 + d · \text{(spread loss)}, $$

with the mean record $\hat μ_t ∈ R^d$ estimated from all releases, and the mean $m_G$ of generated
records. `"sliced"` is d times the smoothed sliced loss of one release, as published, and `"entropic"` an
entropic transport cost with the noise's variance as its weight. ‖μ̂ − m_G‖² is estimated without bias,
as the inner product of the residuals of two independent halves of the generated batch; a biased estimate
would shrink the spread of small batches. Weights are averaged. If the budget runs out early (in a
resumed run, after a kill wasted releases), the fit continues without new releases, by the mean part
alone; the published loss then changes nothing. All of this is post-processing.

References:
    Rakotomamonjy, Ralaivola, *Differentially private sliced Wasserstein distance* (2021).
    Greenewald, Yu, Wang, Xu, *Privacy without noisy gradients: slicing mechanism for generative model
    training* (2024).
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from privot.central.fitting import CentralFit, NetworkSettings
from privot.central.mixtures import LabeledLaw, tensors_of
from privot.central.records import FeatureMap, FeatureRecords, records_of
from privot.central.slices import SlicePlan, Slices, SlicingMechanism
from privot.central.sums import Budget, Chunks
from privot.core import errors
from privot.models import NO_CHECKPOINT, Checkpoint, History
from privot.privacy.ledger import BudgetExhausted, Ledger
from privot.privacy.slice_accounting import Method, SlicedAccounting
from privot.privacy.slice_sensitivity import CentralNeighboring, Sampling
from privot.schema import Schema
from privot.tables.files import RecordBatches
from privot.training import Architecture, Progress
from privot.training.generators import make_network
from privot.training.loop import TrainingSettings, threads_for, train
from privot.transport import entropic_cost
from privot.transport.exact import transport_cost_1d

_ROWS_OF_STEP = 1000  # rows of a single release that one step uses


@dataclass(frozen=True, kw_only=True)
class SliceSettings(NetworkSettings):
    """Settings of the releases and of the network, in addition to those of `NetworkSettings`.

    Arguments:
        steps: Number of releases with `release="every_step"`.
        batch_size: Number of records of a release; the mean number for padded Poisson batches.
        num_projections: Number k of directions of a release.
        neighboring: `"replace_one"` with batches of fixed size, or `"zero_out"` with padded Poisson
            batches.
        orthonormal: Whether a release's directions are orthonormal (k ≤ d).
        method: Accounting by `"pld"` (least noise, takes seconds) or `"rdp"`.
        q: Exponent of the sliced loss, 1 or 2.
        release: `"every_step"` makes a release of a new batch for each step; `"once"` makes a single
            release of all records, and trains on it for any number of steps (Greenewald et al. 2024).
        degree: Degree of the features: 1 for means of coordinates, 2 for second moments as well.
        low_pass: Number of frequencies along each axis (images); None for pixels.
        anchor: Constant of the lifted vector (images, degree 2).
        scale: Norm that is scaled to 1; images with larger norms are clipped (images, degree 1).
        loss: `"mean_first"` uses the mean pooled over all releases and the spread of the last;
            `"sliced"` the smoothed distance to the last release, as published; `"entropic"`, with
            `release="once"`, an entropic transport cost.
        optimizer_steps: Number of Adam steps with `release="once"`; otherwise each release has one.
        generated: Number of records that the network generates in a step, at least 2.
        latent_dim: Dimension of the network's latents.
        architecture: `"mlp"`; for images also `"dcgan"`, with channels `hidden`, or
            `"dcgan_unnormalized"`, without batch normalization.
        seed: Seed of initial weights and latents; never of noise, batches or directions.
    """

    steps: int = 60_000
    batch_size: int = 100
    num_projections: int = 16
    neighboring: CentralNeighboring = "replace_one"
    orthonormal: bool = False
    method: Method = "pld"
    q: int = 2
    release: Literal["every_step", "once"] = "every_step"
    degree: int = 2
    low_pass: int | None = 7
    anchor: float = 5.0
    scale: float = 12.0
    loss: Literal["mean_first", "sliced", "entropic"] = "mean_first"
    optimizer_steps: int = 3000
    generated: int = 500
    latent_dim: int = 16
    architecture: Architecture = "mlp"

    maxima: ClassVar[dict[str, int]] = {
        "steps": errors.MOST_STEPS,
        "batch_size": errors.MOST_PEOPLE,
        "num_projections": errors.MOST_PROJECTIONS,
        "q": 2,
        "optimizer_steps": errors.MOST_STEPS,
        "generated": errors.MOST_BATCH,
        "latent_dim": errors.MOST_COORDINATES,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.training  # refuses invalid settings before any budget is spent
        for name, hint in get_type_hints(type(self)).items():
            if get_origin(hint) is Literal:
                errors.require_choice(name, getattr(self, name), get_args(hint))
        errors.require_count("generated", self.generated, errors.MOST_BATCH, least=2)
        if self.loss == "entropic" and self.release != "once":
            raise errors.PrivotError(
                "loss 'entropic' needs release='once': its plans are drawn from one release again "
                "and again"
            )

    @property
    def training(self) -> TrainingSettings:
        """Settings of the network's training."""
        steps = self.optimizer_steps if self.release == "once" else self.steps
        return TrainingSettings(steps, self.learning_rate, self.averaging, self.seed)

    @property
    def record_options(self) -> dict[str, Any]:
        """Options of the record map, for `records_of`."""
        return {name: getattr(self, name) for name in ("degree", "low_pass", "anchor", "scale")}

    @property
    def sampling(self) -> Sampling:
        """Sampling scheme of batches: none for a single release, otherwise by the adjacency."""
        if self.release == "once":
            return "none"
        return "padded_poisson" if self.neighboring == "zero_out" else "without_replacement"

    def accounting(self, count: int, records: FeatureMap, grid: float = 0.0) -> SlicedAccounting:
        """Return the parameters for the privacy accounting of a run on `count` records."""
        return SlicedAccounting(
            dim=records.num_labels * records.width,
            num_projections=self.num_projections,
            records=count,
            batch_size=count if self.sampling == "none" else self.batch_size,
            sampling=self.sampling,
            neighboring=self.neighboring,
            non_negative=records.non_negative,
            orthonormal=self.orthonormal,
            grid=grid,
            unit=records.unit,
        )

    def plan(self, epsilon: float, delta: float, count: int, records: FeatureMap) -> SlicePlan:
        """Return the plan of (ε, δ)-private releases of `count` records."""
        steps = 1 if self.sampling == "none" else self.steps
        return SlicePlan.calibrate(
            epsilon, delta, steps, lambda grid: self.accounting(count, records, grid), self.method
        )


class SliceFit(CentralFit):
    """Fit of images or tables by a network that is trained on noisy slices."""

    records: FeatureRecords

    def __init__(self, schema: Schema, settings: SliceSettings, budget: Budget) -> None:
        self.records = records_of(schema, **settings.record_options)
        self.settings, self.budget = settings, budget

    def plan(self) -> SlicePlan:
        budget = self.budget
        return self.settings.plan(budget.epsilon, budget.delta, budget.records, self.records)

    def chunks(self, source: RecordBatches) -> Chunks:
        """See `CentralFit`; records are read once, so that bad ones are refused before a slow plan."""
        encoded = tuple(map(np.concatenate, zip(*super().chunks(source)(), strict=True)))
        return lambda: [encoded]

    def learn(
        self, chunks: Chunks, ledger: Ledger[Any], state: Checkpoint, progress: Progress | None
    ) -> "tuple[LabeledNetwork, History]":
        settings, ((values, labels),) = self.settings, chunks()  # a single chunk
        state = state.of({"settings": asdict(settings), "records": self.records.to_dict()})
        if settings.release == "once" and state.resume:
            raise errors.PrivotError(
                "release 'once' has its slices in memory and cannot be resumed: start a new run, which "
                "spends another budget"
            )
        mechanism = SlicingMechanism(values, labels, self.records, ledger)
        network = LabeledNetwork(
            self.records, settings.latent_dim, settings.hidden, settings.seed, settings.architecture
        )
        pooled = PooledMean(ledger.plan)
        step_loss = SliceObjective(mechanism, pooled, network, settings)
        learned = LearnedModules(network=network, pooled=pooled)

        def objective(rng: torch.Generator) -> tuple[Tensor, float]:
            loss = step_loss(rng)
            learned.spent.fill_(ledger.spent)
            return loss, 0.0  # there is no marginal error

        with threads_for(0):
            history = train(
                learned,
                objective,
                settings.training,
                checkpoint=NO_CHECKPOINT if settings.release == "once" else state,
                progress=progress,
                seek=lambda _: learned.check(ledger),  # called before the first step
            )
        # The last entry is a duration, which depends on raw records.
        history.rows = [(*row[:-1], 0.0) for row in history.rows]
        return network.eval(), history


class LearnedModules(nn.Module):
    """State of a checkpoint: the modules that learn, and the number of releases that were counted.

    A checkpoint is resumed only with its own ledger, which has counted at least as many releases.

    Arguments:
        learned: Modules of the checkpoint, by name.
    """

    spent: Tensor  # number of releases that were counted

    def __init__(self, **learned: nn.Module) -> None:
        super().__init__()
        self.learned = nn.ModuleDict(learned)
        self.register_buffer("spent", torch.zeros((), dtype=torch.int64))

    def check(self, ledger: Ledger[SlicePlan]) -> None:
        """Refuse a ledger that has counted fewer releases than the checkpoint."""
        if int(self.spent) > ledger.spent:
            raise errors.PrivotError(
                f"ledger {ledger.path} is behind its checkpoint, which was learned from "
                f"{int(self.spent):,} releases: {ledger.spent:,} are counted; restore the newest ledger"
            )


class SliceObjective:
    """Training loss of a network, computed from a new release at each step or from a single release."""

    def __init__(
        self,
        mechanism: SlicingMechanism,
        pooled: "PooledMean",
        network: "LabeledNetwork",
        settings: SliceSettings,
    ) -> None:
        self.mechanism, self.plan, self.settings = mechanism, mechanism.ledger.plan, settings
        self.pooled, self.network = pooled, network
        self.map = mechanism.map
        num_labels = self.map.num_labels
        half = max(1, settings.generated // (2 * num_labels))  # half the rows of a label
        self.labels = torch.arange(num_labels).repeat_interleave(2 * half)
        self._released: Slices | None = None  # the release of `"once"`

    def __call__(self, rng: torch.Generator) -> Tensor:
        """Return the loss of a step."""
        slices = self._next_slices(rng)
        values = self.network.draw(self.labels, rng)
        features = self.map.features(self.map.prepare(values))
        # Rows were drawn label by label: (labels, rows of a label, width).
        features = features.reshape(self.map.num_labels, -1, self.map.width)
        loss = 0.0 * features.sum()  # the gradient is 0 if no other part is added
        if slices is not None:
            blocks = slices.directions.reshape(self.map.num_labels, self.map.width, -1)
            projected = with_blanks((features @ blocks).flatten(0, 1), self.plan)
            loss = self._slice_loss(slices.values, projected, rng)
        if self.settings.loss == "mean_first":
            loss = loss + self._mean_loss(features)
        return loss

    def _mean_loss(self, features: Tensor) -> Tensor:
        """Return the unbiased estimate of ‖μ̂ − m_G‖² from features (labels, rows, width)."""
        halves = features.unflatten(1, (2, -1)).mean(dim=2) / self.map.num_labels
        target = self.pooled.estimate.reshape(self.map.num_labels, 1, self.map.width)
        residual = halves - target
        return (residual[:, 0] * residual[:, 1]).sum()

    def _slice_loss(self, released: Tensor, projected: Tensor, rng: torch.Generator) -> Tensor:
        """Return the loss of released slices (n, k) and generated ones (m, k) without noise."""
        dim, stddev, q = self.plan.accounting.dim, self.plan.stddev, self.settings.q
        if self.settings.loss == "mean_first":
            return dim * spread_loss(released, projected, stddev, rng)
        if self.settings.loss == "sliced":
            return dim * smoothed_sliced_loss(released, projected, stddev, q, rng)
        # The cost is the negative log-likelihood of the noise, whose matching entropic weight is 1.
        return entropic_cost(torch.cdist(projected, released).square() / (2 * stddev**2))[0]

    def _next_slices(self, rng: torch.Generator) -> Slices | None:
        """Return the slices for a step; None once the budget is spent."""
        if self.settings.release == "once":
            if self._released is None:
                self._released = self.mechanism.release()
                self.pooled.add(self._released)
            directions, values = self._released.directions, self._released.values
            count = min(_ROWS_OF_STEP, len(self.labels))
            return Slices(directions, values[torch.randint(len(values), (count,), generator=rng)])
        try:
            slices = self.mechanism.release()
        except BudgetExhausted:
            return None
        if self.settings.loss == "mean_first":
            self.pooled.add(slices)
        return slices


def smoothed_sliced_loss(
    private: Tensor, generated: Tensor, stddev: float, q: int, rng: torch.Generator
) -> Tensor:
    """Return the mean over k slices of W_q^q between `private` (n, k) and `generated` (m, k) plus noise.

    Arguments:
        private: Released slices; constants.
        generated: Projections of generated records, along the same directions.
        stddev: Standard deviation σ of the noise in released slices.
        q: Exponent, 1 or 2; others are refused.
        rng: Generator of the noise that is added to generated projections.

    Examples:
        >>> x = torch.tensor([[0.0], [1.0]])
        >>> smoothed_sliced_loss(x + 2, x, 0.0, 2, torch.Generator())
        tensor(4.)
    """
    if q not in (1, 2):
        raise errors.PrivotError(f"q is {q}: give 1 or 2")
    noise = torch.randn(generated.shape, generator=rng, dtype=generated.dtype)
    noisy = generated + stddev * noise
    if len(private) != len(generated):
        return transport_cost_1d(noisy, private.detach(), q).mean()
    # Sorting contiguous rows is several times faster than sorting columns.
    target = np.sort(private.detach().numpy().T, axis=1)
    columns = noisy.T.contiguous()
    order = torch.from_numpy(np.argsort(columns.detach().numpy(), axis=1))
    gaps = columns.gather(1, order) - torch.from_numpy(target)
    return gaps.square().mean() if q == 2 else gaps.abs().mean()


def spread_loss(private: Tensor, generated: Tensor, stddev: float, rng: torch.Generator) -> Tensor:
    """Return `smoothed_sliced_loss` for q = 2 of slices whose means are subtracted."""
    centered = private - private.mean(dim=0)
    return smoothed_sliced_loss(centered, generated - generated.mean(dim=0), stddev, 2, rng)


def with_blanks(projected: Tensor, plan: SlicePlan) -> Tensor:
    """Append zero rows to projections (n, k), as many in proportion as a plan's batch has blank rows."""
    blanks = round(len(projected) * (plan.rows / plan.accounting.batch_size - 1))
    return torch.cat([projected, projected.new_zeros(blanks, projected.shape[1])])


class PooledMean(nn.Module):
    r"""Unbiased running estimate of the mean record μ (d,), whose state is part of checkpoints.

    A release of n rows along k directions U has column means s = Uᵀμ + noise, with noise N(0, σ²/n).
    Back-projection (d/k)·U s is unbiased for μ, but the random directions contribute ‖μ‖²·d/k to its
    variance. Back-projection of residuals avoids this. With μ̂_0 = 0, A = (d/k) U Uᵀ and so E A = I,

    $$ \hat μ_t = \hat μ_{t-1} + γ_t \tfrac{d}{k} U_t (s_t - U_t^\top \hat μ_{t-1}),
    \qquad γ_t = \frac{1}{t + d/k}. $$

    U_t is independent of the past, so the error's mean shrinks by exactly 1 − γ_t a step, and with
    β = Π(1 − γ) the estimate μ̂_t/(1 − β) is unbiased for every t.

    **Exact error.** E A² = a·I with a = (d + k − 1)/k for independent unit columns, d/k for a frame. The
    errors e by the noise (variance ν of a column mean), by the batch's mean record (trace τ of its
    covariance) and by the start (‖μ‖²) all obey E‖(I − γA)e‖² = (1 − 2γ + γ²a) ‖e‖², so

    $$ E‖\hat μ/(1 − β) − μ‖^2 = \frac{V·(d^2 ν / k + a τ) + (D − β^2) ‖μ‖^2}{(1 − β)^2},
    \quad V_t = (1 − 2γ + γ^2 a) V_{t-1} + γ^2, \quad D_t = (1 − 2γ + γ^2 a) D_{t-1}, $$

    with V_0 = 0 and D_0 = 1; the error is spread evenly over the coordinates. Here ν = σ²·rows/b² for
    batches of b records (blank rows of padded batches add noise). For n records and a fixed batch size
    τ = (1 − (b−1)/(n−1))·(R² − ‖μ‖²)/b; for Poisson batches τ = (1 − b/n)·R²/b, for all records 0. R²
    bounds the mean square of a record's norm, with equality for features of degree 2, whose norm is 1.
    ‖μ‖² is estimated by ‖μ̂‖² minus its error. For large t the start's part vanishes as 1/t², and a
    coordinate's mean square error tends to (dν/k + aτ/d)/t.
    """

    mean: Tensor  # μ̂ (d,)
    bias: Tensor  # β
    count: Tensor  # t
    gathered: Tensor  # V
    memory: Tensor  # D

    def __init__(self, plan: SlicePlan) -> None:
        super().__init__()
        accounting, count = plan.accounting, plan.accounting.num_projections
        self._dim, self._radius = accounting.dim, accounting.radius
        self.ratio = accounting.dim / count  # d/k
        self._square = self.ratio + (0.0 if accounting.orthonormal else (count - 1) / count)  # a
        # Blank rows are zeros: the mean over records is the mean over rows times this.
        self.padding = plan.rows / accounting.batch_size
        noise_variance = plan.stddev**2 * self.padding / accounting.batch_size  # ν
        self._noise = self.ratio * accounting.dim * noise_variance  # d² ν/k
        self._fixed_size = accounting.sampling == "without_replacement"
        rate = accounting.rate
        if self._fixed_size:
            rate = (accounting.batch_size - 1) / max(accounting.records - 1, 1)
        self._batch = self._square * (1 - rate) / accounting.batch_size  # a τ/R² at μ = 0
        self.register_buffer("mean", torch.zeros(accounting.dim))
        for name, start in (("bias", 1.0), ("count", 0.0), ("gathered", 0.0), ("memory", 1.0)):
            self.register_buffer(name, torch.tensor(start, dtype=torch.float64))

    @torch.no_grad()
    def add(self, slices: Slices) -> None:
        """Update the estimate by one release."""
        self.count += 1
        gain = 1.0 / (float(self.count) + self.ratio)
        means = slices.values.mean(dim=0) * self.padding
        residual = means - slices.directions.T @ self.mean
        self.mean += gain * self.ratio * (slices.directions @ residual)
        self.bias *= 1.0 - gain
        factor = 1.0 - 2.0 * gain + gain**2 * self._square
        self.gathered.mul_(factor).add_(gain**2)
        self.memory *= factor

    @property
    def estimate(self) -> Tensor:
        """Unbiased mean record (d,); zeros before the first release."""
        return self.mean / max(float(1.0 - self.bias), 1e-12)

    @property
    def stddev(self) -> float:
        """Standard deviation of a coordinate's error, a function of releases; ∞ before the first."""
        if not self.count:
            return math.inf
        bias, gathered, memory = float(self.bias), float(self.gathered), float(self.memory)
        scale = (1.0 - bias) ** 2
        noise = gathered * self._noise / scale
        batch = gathered * self._batch / scale
        start = max(memory - bias**2, 0.0) / scale
        max_square = self._radius**2
        # The error is linear in ‖μ‖²: constant + slope · ‖μ‖², and E‖μ̂‖² = ‖μ‖² + error.
        constant = noise + batch * max_square
        slope = start - batch if self._fixed_size else start
        square = float(self.estimate.double().square().sum())
        true_square = (square - constant) / (1.0 + slope)
        error = constant + slope * min(max(true_square, 0.0), max_square)
        return math.sqrt(error / self._dim)


class LabeledNetwork(nn.Module, LabeledLaw):
    """Multilayer perceptron, or DCGAN, from (latent, one-hot label) to raw values of records.

    Privacy: the network is trained on released slices and generated records alone, and the statistics of
    batch normalization are those of generated records. A fitted network computes every record from one
    latent and label. `SliceSettings` describes the other arguments.
    """

    kind: ClassVar[str] = "network"

    def __init__(
        self,
        records: FeatureRecords,
        latent_dim: int,
        hidden: tuple[int, ...],
        seed: int = 0,
        architecture: Architecture = "mlp",
    ) -> None:
        super().__init__()
        self.records, self.latent_dim = records, latent_dim
        inputs = latent_dim + (records.num_labels if records.num_labels > 1 else 0)
        self.network = make_network(architecture, inputs, records.output_shape, hidden, seed)
        # All labels are assumed to be equally frequent, without regard to records.
        self.shares = torch.full((records.num_labels,), 1.0 / records.num_labels)

    def forward(self, latent: Tensor, labels: Tensor) -> Tensor:
        """Return raw values of latents (n, latent_dim) and labels (n,)."""
        count = self.records.num_labels
        if count > 1:
            latent = torch.cat([latent, nn.functional.one_hot(labels, count).to(latent)], dim=1)
        return self.records.activate(self.network(latent))

    def draw(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """Generate raw values for labels (n,) from fresh latents."""
        # The network draws as many numbers as it has inputs; the label's are replaced.
        latent = self.network.draw_latent(len(labels), rng)[:, : self.latent_dim]
        values: Tensor = self(latent, labels)
        return values

    @torch.no_grad()
    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        return self.draw(labels, rng)

    def fields(self) -> dict[str, Any]:
        hidden, architecture = list(self.network.hidden), self.network.architecture
        return {"latent_dim": self.latent_dim, "hidden": hidden, "architecture": architecture}

    def tensors(self) -> dict[str, Tensor]:
        return self.state_dict()

    @classmethod
    def build(
        cls, records: FeatureRecords, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        hidden, architecture = tuple(fields["hidden"]), fields["architecture"]
        network = cls(records, fields["latent_dim"], hidden, architecture=architecture)
        network.load_state_dict(tensors_of(arrays))
        return network.eval()
