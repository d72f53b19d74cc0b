r"""Gradient-boosted trees as plain arrays.

scikit-learn grows the trees; what is kept of them are arrays, and a loop over them: a saved model
runs no code. `Trees` reproduces the classifier's log odds $f(u) = f_0 + \sum_j \text{leaf}_j(u)$ and
refuses to be made where it does not. Where a bound $β$ is set, $f$ is clipped to $[−β, β]$.

Needs scikit-learn (extra `evaluate`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.integral.secure import Array
from privot.transport.compiled import compiled

try:
    from sklearn.ensemble import HistGradientBoostingClassifier
except ModuleNotFoundError:  # an optional extra; asking for trees says so
    HistGradientBoostingClassifier = None


@dataclass(frozen=True)
class Trees:
    """Nodes of all trees in one list; a leaf is its own child.

    Arguments:
        feature: Feature that a node looks at.
        threshold: It goes left if the feature is at most this.
        children: (nodes, 2), left and right.
        value: What a leaf adds.
        roots: First node of every tree.
        start: f_0.
        bound: Limit of the output, or None.
    """

    feature: NDArray[np.int64]
    threshold: Array
    children: NDArray[np.int64]
    value: Array
    roots: NDArray[np.int64]
    start: float
    bound: float | None = None

    def __call__(self, features: Array) -> Array:
        """Outputs (n,) for features (n, k)."""
        total = self.start + _sum_leaves(
            np.ascontiguousarray(features, np.float64),
            self.feature,
            self.threshold,
            self.children,
            self.value,
            self.roots,
        )
        return total if self.bound is None else np.clip(total, -self.bound, self.bound)

    def spec(self) -> dict[str, Any]:
        """What the arrays do not say."""
        return {"kind": "trees", "bound": self.bound}

    def arrays(self, prefix: str) -> dict[str, Array]:
        """Named arrays to be written."""
        return {
            f"{prefix}feature": self.feature,
            f"{prefix}threshold": self.threshold,
            f"{prefix}children": self.children,
            f"{prefix}value": self.value,
            f"{prefix}roots": self.roots,
            f"{prefix}start": np.array([self.start]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], prefix: str, bound: float | None) -> Self:
        """The trees whose arrays were written under this prefix."""
        return cls(
            arrays[f"{prefix}feature"].astype(np.int64),
            arrays[f"{prefix}threshold"],
            arrays[f"{prefix}children"].astype(np.int64),
            arrays[f"{prefix}value"],
            arrays[f"{prefix}roots"].astype(np.int64),
            float(arrays[f"{prefix}start"][0]),
            bound,
        )


@compiled
def _sum_leaves(
    features: Array,
    feature: NDArray[np.int64],
    threshold: Array,
    children: NDArray[np.int64],
    value: Array,
    roots: NDArray[np.int64],
) -> Array:
    """What the leaves of all trees add, (n,)."""
    total = np.zeros(len(features))
    for i in range(len(features)):
        for root in roots:
            node, below = root, children[root, 0]
            while below != node:
                right = features[i, feature[node]] > threshold[node]
                node = children[node, 1] if right else below
                below = children[node, 0]
            total[i] += value[node]
    return total


def grow_trees(
    features: Array, labels: Array, seed: int, bound: float | None, most_trees: int = 100
) -> Trees:
    """Trees that tell labels 1 from 0, stopped early on a tenth held out.

    Raises:
        PrivotError: without scikit-learn.
    """
    if HistGradientBoostingClassifier is None:
        raise PrivotError(
            "growing trees needs scikit-learn: pip install 'privot[evaluate]', or choose 'mlp'"
        )
    classifier = HistGradientBoostingClassifier(
        max_iter=most_trees,
        learning_rate=0.1,
        max_leaf_nodes=15,
        min_samples_leaf=20,
        early_stopping=min(np.bincount(labels.astype(np.int64), minlength=2)) >= 50,
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
    nodes = [predictors[0].nodes for predictors in classifier._predictors]
    sizes = np.array([len(part) for part in nodes], np.int64)
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    every = np.concatenate(nodes)
    offset, own = np.repeat(roots, sizes), np.arange(len(every))
    leaf = every["is_leaf"].astype(bool)
    left = np.where(leaf, own, every["left"].astype(np.int64) + offset)
    right = np.where(leaf, own, every["right"].astype(np.int64) + offset)
    return Trees(
        feature=np.where(leaf, 0, every["feature_idx"]).astype(np.int64),
        threshold=np.where(leaf, 0.0, every["num_threshold"]),
        children=np.stack([left, right], axis=1),
        value=np.where(leaf, every["value"], 0.0),
        roots=roots,
        start=float(np.ravel(classifier._baseline_prediction)[0]),
        bound=bound,
    )
