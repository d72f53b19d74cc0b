r"""Learned log density ratios: networks, trees, and a spline of one coordinate; and tilts by them.

**Tilts.** By default (`fit_log_ratio`), the log density ratio of one continuous coordinate is a
penalized spline, and any other the log odds of a network that distinguishes records from draws of the
reference; trees are for tables of mixed columns. A tilt is stored as plain values and named arrays. It
is secret, as is its folder; loading it executes no code.

**Networks** are trained to distinguish the data from draws of a density (`privot.integral.networks`).
Their log odds

$$ f(x) = W_L \tanh(… \tanh(W_1 u + b_1) …) + b_L , \qquad u = \text{features of } x , $$

are a log density ratio. If a bound $β$ is set, the output is $c(x) = β \tanh(f(x)/β) ∈ [−β, β]$, which
is bounded for all weights. Evaluation needs no PyTorch, and a saved network consists of arrays only.

**The penalized spline.** With cells of probability $m_i$ under the reference, and $n_i$ of $n$ records
in cell i, minimize over cubic splines $g$, with values $g_i$ at the middles of cells,

$$ −\frac1n \sum_i n_i g_i + \log \sum_i m_i e^{g_i} + \frac{λ}{2} \int (g‴)^2 , $$

the penalized likelihood of $p ∝ q_0 e^{g}$ (Silverman 1982). Quadratics have no penalty: with a normal
reference, $λ → ∞$ gives the normal distribution with the records' mean and variance. Knots are at
quantiles of the records and of the reference; beyond the records $g$ is linear. λ is chosen by
five-fold cross-validation, and is 1 for fewer than 50 records.

The stored tilt consists of the values of $g$ at the cells' public middles, with linear interpolation:
the number and places of knots depend on the records, and must not influence the cost of an evaluation.

**Trees** are grown by scikit-learn and stored as arrays, so that loading a model executes no code.
`Trees` reproduces the classifier's log odds $f(u) = f_0 + \sum_j \text{leaf}_j(u)$; `grow_trees` checks
this and raises otherwise. If a bound $β$ is set, $f$ is clipped to $[−β, β]$. Trees need scikit-learn
(extra `evaluate`).

The numbers of grown trees and nodes and the depth of a point are functions of raw records, and must not
influence the cost of an evaluation. So there are always `MOST_TREES` trees of `_NODES` nodes (unused
nodes are leaves of value 0), and every point takes `_DEPTH` steps in each tree. A leaf is its own child,
so that further steps stay there.

**Privacy review.** All learned functions depend on the data without restriction, and stay with the
curator: the guarantee covers only draws by the clipped tilt. Weights, batches and draws during a fit may
be seeded, since none of them leaves the curator.

References:
    Silverman, *On the estimation of a probability density function by the maximum penalized likelihood
    method* (1982); Eilers, Marx, *Flexible smoothing with B-splines and penalties* (1996).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from privot.core.compiled import compiled
from privot.core.errors import PrivotError, load_object, require_learning_rate
from privot.integral.density import Arrays, Axis, Packed, TabulatedTilt, Tilt
from privot.integral.references import Floats, Marginal, Reference

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier

Estimator = Literal["auto", "spline", "mlp", "trees"]
# Makes a number of draws from a density with a generator; returns their features (num, k).
Draw = Callable[[int, np.random.Generator], Floats]

_BLOCK = 2**15  # rows evaluated at once
# The spline: cells of the reference, approximate number of intervals between knots, limit of |g|.
_CELLS, _INTERVALS, _MAX_RATIO = 2048, 32, 60.0
_FOLDS, _MIN_RECORDS = 5, 50  # of cross-validation
_PENALTIES, _RIDGE = np.logspace(2, -8, 21), 1e-7
# Trees: a depth of 8 is twice the depth of balanced trees with 15 leaves.
MOST_TREES, _LEAVES, _DEPTH = 100, 15, 8
_NODES = 2 * _LEAVES - 1
_MIN_DRAWS = 1000  # smallest number of draws against which trees are grown
_ARRAYS = ("feature", "threshold", "children", "value")

BOUND = math.log(2)  # β, the largest |c| of a round's classifier
_MAX_LOG_RATIO = 1e4  # limit of |log ratio|, which makes every value finite


@dataclass(frozen=True, repr=False)
class Network:
    """Multilayer perceptron, by `weights` (outputs, inputs) and `biases` (outputs,) of each layer."""

    kind: ClassVar[str] = "mlp"
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    bound: float | None = None  # limit β > 0 of the output's absolute value

    def __call__(self, features: Floats) -> Floats:
        """Return the log odds (n,) of features (n, k)."""
        f = np.empty(len(features))
        for start in range(0, len(features), _BLOCK):
            block = slice(start, start + _BLOCK)
            u = features[block]
            for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
                u = np.tanh(u @ weight.T + bias)
            f[block] = (u @ self.weights[-1].T + self.biases[-1])[:, 0]
        return f if self.bound is None else self.bound * np.tanh(f / self.bound)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the parameters as named arrays."""
        named = {f"weight{i}": weight for i, weight in enumerate(self.weights)}
        return named | {f"bias{i}": bias for i, bias in enumerate(self.biases)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, bound: float | None) -> Self:
        """Build the network from the result of `arrays`."""
        layers = range(len(arrays) // 2)
        weights = tuple(arrays[f"weight{i}"] for i in layers)
        return cls(weights, tuple(arrays[f"bias{i}"] for i in layers), bound)


@dataclass(frozen=True)
class NetworkSettings:
    """Settings of a network with tanh activations, which are constant far from the data.

    Arguments:
        hidden: Widths of the hidden layers.
        steps: Number of optimizer steps.
        batch_size: Number of records, and of draws, in a step.
        learning_rate: Peak learning rate of Adam; it rises linearly at first, then decays like a cosine.
    """

    hidden: tuple[int, ...] = (64, 64, 64)
    steps: int = 1500
    batch_size: int = 1024
    learning_rate: float = 4e-3

    def __post_init__(self) -> None:
        if min((self.steps, self.batch_size, *self.hidden)) < 1:
            raise PrivotError(
                f"hidden {self.hidden}, steps {self.steps}, batch_size {self.batch_size}: "
                "give sizes of at least 1"
            )
        require_learning_rate(self.learning_rate)


def fit_network(
    positives: Floats, draw: Draw, settings: NetworkSettings, seed: int, bound: float | None = None
) -> Network:
    """Train a network on features `positives` (n, k): see `privot.integral.networks.train_network`."""
    train = load_object("privot.integral.networks:train_network", "estimator 'mlp'")
    network: Network = train(positives, draw, settings, seed, bound)
    return network


@dataclass(frozen=True, repr=False)
class SplineRatio(Tilt):
    """Tilt of one coordinate, by `values` (cells,) of log p/q₀ + constant at the middles of cells."""

    kind: ClassVar[str] = "spline"
    marginal: Marginal
    values: Floats

    def __call__(self, x: Floats, /) -> Floats:
        return np.interp(self.marginal.features(x[:, 0])[:, 0], self._middles, self.values)

    @cached_property
    def _middles(self) -> Floats:
        return _middles(Axis(self.marginal, self.marginal.edges(_CELLS)))

    def pack(self) -> Packed:
        return {}, {"values": self.values}  # the cells follow from the reference

    @classmethod
    def unpack(cls, fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Self:
        if reference.marginals is None:
            raise PrivotError("a spline needs a reference with a marginal: the model is damaged")
        return cls(reference.marginals[0], arrays["values"])


def fit_spline(records: Floats, marginal: Marginal, seed: int) -> SplineRatio:
    """Fit the penalized spline to records (n, 1), n ≥ 1, which may be equal; `seed` draws the folds."""
    axis = Axis(marginal, marginal.edges(_CELLS))
    masses = axis.masses.astype(np.float64) / 2.0**64
    z = _middles(axis)
    knots = _knots(marginal.features(records[:, 0])[:, 0], z, masses)
    splines = [BSpline(knots, unit, 3) for unit in np.eye(len(knots) - 4)]
    low, high = float(knots[3]), float(knots[-4])
    basis = np.stack([_extrapolate(spline, z, low, high) for spline in splines], axis=1)
    form = _roughness(splines, knots)
    folds = np.random.default_rng(seed).permutation(len(records)) % _FOLDS
    cells = axis.locate(records[:, 0])
    counts = np.zeros((_FOLDS, axis.size))
    np.add.at(counts, (folds, cells), 1.0)
    problem = _SplineProblem(basis, masses, form)
    penalty = problem.cross_validate(counts) if len(records) >= _MIN_RECORDS else 1.0
    shares = counts.sum(axis=0) / len(records)
    theta = problem.minimize(shares, penalty, np.zeros(len(splines)))
    return SplineRatio(marginal, np.clip(basis @ theta, -_MAX_RATIO, _MAX_RATIO))


def _middles(axis: Axis) -> Floats:
    """Return the features (cells,) of the cells' median points."""
    return axis.marginal.features(axis.middles)[:, 0]


def _knots(records: Floats, z: Floats, masses: Floats) -> Floats:
    """Return knots of a cubic B-spline, at quantiles of records and of the reference (masses at z)."""
    shares = np.linspace(0, 1, _INTERVALS // 2 + 1)[1:-1]
    low, high = float(records.min()), float(records.max())
    if high - low < 1e-3:  # nearly equal records
        low, high = low - 0.5, high + 0.5
    reference_quantiles = np.interp(shares, np.cumsum(masses), z)
    inner = np.concatenate([np.quantile(records, shares), reference_quantiles])
    inner = np.sort(inner[(inner > low) & (inner < high)])
    min_gap = (high - low) / (8 * _INTERVALS)
    knots = [low]
    for knot in inner:
        if knot - knots[-1] > min_gap and high - knot > min_gap:
            knots.append(float(knot))
    return np.concatenate([[low] * 3, knots, [high] * 4])


def _extrapolate(spline: BSpline, z: Floats, low: float, high: float) -> Floats:
    """Return the values at z of a spline on [low, high], which is continued linearly."""
    inside = np.clip(z, low, high)
    slope = spline.derivative(1)
    slopes = np.where(z < low, slope(low), np.where(z > high, slope(high), 0.0))
    return np.asarray(spline(inside) + slopes * (z - inside), np.float64)


def _roughness(splines: list[BSpline], knots: Floats) -> Floats:
    """Return R with ∫ (g‴)² = θᵀ R θ for g = Σ θ_i spline_i; g‴ is constant between knots."""
    spans = np.unique(knots)
    middles, lengths = (spans[:-1] + spans[1:]) / 2, np.diff(spans)
    third = np.stack([spline.derivative(3)(middles) for spline in splines], axis=1)
    return np.asarray(third.T @ (third * lengths[:, None]), np.float64)


@dataclass(frozen=True)
class _SplineProblem:
    """Penalized likelihood as a function of a spline's coefficients θ (size,)."""

    basis: Floats  # values of the basis splines at the cells' middles (cells, size); g = basis θ
    masses: Floats  # probabilities of the cells under the reference (cells,)
    roughness: Floats  # quadratic form of ∫ (g‴)² (size, size)

    def cross_validate(self, counts: Floats) -> float:
        """Return the penalty λ with the best held-out likelihood, by counts (folds, cells)."""
        losses = np.zeros(len(_PENALTIES))
        for held_out in counts:
            training = counts.sum(axis=0) - held_out
            theta = np.zeros(self.basis.shape[1])
            for i, penalty in enumerate(_PENALTIES):
                theta = self.minimize(training / training.sum(), penalty, theta)
                losses[i] += self._loss(theta, held_out)
        return float(_PENALTIES[np.argmin(losses)])

    def _loss(self, theta: Floats, counts: Floats) -> float:
        """Return the negative log-likelihood of counts of records, or of shares, by cell."""
        g = self.basis @ theta
        top = g.max()
        return float(counts.sum() * (np.log(self.masses @ np.exp(g - top)) + top) - counts @ g)

    def minimize(self, shares: Floats, penalty: float, theta: Floats) -> Floats:
        """Minimize the convex loss of shares of records (cells,) from θ, by damped Newton steps."""
        form = penalty * self.roughness + _RIDGE * np.eye(len(theta))

        def loss_at(at: Floats) -> float:
            return self._loss(at, shares) + 0.5 * float(at @ form @ at)

        loss = loss_at(theta)
        for _ in range(50):
            g = self.basis @ theta
            p = self.masses * np.exp(g - g.max())
            p /= p.sum()
            mean = self.basis.T @ p
            gradient = mean - self.basis.T @ shares + form @ theta
            hessian = (self.basis.T * p) @ self.basis - np.outer(mean, mean) + form
            try:
                step = cho_solve(cho_factor(hessian), gradient)
            except LinAlgError:
                break
            decrease, length = float(gradient @ step), 1.0
            if decrease < 1e-10:
                break
            new_loss = loss_at(theta - step)
            while new_loss > loss - 0.1 * length * decrease and length > 1e-6:
                length /= 2
                new_loss = loss_at(theta - length * step)
            if length <= 1e-6:
                break
            theta, loss = theta - length * step, new_loss
        return theta


@dataclass(frozen=True, repr=False)
class Trees:
    """Sum of `MOST_TREES` trees of `_NODES` nodes each, as arrays over all nodes.

    Arguments:
        feature: Index of the feature that each node compares (nodes,).
        threshold: Largest value of the feature for which a point goes left (nodes,).
        children: Indices of the left and right children (nodes, 2); a leaf is its own child.
        value: Value of each leaf (nodes,), 0 for inner nodes.
        start: Constant f_0.
        bound: Limit β of the output's absolute value, or None.
    """

    kind: ClassVar[str] = "trees"
    feature: NDArray[np.int64]
    threshold: Floats
    children: NDArray[np.int64]
    value: Floats
    start: float
    bound: float | None = None

    def __call__(self, features: Floats) -> Floats:
        """Return the log odds (n,) of features (n, k)."""
        nodes = (self.feature, self.threshold, self.children, self.value)
        total = self.start + _sum_leaves(np.ascontiguousarray(features, np.float64), *nodes)
        return total if self.bound is None else np.clip(total, -self.bound, self.bound)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the parameters as named arrays."""
        named = {name: getattr(self, name) for name in _ARRAYS}
        return named | {"start": np.array([self.start])}

    @classmethod
    def from_arrays(cls, arrays: Arrays, bound: float | None) -> Self:
        """Build the trees from the result of `arrays`."""
        nodes: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
        return cls(**nodes, start=float(arrays["start"][0]), bound=bound)


@compiled
def _sum_leaves(
    features: Floats,
    feature: NDArray[np.int64],
    threshold: Floats,
    children: NDArray[np.int64],
    value: Floats,
) -> Floats:
    """Return the sum (n,) of the leaves of all trees, in a constant number of steps."""
    total = np.zeros(len(features))
    for i in range(len(features)):
        for root in range(0, len(value), _NODES):
            node = root
            for _ in range(_DEPTH):
                node = children[node, int(features[i, feature[node]] > threshold[node])]
            total[i] += value[node]
    return total


def fit_trees(positives: Floats, draw: Draw, seed: int, bound: float | None = None) -> Trees:
    """Grow trees on features of records `positives` (n, k) against n draws, at least 1000."""
    # With more draws than records, log odds are shifted by a constant, which normalizing removes.
    drawn = draw(max(len(positives), _MIN_DRAWS), np.random.default_rng([seed, 1]))
    return grow_trees(positives, drawn, seed, bound)


def grow_trees(positives: Floats, negatives: Floats, seed: int, bound: float | None) -> Trees:
    """Grow trees that distinguish `positives` (n, k) from `negatives` (m, k).

    Growing stops early by the loss on a tenth of the rows, if both have at least 50.

    Raises:
        PrivotError: if scikit-learn is missing, or stores trees in an unknown form.
    """
    try:
        make = load_object("sklearn.ensemble:HistGradientBoostingClassifier", "growing trees")
    except ModuleNotFoundError:
        raise PrivotError(
            "growing trees needs scikit-learn: pip install 'privot[evaluate]', or choose 'mlp'"
        ) from None
    features = np.concatenate([positives, negatives])
    labels = np.repeat([1.0, 0.0], [len(positives), len(negatives)])
    classifier = make(
        max_iter=MOST_TREES,
        learning_rate=0.1,
        max_leaf_nodes=_LEAVES,
        max_depth=_DEPTH,
        min_samples_leaf=20,
        early_stopping=min(len(positives), len(negatives)) >= 50,
        validation_fraction=0.1,
        n_iter_no_change=10,
        random_state=seed,
    ).fit(features, labels)
    trees = _as_arrays(classifier, bound)
    expected = classifier.decision_function(features[:256])
    if bound is not None:
        expected = np.clip(expected, -bound, bound)
    if not np.allclose(expected, trees(features[:256]), rtol=0, atol=1e-9):
        raise PrivotError(
            "this version of scikit-learn stores its trees in an unknown form: choose 'mlp', or "
            "another version"
        )
    return trees


def _as_arrays(classifier: "HistGradientBoostingClassifier", bound: float | None) -> Trees:
    """Return the grown trees, each in its own block of nodes; unused nodes are leaves of value 0."""
    size = MOST_TREES * _NODES
    feature, threshold = np.zeros(size, np.int64), np.zeros(size)
    children, value = np.stack([np.arange(size)] * 2, axis=1), np.zeros(size)
    for j, (predictor,) in enumerate(classifier._predictors):
        nodes = predictor.nodes
        inner, root = ~nodes["is_leaf"].astype(bool), j * _NODES
        block = slice(root, root + len(nodes))
        feature[block] = np.where(inner, nodes["feature_idx"], 0)
        threshold[block] = np.where(inner, nodes["num_threshold"], 0.0)
        value[block] = np.where(inner, 0.0, nodes["value"])
        for side, name in enumerate(("left", "right")):
            children[block, side][inner] = nodes[name][inner].astype(np.int64) + root
    start = float(np.ravel(classifier._baseline_prediction)[0])
    return Trees(feature, threshold, children, value, start, bound)


@dataclass(frozen=True, repr=False)
class FeatureTilt(Tilt):
    """Tilt Σ_t θ_t f_t(features(x)): a sum of the log odds of classifiers.

    Arguments:
        reference: Reference that computes the features.
        members: Networks or trees f_t.
        coefficients: Coefficient θ_t of each member.
    """

    kind: ClassVar[str] = "classifiers"
    reference: Reference
    members: tuple[Network | Trees, ...]
    coefficients: tuple[float, ...]

    def __call__(self, x: Floats, /) -> Floats:
        features = self.reference.features(x)
        total = np.zeros(len(x))
        for coefficient, member in zip(self.coefficients, self.members, strict=True):
            total += coefficient * member(features)
        return total

    def pack(self) -> Packed:
        arrays: dict[str, NDArray[Any]] = {}
        for i, member in enumerate(self.members):
            arrays |= {f"{i}.{name}": values for name, values in member.arrays().items()}
        specs = [{"kind": member.kind, "bound": member.bound} for member in self.members]
        return {"members": specs, "coefficients": list(self.coefficients)}, arrays

    @classmethod
    def unpack(cls, fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Self:
        members = []
        for i, spec in enumerate(fields["members"]):
            prefix = f"{i}."
            names = [name for name in arrays if name.startswith(prefix)]
            member_arrays = {name.removeprefix(prefix): arrays[name] for name in names}
            members.append(_MEMBERS[spec["kind"]].from_arrays(member_arrays, spec["bound"]))
        return cls(reference, tuple(members), tuple(fields["coefficients"]))


@dataclass(frozen=True)
class ConstantTilt(Tilt):
    """Tilt of 0 everywhere, by which the density is the reference."""

    kind: ClassVar[str] = "constant"

    def __call__(self, x: Floats, /) -> Floats:
        return np.zeros(len(x))

    def pack(self) -> Packed:
        return {}, {}

    @classmethod
    def unpack(cls, fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Self:
        return cls()


@dataclass(frozen=True, repr=False)
class ShiftedTilt(Tilt):
    """Tilt `inner`, with NaN replaced by 0 and limited to ±10⁴, minus the constant `shift`."""

    kind: ClassVar[str] = "shifted"
    inner: Tilt
    shift: float

    def __call__(self, x: Floats, /) -> Floats:
        values = np.asarray(self.inner(x), np.float64)
        return np.clip(np.nan_to_num(values, nan=0.0), -_MAX_LOG_RATIO, _MAX_LOG_RATIO) - self.shift

    def pack(self) -> Packed:
        fields, arrays = pack(self.inner)
        return {"shift": self.shift, "inner": fields}, arrays

    @classmethod
    def unpack(cls, fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Self:
        return cls(unpack(fields["inner"], arrays, reference), fields["shift"])


_MEMBERS: dict[str, type[Network | Trees]] = {cls.kind: cls for cls in (Network, Trees)}
_KINDS: dict[str, type[Tilt]] = {
    cls.kind: cls for cls in (ConstantTilt, ShiftedTilt, FeatureTilt, TabulatedTilt, SplineRatio)
}


def pack(tilt: Tilt) -> Packed:
    """Return plain values, which include the kind of the tilt, and named arrays, for `unpack`."""
    fields, arrays = tilt.pack()
    return {"kind": tilt.kind, **fields}, arrays


def unpack(fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Tilt:
    """Build the tilt from the result of `pack` and the reference with which it was learned."""
    kind = fields.get("kind")
    if kind not in _KINDS:
        raise PrivotError(f"kind of tilt is {kind!r}: one of {', '.join(_KINDS)}; upgrade privot")
    return _KINDS[kind].unpack(fields, arrays, reference)


def fit_log_ratio(
    records: Floats, reference: Reference, estimator: Estimator, network: NetworkSettings, seed: int
) -> Tilt:
    """Learn the ratio log p/q₀, up to a constant, of records (n, dim) of density p (**not private**).

    `"auto"` chooses a spline, which requires one continuous coordinate, or else a network (`"mlp"`).
    """
    marginals = reference.marginals or ()
    is_line = len(marginals) == 1 and marginals[0].num_values is None
    if estimator == "spline" and not is_line:
        raise PrivotError(
            "estimator is 'spline', which needs one continuous coordinate with a marginal: "
            "choose 'mlp' or 'trees'"
        )
    if is_line and estimator in ("auto", "spline"):
        return fit_spline(records, marginals[0], seed)

    def draw(num: int, rng: np.random.Generator) -> Floats:
        return reference.features(reference.sample(num, rng))

    positives = reference.features(records)
    classifier: Network | Trees
    if estimator == "trees":
        classifier = fit_trees(positives, draw, seed)
    else:
        classifier = fit_network(positives, draw, network, seed)
    return FeatureTilt(reference, (classifier,), (1.0,))
