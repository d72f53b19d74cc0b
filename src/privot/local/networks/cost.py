r"""Transport cost whose minimizer is the clean distribution: the negative log-likelihood of reports.

Let a record X ~ P_X be reported as Y ~ M(·|X) with density f(y|x). For a generator G consider the
entropic transport problem whose cost is the mechanism's **negative log-likelihood** and whose entropic
weight is 1,

$$ \mathrm{OT}(P_G, P_Y) = \min_π\; E_π[−\log f(Y|G)] + I_π(G; Y) . $$

**Theorem (recovery).** Let M#P be the distribution of reports of records with distribution P. If P_X can
be generated and M is identifiable (M#P = M#Q only if P = Q, as for additive noise whose characteristic
function does not vanish, and for randomized response), then every minimizer generates the distribution
P_X of the *clean* records, not the noisy P_Y.

*Proof.* For any coupling π of P_G and P_Y, expanding the mutual information gives

$$ E_π[−\log f(Y|G)] + I_π(G;Y) = h(Y) + \mathrm{KL}(π ‖ P_G · f(y|g)) ≥ h(Y) , $$

with equality iff Y|G has density f under π, which implies M#P_G = P_Y = M#P_X and so P_G = P_X. The
bound is attained by P_G = P_X with π the joint distribution of (X, Y). ∎

The identity holds for every channel. If a generator outputs *probabilities* p(v|z) of a column's codes,
the latent z takes the place of G, and the cost is −log Σ_v p(v|z) f(y|v). A **joint report** of columns
c₁ … c_k is a set S of cells, which are combinations of codes. Its probability given a cell in S is r
times that given any other cell, so it has the cost

$$ −\log \Big( 1 + (r−1) \sum_{v ∈ S} \prod_i p_{c_i}(v_i | z) \Big) . $$

Columns that are not in joint reports (**split columns**) are randomized independently, so their costs
add up; a column that was not reported adds 0.

Terms of −log f that do not depend on x shift the loss by a constant and are left out: for Laplace noise
of scale b the cost is ‖x − y‖₁/b, for Gaussian noise ‖x − y‖₂²/(2σ²). These are densities of continuous
noise; the mechanisms draw from a grid of 2^−19 of the noise or finer, whose exact probabilities differ
by relative errors of that size.

**A channel** computes the cost, and simulates the reports, of one column on tensors, by the mechanism's
form (`privot.mechanisms.forms`). For a nullable vector a row of outputs is a point v, then the logit of
the probability $p_m$ that the record is missing. A report is a noisy point y and a flag. If the record
is missing, the noise was added to a public stand-in $x_0$, so the density is a mixture of two cases
(`privot.mechanisms.additive_noise.NullableNoise`), with the cost

$$ −\log \big[ p_m f(\text{flag} | \text{missing}) f(y | x_0)
   + (1−p_m) f(\text{flag} | \text{present}) f(y | v) \big] . $$

The output for an image is its pixels p. If noise was added to cosine coefficients T p, the cost is
computed from T p.

Privacy: everything is computed from a release, hence post-processing. Simulated reports are drawn from a
seeded generator and give no privacy.

References:
    Reshetova, Chen, Özgür, *Training generative models from privatized data via entropic optimal
    transport* (2024), theorem 1. Rigollet, Weed, *Entropic optimal transport is maximum-likelihood
    deconvolution* (2018).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from privot.core.errors import PrivotError
from privot.local.networks.heads import CosineMap, Outputs
from privot.mechanisms import Mechanism
from privot.mechanisms.forms import FlaggedForm, Form, NoiseForm, SupportForm, TableForm
from privot.randomizer import Randomizer, Release
from privot.randomizer.reports.joint import JointReport
from privot.schema import ImageDomain, Schema
from privot.transport import manhattan, squared_euclidean

_MAX_TABLE = 2**23  # most cells of a table of joint probabilities
_MIN_PROBABILITY = 1e-30  # floor of probabilities whose logarithm is taken


class Channel(ABC):
    """Likelihood and simulation of one column's reports."""

    @abstractmethod
    def read(self, release: Release, name: str) -> tuple[Tensor, Tensor]:
        """Read the column's reports (n, …), and the mask (n,) of people who reported the column."""

    @abstractmethod
    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        """Compute −log f (n, m) of m reports given n outputs, up to a constant of each report."""

    @abstractmethod
    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """Simulate one report for each of n outputs, in the format of `read`."""


class PointChannel(Channel):
    """Channel whose reports are noisy unit coordinates."""

    def read(self, release: Release, name: str) -> tuple[Tensor, Tensor]:
        values, reported = release.reports(name)
        return torch.as_tensor(values, dtype=torch.float32), torch.as_tensor(reported)


class _LaplaceChannel(PointChannel):
    """Channel of Laplace noise, with cost ‖x − y‖₁/b."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        return manhattan(output / self.scale, reports / self.scale)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        uniform = torch.rand(output.shape, generator=rng).to(output.device) - 0.5
        # The largest float32 below ½, since ½ would give infinite noise.
        magnitude = -torch.log1p(-2 * uniform.abs().clamp_max(0.5 - 2.0**-25))
        return output + self.scale * uniform.sign() * magnitude


class _GaussianChannel(PointChannel):
    """Channel of Gaussian noise, with cost ‖x − y‖₂²/(2σ²)."""

    def __init__(self, stddev: float) -> None:
        self.stddev = stddev
        # The factor ½ of the cost is part of the scale, which saves an operation on the matrix.
        self.scale = math.sqrt(2) * stddev

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        return squared_euclidean(output / self.scale, reports / self.scale)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        return output + self.stddev * torch.randn(output.shape, generator=rng).to(output.device)


# Functions from a scale to a channel of additive noise, by the distance in its log density.
NOISE_CHANNELS: dict[str, Callable[[float], PointChannel]] = {
    "manhattan": _LaplaceChannel,
    "squared_euclidean": _GaussianChannel,
}


class _NullableChannel(PointChannel):
    """Channel of a nullable vector; rows of outputs end with a logit, rows of reports with a flag."""

    def __init__(self, value: PointChannel, form: FlaggedForm) -> None:
        self.value = value
        self.stand_in = torch.tensor(form.stand_in)[None]
        right, self.wrong = form.probabilities
        # Log-probabilities of the flags 0 and 1 (columns) if the record is missing or present (rows).
        log_right, log_wrong = math.log(right), math.log(self.wrong)
        self.log_flags = torch.tensor([[log_wrong, log_right], [log_right, log_wrong]])

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        # The costs of both cases omit the same constant of a report, so they can be mixed.
        flags, logit = reports[:, -1].long(), output[:, -1:]
        if_missing, if_present = self.log_flags.to(output.device)[:, flags]
        missing = if_missing - self.value.cost(self.stand_in.to(output.device), reports[:, :-1])
        present = if_present - self.value.cost(output[:, :-1], reports[:, :-1])
        return -torch.logaddexp(logsigmoid(logit) + missing, logsigmoid(-logit) + present)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        uniforms = torch.rand(2, len(output), generator=rng).to(output.device)
        missing = uniforms[0] < torch.sigmoid(output[:, -1])
        points = torch.where(missing[:, None], self.stand_in.to(output.device), output[:, :-1])
        flag = missing ^ (uniforms[1] < self.wrong)
        return torch.cat([self.value.simulate(points, rng), flag[:, None].to(output.dtype)], dim=1)


class _CosineChannel(PointChannel):
    """Channel of cosine coefficients, whose outputs are pixels."""

    def __init__(self, value: PointChannel, domain: ImageDomain) -> None:
        self.value = value
        self.map = CosineMap(domain)

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        return self.value.cost(self.map(output), reports)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        return self.value.simulate(self.map(output), rng)


class _SupportChannel(Channel):
    """Channel of sets of codes: reports (n, w) padded with −1, outputs log-probabilities (n, K)."""

    def __init__(self, form: SupportForm) -> None:
        self.form = form

    def read(self, release: Release, name: str) -> tuple[Tensor, Tensor]:
        support, reported = release.reports(name)
        return torch.as_tensor(support, dtype=torch.int64), torch.as_tensor(reported)

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        size = output.shape[1]
        member = output.new_zeros(len(reports), size + 1)
        member.scatter_(1, reports % (size + 1), 1.0)  # the padding −1 is in the last column
        supported = output.exp() @ member[:, :-1].T
        return -torch.log1p((self.form.ratio - 1) * supported)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        truth = _draw(output, rng)
        num_values = torch.full_like(truth, output.shape[1])
        support = simulate_sets(truth, num_values, self.form.size, self.form.probabilities[0], rng)
        return support.to(output.device)


class _TableChannel(Channel):
    """Channel with finitely many reports: rows (n,) of a table; outputs log-probabilities (n, K)."""

    def __init__(self, form: TableForm) -> None:
        self.form = form
        likelihood = torch.as_tensor(form.likelihood)
        # Likelihoods (reports, codes) up to a factor, and distribution functions (codes, reports).
        self.weights = (likelihood / likelihood.amin(dim=1, keepdim=True)).float()
        self.cumulative = likelihood.cumsum(dim=0).T.contiguous()

    def read(self, release: Release, name: str) -> tuple[Tensor, Tensor]:
        values, reported = release.reports(name)
        rows = np.where(reported, self.form.rows(values), 0)
        return torch.as_tensor(rows), torch.as_tensor(reported)

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        return -torch.log(output.exp() @ self.weights.to(output.device)[reports].T)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        truth = _draw(output, rng)
        uniforms = torch.rand(len(truth), generator=rng, dtype=torch.float64)
        rows = torch.empty_like(truth)
        for code, cumulative in enumerate(self.cumulative):
            rows[truth == code] = torch.searchsorted(cumulative, uniforms[truth == code])
        return rows.clamp_max(len(self.weights) - 1).to(output.device)


def simulate_sets(
    truth: Tensor, num_values: Tensor, size: int | Tensor, hit: float | Tensor, rng: torch.Generator
) -> Tensor:
    """Draw uniform sets of codes that contain the true code with a given probability.

    Arguments:
        truth: True codes (n,).
        num_values: Size of each record's alphabet (n,).
        size: Size of the sets, one for all or one for each record (n,).
        hit: Probability that a set contains the true code, one for all or one for each record (n,).
        rng: Seeded generator.

    Returns:
        Codes (n, largest size), padded with −1.
    """
    size = torch.as_tensor(size).expand(len(truth))
    scores = torch.rand(len(truth), int(num_values.max()), generator=rng)
    # The codes with the smallest scores are drawn: the true code is the first, or after all others.
    codes = torch.arange(scores.shape[1])
    scores[codes >= num_values[:, None]] = 3.0
    inside = torch.rand(len(truth), generator=rng) < hit
    scores.scatter_(1, truth[:, None], torch.where(inside, -1.0, 2.0)[:, None])
    largest_size = int(size.max())
    drawn = scores.topk(largest_size, dim=1, largest=False).indices
    return torch.where(torch.arange(largest_size) < size[:, None], drawn, -1)


def _draw(log_probabilities: Tensor, rng: torch.Generator) -> Tensor:
    """Draw one code (n,) for each row of log-probabilities (n, K)."""
    probabilities = log_probabilities.exp().cpu()
    return torch.multinomial(probabilities, 1, replacement=True, generator=rng)[:, 0]


def _noise_channel(form: NoiseForm) -> PointChannel:
    return NOISE_CHANNELS[form.distance](form.scale)


# Functions from a form to its channel, by the type of the form.
_CHANNELS: Mapping[type[Form], Callable[[Any], Channel]] = {
    NoiseForm: _noise_channel,
    FlaggedForm: lambda form: _NullableChannel(_noise_channel(form.noise), form),
    SupportForm: _SupportChannel,
    TableForm: _TableChannel,
}


def channel_of(mechanism: Mechanism, schema: Schema, name: str) -> Channel:
    """Return the channel of the mechanism that reports a split column; refuse windows."""
    form = mechanism.form(schema.columns[name])
    if form.alone:
        raise PrivotError(
            f"column {name!r} was reported through windows, which have no slope that a generator could "
            "follow: report it with mechanism 'laplace'"
        )
    channel = _CHANNELS[type(form)](form)
    image = schema.images.get(name)
    if image is not None and image.domain.low_pass is not None:
        assert isinstance(channel, PointChannel)
        return _CosineChannel(channel, image.domain)
    return channel


class _JointChannel:
    """Channel of joint reports: answers to the questions of a sheet, each a column in one alphabet.

    A *place* is a position in the concatenated alphabets of all questions, with `total` codes. Two
    places are added for padding: place `total`, of probability 0, for reports with fewer cells than
    others; place `total + 1`, of probability 1, for sheets with fewer questions than others.
    """

    def __init__(self, randomizer: Randomizer, joint: JointReport) -> None:
        design = joint.design
        self.atoms = {  # codes (codings, a) of each column's atoms
            name: torch.as_tensor(randomizer.schema.coded[name].atoms[1]) for name in design.columns
        }
        sizes = np.array([size for codings in design.codings.values() for size in codings])
        starts = np.cumsum(sizes) - sizes
        self.total = int(sizes.sum())
        self.num_questions = design.lengths[1]  # k, the most questions on a sheet
        questions = np.full((design.num_sheets, self.num_questions), len(sizes))  # padding
        sizes, starts = np.append(sizes, 1), np.append(starts, self.total + 1)
        for sheet in range(design.num_sheets):
            numbers = design.numbers(sheet)
            questions[sheet, : len(numbers)] = numbers
        # By sheet (sheets, k): the questions, the sizes of their alphabets, and their first places.
        self.questions = torch.as_tensor(questions)
        self.sizes = torch.as_tensor(sizes[questions])
        self.starts = torch.as_tensor(starts[questions])
        # By sheet (sheets,): number of cells; r; probability of the true cell; cells in a report.
        self.num_cells = torch.as_tensor(design.num_cells)
        mechanisms = [joint.mechanism(cells) for cells in design.num_cells.tolist()]
        self.ratio = torch.tensor([mechanism.likelihood_ratio for mechanism in mechanisms])
        self.hit = torch.tensor([mechanism.probabilities[0] for mechanism in mechanisms])
        self.subset_size = torch.tensor([mechanism.subset_size for mechanism in mechanisms])
        self.widest = int(self.subset_size.max())

    def read(self, release: Release) -> tuple[Tensor, Tensor]:
        """Read the sheets (m,), and the places of the cells (m, widest, k), of all reports."""
        answers = release.joint_answers
        widths = np.diff(answers.offsets)
        cells = np.full((len(widths), int(widths.max())), -1, np.int64)
        cells[np.arange(cells.shape[1]) < widths[:, None]] = answers.cells
        sheets = torch.tensor(answers.sheets, dtype=torch.int64)
        return sheets, self._places(sheets, torch.as_tensor(cells))

    def _places(self, sheets: Tensor, cells: Tensor) -> Tensor:
        """Convert numbers of cells (m, w), padded with −1, to the places of codes (m, widest, k)."""
        cells = torch.nn.functional.pad(cells, (0, self.widest - cells.shape[1]), value=-1)
        sizes, starts = self.sizes[sheets], self.starts[sheets]
        places, rest = [], cells
        for question in reversed(range(self.num_questions)):
            size = sizes[:, question, None]
            places.append(rest % size + starts[:, question, None])
            rest = rest // size
        return torch.where(cells[..., None] < 0, self.total, torch.stack(places[::-1], dim=2))

    @property
    def tabulates(self) -> bool:
        """True if the joint table of all answers to the questions of a sheet fits into memory."""
        return self.total**self.num_questions <= _MAX_TABLE

    def _log_probabilities(self, outputs: Outputs) -> Tensor:
        """Compute the log-probabilities (n, total + 2) of all places."""
        parts = [_code_logs(outputs[name], codes) for name, codes in self.atoms.items()]
        log = torch.nn.functional.pad(torch.cat(parts, dim=1), (0, 1), value=-torch.inf)
        return torch.nn.functional.pad(log, (0, 1), value=0.0)

    def cost(self, outputs: Outputs, sheets: Tensor, cells: Tensor) -> Tensor:
        """Compute −log f (n, m) of m reports given n outputs, up to a constant of each report."""
        supported = self._log_probabilities(outputs)[:, cells].sum(dim=3).exp().sum(dim=2)
        return -torch.log1p((self.ratio.to(supported.device)[sheets] - 1) * supported)

    def mixture_cost(self, outputs: Outputs, sheets: Tensor, cells: Tensor) -> Tensor:
        """Compute −log f(report | equal mixture of the outputs), (m,), up to a constant of the report.

        The mixture of n products has the joint table $\\frac1n \\sum_i p_i ⊗ … ⊗ p_i$ over k questions,
        which is computed once for all reports.
        """
        p = self._log_probabilities(outputs).exp()
        products = p
        for _ in range(self.num_questions - 2):
            products = (products[:, :, None] * p[:, None, :]).reshape(len(p), -1)
        table = products.mean(dim=0) if self.num_questions == 1 else products.T @ p / len(p)
        index = cells[..., 0]
        for question in range(1, self.num_questions):
            index = index * p.shape[1] + cells[..., question]
        supported = table.reshape(-1)[index].sum(dim=1)
        return -torch.log1p((self.ratio.to(p.device)[sheets] - 1) * supported)

    def simulate(self, outputs: Outputs, sheets: Tensor, rng: torch.Generator) -> Tensor:
        """Simulate one report for each of m outputs; return the places of its cells (m, widest, k)."""
        drawn = [codes[:, _draw(outputs[name], rng)].T for name, codes in self.atoms.items()]
        sheet, answers = sheets.cpu(), torch.nn.functional.pad(torch.cat(drawn, dim=1), (0, 1))
        codes = answers.gather(1, self.questions[sheet])
        truth = codes[:, 0]
        for question in range(1, self.num_questions):
            truth = truth * self.sizes[sheet, question] + codes[:, question]
        size, hit = self.subset_size[sheet], self.hit[sheet]
        cells = simulate_sets(truth, self.num_cells[sheet], size, hit, rng)
        return self._places(sheet, cells).to(sheets.device)


def _code_logs(log: Tensor, codes: Tensor) -> Tensor:
    """Convert log-probabilities (n, a) of atoms, whose `codes` are (codings, a), to those of codes."""
    if len(codes) == 1:
        return log
    p = log.exp()
    sums = []
    for coding in codes.to(log.device):
        zeros = torch.zeros(len(log), int(coding.max()) + 1, device=log.device, dtype=log.dtype)
        sums.append(zeros.index_add(1, coding, p))
    return torch.cat(sums, dim=1).clamp_min(_MIN_PROBABILITY).log()


@dataclass(frozen=True)
class ReportBatch:
    """Batch of m reports as tensors."""

    values: Mapping[str, Tensor]  # reports of each split column as its channel reads them, m rows
    reported: Mapping[str, Tensor | None]  # mask (m,) of who reported each column; None for all
    # Joint reports: sheets (m,), and places of the cells (m, widest, k), see `_JointChannel`.
    joint: tuple[Tensor, Tensor] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.values.values())) if self.joint is None else self.joint[0])

    def rows(self, index: Tensor) -> ReportBatch:
        """Return the reports at these indices."""
        return ReportBatch(
            {name: values[index] for name, values in self.values.items()},
            {name: None if mask is None else mask[index] for name, mask in self.reported.items()},
            None if self.joint is None else (self.joint[0][index], self.joint[1][index]),
        )

    @classmethod
    def joined(cls, parts: Sequence[ReportBatch]) -> ReportBatch:
        """Concatenate batches of reports of one randomizer."""

        def concatenate(tensors: Iterable[Tensor | None]) -> Tensor | None:
            present = [tensor for tensor in tensors if tensor is not None]
            return torch.cat(present) if present else None

        first, joint = parts[0], None
        if first.joint is not None:
            sheets, cells = zip(*(part.joint for part in parts if part.joint), strict=True)
            joint = torch.cat(sheets), torch.cat(cells)
        return cls(
            {name: torch.cat([part.values[name] for part in parts]) for name in first.values},
            {name: concatenate(part.reported[name] for part in parts) for name in first.reported},
            joint,
        )


class LikelihoodCost:
    """Costs −log f(y_j | output_i) between a head's outputs and a batch of reports.

    Arguments:
        randomizer: Randomizer of the reports.
        columns: Names of the split columns whose costs are included; by default all.

    Examples:
        >>> from privot import Schema
        >>> schema = Schema.from_dict({"columns": {"age": {"kind": "numeric", "bounds": [0, 100]}}})
        >>> randomizer = Randomizer.calibrate(schema, 1.0, mechanism="laplace")
        >>> list(LikelihoodCost(randomizer).channels)
        ['age']
    """

    def __init__(self, randomizer: Randomizer, columns: Collection[str] | None = None) -> None:
        self.channels = {
            name: channel_of(mechanism, randomizer.schema, name)
            for name, mechanism in randomizer.mechanisms.items()
            if columns is None or name in columns
        }
        self.joint = _JointChannel(randomizer, randomizer.joint) if randomizer.joint else None

    def read(self, release: Release, device: torch.device) -> ReportBatch:
        """Read all reports of a release, as tensors on a device."""
        values: dict[str, Tensor] = {}
        reported: dict[str, Tensor | None] = {}
        for name, channel in self.channels.items():
            reports, mask = channel.read(release, name)
            values[name] = reports.to(device)
            reported[name] = None if bool(mask.all()) else mask.to(device, torch.float32)
        if self.joint is None:
            return ReportBatch(values, reported)
        sheets, cells = self.joint.read(release)
        return ReportBatch(values, reported, (sheets.to(device), cells.to(device)))

    def __call__(self, outputs: Outputs, reports: ReportBatch) -> Tensor:
        """Compute costs (n, m) of n outputs and m reports, up to a constant of each report."""
        parts: list[Tensor] = []
        if self.joint is not None and reports.joint is not None:
            parts.append(self.joint.cost(outputs, *reports.joint))
        for name, channel in self.channels.items():
            cost = channel.cost(outputs[name], reports.values[name])
            mask = reports.reported[name]
            parts.append(cost if mask is None else cost * mask)
        return sum(parts[1:], start=parts[0])

    def mixture(self, outputs: Outputs, reports: ReportBatch) -> Tensor:
        """Compute −log f(y_j | equal mixture of the outputs), (m,), up to a constant of each report."""
        joint = self.joint
        if joint and reports.joint and joint.tabulates and not self.channels:
            return joint.mixture_cost(outputs, *reports.joint)
        costs = self(outputs, reports)
        return math.log(len(costs)) - torch.logsumexp(-costs, dim=0)

    @torch.no_grad()
    def simulate(self, outputs: Outputs, like: ReportBatch, rng: torch.Generator) -> ReportBatch:
        """Simulate one report per row of outputs, with the columns or sheet of that row of `like`."""
        values = {
            name: channel.simulate(outputs[name], rng) for name, channel in self.channels.items()
        }
        if self.joint is None or like.joint is None:
            return ReportBatch(values, like.reported)
        sheets, _ = like.joint
        return ReportBatch(
            values, like.reported, (sheets, self.joint.simulate(outputs, sheets, rng))
        )
