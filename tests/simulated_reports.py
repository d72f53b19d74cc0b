"""Simulated people and their reports, with ordinary randomness: for tests of estimators only."""

import itertools
import math

import numpy as np
from scipy import sparse

from privot.local.classes.counts import Factor, ReportGroup


def draw_classes(rng, sizes, num_classes, spread=1.5):
    """A random population: weights and, a column, probabilities (K, C)."""
    weights = rng.dirichlet(np.full(num_classes, 5.0))
    tables = []
    for size in sizes:
        table = np.exp(spread * rng.standard_normal((size, num_classes)))
        tables.append(table / table.sum(axis=0))
    return weights, tuple(tables)


def draw_people(rng, weights, tables, count):
    classes = rng.choice(len(weights), size=count, p=weights)
    people = np.empty((count, len(tables)), np.int64)
    for column, table in enumerate(tables):
        people[:, column] = (table.cumsum(axis=0).T[classes] < rng.random(count)[:, None]).sum(1)
    return people


def subset_reports(rng, cells, num_cells, epsilon, size=None):
    """Sorted sets of the cells that subset selection reports, (n, w)."""
    size = size or max(1, round(num_cells / (1 + math.exp(epsilon))))
    odds = size * math.exp(epsilon)
    inside = rng.random(len(cells)) < odds / (odds + num_cells - size)
    keys = rng.random((len(cells), num_cells))
    keys[np.arange(len(cells)), cells] = np.where(inside, -1.0, 2.0)
    return np.sort(np.argsort(keys, axis=1)[:, :size], axis=1)


def joint_group(rng, people, columns, sizes, epsilon):
    """The reports of `people` about their cell in the product of `columns`."""
    shape = tuple(sizes[c] for c in columns)
    cells = np.ravel_multi_index(tuple(people[:, c] for c in columns), shape)
    sets = subset_reports(rng, cells, math.prod(shape), epsilon)
    rows, counts = np.unique(sets, axis=0, return_counts=True)
    starts = np.arange(len(rows) + 1) * rows.shape[1]
    matrix = sparse.csr_array(
        (np.ones(rows.size), rows.ravel(), starts), shape=(len(rows), math.prod(shape))
    )
    factor = Factor(tuple(columns), shape, matrix, math.exp(epsilon))
    answers = np.arange(len(rows), dtype=np.int32)[:, None]
    return ReportGroup((factor,), answers, counts.astype(float))


def joint_reports(rng, people, sizes, epsilon, report_columns=2):
    """Every person reports one of the combinations, drawn at random."""
    combinations = list(itertools.combinations(range(len(sizes)), report_columns))
    drawn = rng.integers(len(combinations), size=len(people))
    return [
        joint_group(rng, people[drawn == i], columns, sizes, epsilon)
        for i, columns in enumerate(combinations)
    ]


def response_factors(sizes, epsilon):
    """Randomized response of single columns: row y of the likelihood is the identity's."""
    return [
        Factor((column,), (size,), np.eye(size), math.exp(epsilon))
        for column, size in enumerate(sizes)
    ]


def randomized_response(rng, codes, size, epsilon):
    kept = rng.random(len(codes)) < (math.exp(epsilon) - 1) / (math.exp(epsilon) + size - 1)
    return np.where(kept, codes, rng.integers(size, size=len(codes)))


def split_reports(rng, people, sizes, epsilon, report_columns=2):
    """Every person reports each of some columns apart, with ε a column."""
    factors = response_factors(sizes, epsilon)
    combinations = list(itertools.combinations(range(len(sizes)), report_columns))
    drawn, groups = rng.integers(len(combinations), size=len(people)), []
    for i, columns in enumerate(combinations):
        told = [randomized_response(rng, people[drawn == i, c], sizes[c], epsilon) for c in columns]
        answers, counts = np.unique(np.stack(told, 1), axis=0, return_counts=True)
        used = tuple(factors[c] for c in columns)
        groups.append(ReportGroup(used, answers.astype(np.int32), counts.astype(float)))
    return groups


def total_variation(a, b):
    return np.abs(np.asarray(a) - np.asarray(b)).sum() / 2
