"""Queries about coarser codes identify atoms, by the likelihood that they have."""

import numpy as np
import pytest

from privot.local.classes.counts import Queries, Query, count_tables
from privot.local.classes.expectation import (
    ascend,
    code_probabilities,
    expectation,
    piece_counts,
    random_start,
)
from privot.local.classes.marginals import stacked_marginals
from simulated_reports import draw_classes, draw_people, joint_group

SIZES = (12, 3)
# The first column in two alphabets, neither of which tells all its atoms apart; the second as it is.
CODES = [np.arange(12) // 3, np.minimum((np.arange(12) + 1) // 3, 4), np.arange(3)]
ASKED = [
    Query.of_codes(column, codes, codes[-1] + 1)
    for column, codes in zip((0, 0, 1), CODES, strict=True)
]


def reports(count, seed):
    rng = np.random.default_rng(seed)
    truth = draw_classes(rng, SIZES, 3)
    people = draw_people(rng, *truth, count)
    coded = np.stack(
        [codes[people[:, each.column]] for codes, each in zip(CODES, ASKED, strict=True)], axis=1
    )
    sizes = [len(each.law) for each in ASKED]
    half = count // 2
    groups = [
        joint_group(rng, coded[:half], (0, 2), sizes, 3.0),
        joint_group(rng, coded[half:], (1, 2), sizes, 3.0),
    ]
    return truth, people, groups


def test_likelihoods_and_counts_are_those_of_the_atoms_product():
    """Each likelihood spread over the product of atoms gives the same expectation."""
    _, _, groups = reports(400, 0)
    rng = np.random.default_rng(1)
    weights, tables = draw_classes(rng, SIZES, 4)
    p = np.concatenate(tables)
    coarse = count_tables(groups, SIZES, ASKED, merge=False)
    spread = []
    for group in groups:
        (factor,) = group.factors
        codes = [CODES[query] for query in factor.queries]
        cells = np.ravel_multi_index(np.meshgrid(*codes, indexing="ij"), factor.shape).ravel()
        likelihood = factor.likelihood.toarray()[:, cells]
        fine = type(factor)((0, 1), SIZES, likelihood, factor.ratio)
        spread.append(type(group)((fine,), group.answers, group.counts))
    one, other = (
        expectation(coarse, p, weights),
        expectation(count_tables(spread, SIZES, merge=False), p, weights),
    )
    np.testing.assert_allclose(one.log_likelihood, other.log_likelihood)
    np.testing.assert_allclose(one.cells, other.cells)
    np.testing.assert_allclose(one.classes, other.classes)


def test_every_pass_raises_the_likelihood():
    _, _, groups = reports(3000, 2)
    tables = count_tables(groups, SIZES, ASKED)
    prior = stacked_marginals(tables, tolerance=1e-5)
    p, weights = random_start(prior, tables, 4, 0, 0)
    reached = []
    for _ in range(30):
        p, weights = ascend(tables, prior, p, weights, 1e-9, 1)
        reached.append(expectation(tables, p, weights).total(tables.counts) + np.log(weights).sum())
    assert (np.diff(reached) > -1e-9 * abs(reached[-1])).all()
    assert reached[-1] > reached[0] + 1


def test_two_alphabets_tell_what_neither_does():
    """Atoms 1 and 2 have one code in the first, 2 and 3 in the second: so all is learned."""
    (weights, tables), _, groups = reports(60_000, 3)
    found = stacked_marginals(count_tables(groups, SIZES, ASKED), tolerance=1e-5)[:12, 0]
    truth = tables[0] @ weights
    for each in ASKED[:2]:
        estimate, real = each.law @ found, each.law @ truth
        assert np.abs(estimate - real).sum() / 2 < 0.03
    alone = stacked_marginals(count_tables(groups[:1], SIZES, ASKED), tolerance=1e-5)[:12, 0]
    np.testing.assert_allclose(alone[:3] / alone[0], 1)  # nothing is said within a code
    error, guess = (np.abs(p - truth).sum() / 2 for p in (found, alone))
    assert error < 0.8 * guess


def test_codes_that_no_atom_has_are_nobody():
    queries = Queries.of([2], [Query.of_codes(0, np.array([0, 2]), 4)])
    p = np.array([[0.25], [0.75]])
    q = code_probabilities(queries, p)
    assert q.ravel().tolist() == [0.25, 0.0, 0.75, 0.0]
    counts = np.array([[2.0], [0.0], [3.0], [0.0]])
    assert piece_counts(queries, counts, q, p).ravel() == pytest.approx([2.0, 3.0])
