"""Classifiers and regressions that are linear in codes, learned from rows that a model draws.

Logistic regression of a column of categories, ridge regression of a number, as `prediction` and
`regression` train them; of several classes, each against the rest. Their score of a record is a sum
over its columns, so its moments are known of a model, and told by reports (`scores`). Of more than
twelve classes the most frequent twelve are told.

Needs scikit-learn. Privacy review: computed from a model's rows: post-processing of its reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from privot.evaluation.distances import Codes
from privot.evaluation.prediction import area_under_curve, one_hot, sklearn, with_known_target
from privot.evaluation.regression import with_known_number
from privot.evaluation.scores import Scores
from privot.local import LocalModel
from privot.local.classes.sampler import LatentClassSampler
from privot.schema import Array

_TRAINED = 20_000
_MOST_CLASSES = 12


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear classifier or regression of one column.

    Arguments:
        model: Whose rows taught it.
        target: The column that it tells.
        weights: Of the other columns' codes, one after the other (codes, G).
        classes: Which codes of the target (G,) have these scores; empty of a number.
        center: What a number's score is above or below.
        unit: In which it is.
    """

    model: LocalModel
    target: str
    weights: Array
    classes: Codes
    center: float = 0.0
    unit: float = 1.0

    @classmethod
    def of(cls, model: LocalModel, target: str, seed: int) -> Self:
        """From rows that a model draws."""
        schema, rows = model.schema, model.sample(_TRAINED, seed=seed)
        linear = sklearn("linear_model")
        if schema.coded[target].is_number:
            codes, numbers = with_known_number(schema, target, rows)
            ridge = linear.Ridge(alpha=1.0).fit(one_hot(schema, codes), numbers)
            unit = float(numbers.std()) or 1.0
            weights = ridge.coef_[:, None] / unit
            return cls(model, target, weights, np.arange(0), float(ridge.intercept_), unit)
        codes, answers = with_known_target(schema, target, rows)
        classes, counts = np.unique(answers, return_counts=True)
        inputs = one_hot(schema, codes)
        if len(classes) == 1:
            return cls(model, target, np.zeros((inputs.shape[1], 1)), classes)
        told = np.sort(np.argsort(-counts, kind="stable")[:_MOST_CLASSES])
        told = classes[told[1:] if len(classes) == 2 else told]
        logistic = linear.LogisticRegression(max_iter=300)
        weights = [logistic.fit(inputs, answers == code).coef_[0] for code in told]
        return cls(model, target, np.stack(weights, axis=1), told)

    @property
    def is_number(self) -> bool:
        """Whether it is a regression."""
        return not self.classes.size

    def scores(self) -> Scores:
        """Of atoms of columns, with what is told of the target's."""
        schema, sampler = self.model.schema, self.model.sampler
        assert isinstance(sampler, LatentClassSampler)
        found, start = [], 0
        for name, place in zip(schema.coded, sampler.places, strict=True):
            size = schema.coded[name].alphabet.size
            if name != self.target:
                found.append(self.weights[start : start + size][place.codes])
                start += size
                continue
            missing = schema.coded[name].alphabet.missing
            known = np.ones(len(place.codes)) if missing is None else 1.0 * (place.codes != missing)
            if place.cells is None or not self.is_number:
                told = 1.0 * (place.codes[:, None] == self.classes)
            else:
                middle = (place.cells.low + place.cells.high) / 2
                told = (np.nan_to_num(middle)[:, None] - self.center) / self.unit
            found.append(told * known[:, None])
        return Scores(list(schema.coded).index(self.target), tuple(found), known)

    def points(self, codes: dict[str, Codes]) -> Array:
        """Scores (n, G) of the other columns' codes."""
        out: Array = one_hot(self.model.schema, codes) @ self.weights
        return out

    def on(self, table: pa.Table) -> tuple[Array, Array]:
        """On records: areas under the curve (G,), or R² (1,), and the classes' shares."""
        schema = self.model.schema
        if self.is_number:
            codes, numbers = with_known_number(schema, self.target, table)
            numbers = (numbers - self.center) / self.unit
            rest = ((numbers - self.points(codes)[:, 0]) ** 2).mean()
            return np.array([1 - rest / max(float(numbers.var()), 1e-12)]), np.ones(1)
        codes, answers = with_known_target(schema, self.target, table)
        areas = [
            area_under_curve(1 * (answers == code), np.stack([-own, own], axis=1))
            for code, own in zip(self.classes, self.points(codes).T, strict=True)
        ]
        return np.array(areas), np.array([(answers == code).mean() for code in self.classes])

    def moments(self, table: pa.Table) -> Array:
        """Of scores and classes among records (7, G), as `scores` orders them."""
        coded = self.model.schema.coded
        codes = {name: column.encode_codes(name, table) for name, column in coded.items()}
        missing, own = coded[self.target].alphabet.missing, codes.pop(self.target)
        points = self.points(codes)
        is_class = 1.0 * (own[:, None] == self.classes)
        known = np.ones((len(own), 1)) if missing is None else 1.0 * (own != missing)[:, None]
        known = np.broadcast_to(known, points.shape)
        each = points * is_class, points * known, points**2, points, is_class, is_class, known
        return np.array([one.mean(axis=0) for one in each])

    def square_where_known(self, table: pa.Table) -> Array:
        """Which part (G,) of the scores' squares is of records whose target is there."""
        coded = self.model.schema.coded
        codes = {name: column.encode_codes(name, table) for name, column in coded.items()}
        missing, own = coded[self.target].alphabet.missing, codes.pop(self.target)
        square, there = self.points(codes) ** 2, own >= 0 if missing is None else own != missing
        part: Array = square[there].sum(axis=0) / np.maximum(square.sum(axis=0), 1e-12)
        return part


def score(areas: Array, shares: Array) -> float:
    """All classes, each by its share."""
    return float(areas @ shares / max(shares.sum(), 1e-12))
