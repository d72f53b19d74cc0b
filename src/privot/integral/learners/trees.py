r"""Gradient-boosted trees as plain arrays.

scikit-learn grows the trees; what is kept of them are arrays, and a loop over them: a saved model
runs no code. `Trees` reproduces the classifier's log odds $f(u) = f_0 + \sum_j \text{leaf}_j(u)$ and
refuses to be made where it does not. Where a bound $β$ is set, $f$ is clipped to $[−β, β]$.

**Constant work.** How many trees were grown before they stopped, how many nodes they have and how deep a
point falls are functions of raw records. None of it shows in what an evaluation costs: there are always
`MOST_TREES` trees of `_NODES` nodes, those that were not grown being leaves of value 0, and every point
takes `_DEPTH` steps down each of them. A leaf is its own child, so that further steps stay there.

Needs scikit-learn (extra `evaluate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privot.compiled import compiled
from privot.errors import PrivotError
from privot.integral.densities.density import Arrays
from privot.integral.densities.secure import Floats

MOST_TREES = 100
_LEAVES = 15
_NODES = 2 * _LEAVES - 1
_ARRAYS = ("feature", "threshold", "children", "value")
_DEPTH = 8  # deeper than balanced trees of as many leaves, which are 4

try:
    from sklearn.ensemble import HistGradientBoostingClassifier
except ModuleNotFoundError:  # an optional extra; asking for trees says so
    HistGradientBoostingClassifier = None


@dataclass(frozen=True, repr=False)
class Trees:
    """`MOST_TREES` trees of `_NODES` nodes each, in one list; a leaf is its own child.

    Arguments:
        feature: Feature that a node looks at.
        threshold: It goes left if the feature is at most this.
        children: (nodes, 2), left and right.
        value: What a leaf adds.
        start: f_0.
        bound: Limit of the output, or None.
    """

    kind: ClassVar[str] = "trees"
    feature: NDArray[np.int64]
    threshold: Floats
    children: NDArray[np.int64]
    value: Floats
    start: float
    bound: float | None = None

    def __call__(self, features: Floats) -> Floats:
        """Outputs (n,) for features (n, k)."""
        total = self.start + _sum_leaves(
            np.ascontiguousarray(features, np.float64),
            self.feature,
            self.threshold,
            self.children,
            self.value,
        )
        return total if self.bound is None else np.clip(total, -self.bound, self.bound)

    def spec(self) -> dict[str, Any]:
        """What the arrays do not say."""
        return {"bound": self.bound}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Named arrays to be written."""
        named = {name: getattr(self, name) for name in _ARRAYS}
        return named | {"start": np.array([self.start])}

    @classmethod
    def from_arrays(cls, arrays: Arrays, bound: float | None) -> Self:
        """The trees of the arrays and the `spec` that were written."""
        named: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
        return cls(**named, start=float(arrays["start"][0]), bound=bound)


@compiled
def _sum_leaves(
    features: Floats,
    feature: NDArray[np.int64],
    threshold: Floats,
    children: NDArray[np.int64],
    value: Floats,
) -> Floats:
    """What the leaves of all trees add, (n,): the same number of steps for any trees and points."""
    total = np.zeros(len(features))
    for i in range(len(features)):
        for root in range(0, len(value), _NODES):
            node = root
            for _ in range(_DEPTH):
                node = children[node, int(features[i, feature[node]] > threshold[node])]
            total[i] += value[node]
    return total


def grow_trees(positives: Floats, negatives: Floats, seed: int, bound: float | None) -> Trees:
    """Trees that tell `positives` (n, k) from `negatives`, stopped early on a tenth held out."""
    if HistGradientBoostingClassifier is None:
        raise PrivotError(
            "growing trees needs scikit-learn: pip install 'privot[evaluate]', or choose 'mlp'"
        )
    features = np.concatenate([positives, negatives])
    labels = np.repeat([1.0, 0.0], [len(positives), len(negatives)])
    classifier = HistGradientBoostingClassifier(
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
    grown = _as_arrays(classifier, bound)
    exact, ours = classifier.decision_function(features[:256]), grown(features[:256])
    if bound is not None:
        exact = np.clip(exact, -bound, bound)
    if not np.allclose(exact, ours, rtol=0, atol=1e-9):
        raise PrivotError(
            "this version of scikit-learn keeps its trees in a form that is not known: "
            "choose 'mlp', or another version"
        )
    return grown


def _as_arrays(classifier: HistGradientBoostingClassifier, bound: float | None) -> Trees:
    """The grown trees, each in its own block of nodes; what is not used is a leaf of value 0."""
    size = MOST_TREES * _NODES
    feature, threshold = np.zeros(size, np.int64), np.zeros(size)
    children, value = np.stack([np.arange(size)] * 2, axis=1), np.zeros(size)
    for j, (predictor,) in enumerate(classifier._predictors):
        nodes = predictor.nodes
        inner, root = ~nodes["is_leaf"].astype(bool), j * _NODES
        own = slice(root, root + len(nodes))
        feature[own] = np.where(inner, nodes["feature_idx"], 0)
        threshold[own] = np.where(inner, nodes["num_threshold"], 0.0)
        value[own] = np.where(inner, 0.0, nodes["value"])
        for side, name in enumerate(("left", "right")):
            children[own, side][inner] = nodes[name][inner].astype(np.int64) + root
    start = float(np.ravel(classifier._baseline_prediction)[0])
    return Trees(feature, threshold, children, value, start, bound)
