import numpy as np
import pytest
from scipy import sparse

from privot.core.errors import PrivotError
from privot.local.classes.counts import Factor, ReportGroup, count_tables
from privot.local.classes.expectation import expectation
from simulated_reports import draw_classes, draw_people, joint_reports, split_reports

SIZES = (3, 4, 2)


def brute_force(group, p, weights):
    """ln L of every report and the expected counts, by enumeration of classes and revelations."""
    tables = np.split(p, np.cumsum(SIZES)[:-1])
    logs = []
    cells, classes = np.zeros_like(p), np.zeros_like(weights)
    for answer, count in zip(group.answers, group.counts):
        terms = []
        for factor, row in zip(group.factors, answer):
            law = np.ones((1, len(weights)))
            for column in factor.queries:
                law = (law[:, None] * tables[column][None]).reshape(-1, len(weights))
            row_of_a = np.asarray(sparse.csr_array(factor.likelihood)[[row]].todense())[0]
            terms.append((factor, (factor.ratio - 1) * row_of_a[:, None] * law))
        by_class = weights * np.prod([1 + t.sum(0) for _, t in terms], axis=0)
        logs.append(np.log(by_class.sum()))
        classes += count * (by_class - weights) / by_class.sum()
        for factor, revealed in terms:
            others = by_class / (1 + revealed.sum(0))
            posterior = (count * revealed * others / by_class.sum()).reshape(*factor.shape, -1)
            for axis, column in enumerate(factor.queries):
                summed = posterior.sum(tuple(i for i in range(len(factor.shape)) if i != axis))
                start = sum(SIZES[:column])
                cells[start : start + SIZES[column]] += summed
    return np.array(logs), cells, classes


def mixed_groups(rng):
    """A joint report with fractions of three columns, split ones, and one of both kinds."""
    full = Factor((0, 1, 2), SIZES, rng.random((5, 24)), 7.0)
    first = Factor((0,), (3,), sparse.csr_array(np.eye(3)), 5.0)
    pair = Factor((1, 2), (4, 2), rng.integers(0, 2, (6, 8)), 3.0)
    counts = np.array([2.0, 1.0, 4.0])
    return [
        ReportGroup((full,), np.array([[0], [4], [2]], np.int32), counts),
        ReportGroup((first,), np.array([[0], [2], [1]], np.int32), counts),
        ReportGroup((first, pair), np.array([[0, 5], [2, 1], [2, 0]], np.int32), counts),
    ]


def test_expectation_agrees_with_enumeration():
    rng = np.random.default_rng(0)
    weights, tables = draw_classes(rng, SIZES, 4)
    p = np.concatenate(tables)
    groups = mixed_groups(rng)
    found = expectation(count_tables(groups, SIZES, merge=False), p, weights)
    expected = [brute_force(group, p, weights) for group in groups]
    np.testing.assert_allclose(found.log_likelihood, np.concatenate([e[0] for e in expected]))
    np.testing.assert_allclose(found.cells, sum(e[1] for e in expected), atol=1e-12)
    np.testing.assert_allclose(found.classes, sum(e[2] for e in expected), atol=1e-12)


def test_a_joint_report_of_independent_answers_is_the_split_report():
    """(1 + t)(1 + t′) over two columns, written as one factor over their product."""
    rng = np.random.default_rng(1)
    weights, tables = draw_classes(rng, SIZES, 3)
    p = np.concatenate(tables)
    first = Factor((0,), (3,), np.eye(3), 4.0)
    second = Factor((1,), (4,), np.eye(4), 6.0)
    ratios = np.einsum("ya,zb->yzab", 1 + 3 * np.eye(3), 1 + 5 * np.eye(4)).reshape(12, 12)
    joint = Factor((0, 1), (3, 4), (ratios - 1) / 23, 24.0)
    rows = np.stack(np.unravel_index(np.arange(12), (3, 4)), axis=1).astype(np.int32)
    apart = ReportGroup((first, second), rows, np.arange(12.0))
    together = ReportGroup((joint,), np.arange(12, dtype=np.int32)[:, None], np.arange(12.0))
    logs = [
        expectation(count_tables([group], SIZES), p, weights).log_likelihood
        for group in (apart, together)
    ]
    np.testing.assert_allclose(logs[0], logs[1])


@pytest.mark.parametrize("make", [joint_reports, split_reports])
def test_equal_reports_are_merged(make):
    rng = np.random.default_rng(2)
    people = draw_people(rng, *draw_classes(rng, SIZES, 2), 500)
    groups = make(rng, people, SIZES, 2.0)
    one_by_one = [
        ReportGroup(
            g.factors,
            np.repeat(g.answers, g.counts.astype(int), axis=0)[::-1],
            np.ones(int(g.counts.sum())),
        )
        for g in reversed(groups)
    ]
    merged, apart = count_tables(groups, SIZES), count_tables(one_by_one, SIZES)
    assert merged.counts.sum() == apart.counts.sum() == 500
    assert merged.counts.size == apart.counts.size
    assert sorted(merged.counts) == sorted(apart.counts)


def test_held_out_people_are_a_partition():
    rng = np.random.default_rng(3)
    people = draw_people(rng, *draw_classes(rng, SIZES, 2), 3000)
    tables = count_tables(joint_reports(rng, people, SIZES, 2.0), SIZES)
    parts = tables.held_out(10, 10, np.random.default_rng(0))
    np.testing.assert_array_equal(sum(part.counts for part in parts), tables.counts)
    assert all(200 < part.counts.sum() < 400 for part in parts)


def test_many_factors_do_not_overflow():
    factors = tuple(Factor((c,), (2,), np.eye(2), 1e40) for c in range(12))
    group = ReportGroup(factors, np.zeros((1, 12), np.int32), np.ones(1))
    p, weights = np.full((24, 2), 0.5), np.array([0.5, 0.5])
    found = expectation(count_tables([group], (2,) * 12), p, weights)
    np.testing.assert_allclose(found.log_likelihood, 12 * np.log1p(0.5e40))
    np.testing.assert_allclose(found.classes, [0.5, 0.5])


def test_sizes_are_those_of_the_factors():
    group = ReportGroup(
        (Factor((0,), (2,), np.eye(2), 2.0),), np.zeros((1, 1), np.int32), np.ones(1)
    )
    with pytest.raises(PrivotError, match="sizes has no columns"):
        count_tables([group], (3,))


@pytest.mark.parametrize("make", [joint_reports, split_reports])
def test_reports_that_nobody_sent_may_be_left_out(make):
    rng = np.random.default_rng(4)
    weights, tables = draw_classes(rng, SIZES, 2)
    people = draw_people(rng, weights, tables, 800)
    counted = count_tables(make(rng, people, SIZES, 2.0), SIZES)
    (part,) = counted.held_out(1, 10, np.random.default_rng(0))
    few, p = part.nonzero(), np.concatenate(tables)
    assert few.counts.size < part.counts.size
    assert few.counts.sum() == part.counts.sum()
    whole, found = expectation(part, p, weights), expectation(few, p, weights)
    np.testing.assert_allclose(found.cells, whole.cells)
    np.testing.assert_allclose(found.log_likelihood, whole.log_likelihood[part.counts > 0])
