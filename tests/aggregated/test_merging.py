"""Noisy sums of several batches: they add up exactly, their noise as it states, and keep the promise."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

import privot
from aggregated.people import COLUMNS, PLACE, encoder, schema, servers, table, whole
from privot.aggregated import Encoder, SumRelease, count, open_sums
from privot.aggregated.server import sealed, unsealed
from privot.core.errors import PrivotError
from privot.mechanisms.gaussian import sample_rounded_gaussian
from privot.privacy import ApproximateDP, DistributedDP
from privot.privacy.ledger import RepeatedRecords
from privot.schema import Schema

FEW = {name: {"kind": "boolean"} for name in ("old", "sick")}


def of_curators(people=200, epsilon=4.0, columns=COLUMNS):
    promise = {"epsilon": epsilon, "where": "central", "delta": 1e-6, "people": people}
    return Schema.from_dict({"columns": columns, "promise": promise})


def homes(number, seed):
    return dict(zip("xy", np.random.default_rng(seed).random((2, number)), strict=True))


def some(number, share):
    """People of whom a share is sick, and all of these old."""
    sick = np.arange(number) < share * number
    return {"old": sick, "sick": sick}


def batch(name, rule, data, number):
    """What two servers would open of a batch."""
    noise = sum(sample_rounded_gaussian(rule.length, rule.stddev) for _ in range(2))
    return SumRelease(rule, {name: number}, whole(rule, data) + noise)


def inside(z):
    """Whether Σz² is within 4.9 deviations of that of Gaussians: all but one in 10⁶ are."""
    low, high = chi2.isf([1 - 5e-7, 5e-7], z.size)
    return low < (z**2).sum() < high


def test_noise_of_curators_is_what_is_stated_and_is_independent():
    """Noise that is a tenth off is 9 deviations beyond the limits, in 10 209 numbers."""
    people = [table(300, seed) for seed in range(3)]
    parts = [count(each, of_curators()) for each in people]
    exact = np.array([whole(encoder(), each) for each in people])  # by the same query
    z = (np.array([each.sums for each in parts]) - exact) / encoder().stddev
    assert [inside(z / factor) for factor in (0.9, 1.0, 1.1)] == [False, True, False]
    merged = parts[0].merge(*parts[1:])
    assert inside((merged.sums - exact.sum(axis=0)) / merged.stddev)
    assert merged.stddev == pytest.approx(np.sqrt(3) * encoder().stddev)
    assert merged.guarantee == ApproximateDP(merged.guarantee.epsilon, 1e-6, "replace_one")
    assert 3.999 < merged.guarantee.epsilon <= 4.0


def test_files_merge_in_any_order_to_the_same_file(tmp_path):
    parts = [count(some(200 + n, 0.5), of_curators(columns=FEW)) for n in range(3)]
    for number, part in enumerate(parts):
        part.save(tmp_path / str(number))
    a, b, c = (SumRelease.load(tmp_path / str(number)) for number in range(3))
    a.merge(b, c).save(tmp_path / "abc")
    c.merge(b.merge(a)).save(tmp_path / "cba")
    assert (tmp_path / "abc").read_bytes() == (tmp_path / "cba").read_bytes()
    merged = SumRelease.load(tmp_path / "abc")
    assert len(merged) == 603
    np.testing.assert_array_equal(merged.sums, sum(part.sums for part in parts))


def test_a_model_of_several_curators_knows_all_their_people(tmp_path):
    """A share of .5 from .2 of 3 000 and .8 of 3 000; noise moves it by about .001, a draw by .008."""
    rule = of_curators(3000, columns=FEW)
    merged = count(some(3000, 0.2), rule).merge(count(some(3000, 0.8), rule))
    model = privot.fit(merged, seed=1)
    drawn = model.sample(4000, seed=0)
    assert np.mean(drawn["sick"].to_pylist()) == pytest.approx(0.5, abs=0.05)
    assert np.mean(np.array(drawn["sick"]) == np.array(drawn["old"])) > 0.95
    model.save(tmp_path / "model")
    again = privot.load(tmp_path / "model")
    assert again.sample(9, seed=2).equals(model.sample(9, seed=2))
    assert again.guarantee == merged.guarantee
    with pytest.raises(PrivotError, match="no setting but seed"):
        privot.fit(merged, estimator="generator")


def test_places_of_curators_merge():
    merge_and_learn([homes(300, n) for n in range(2)], 4.0, PLACE)


def merge_and_learn(people, epsilon, columns):
    """Sums of two curators have their noise, and are learned from in one round."""
    rule = Encoder.calibrate(schema(300, epsilon, columns))  # of the same query
    first, second = (count(each, of_curators(300, epsilon, columns)) for each in people)
    merged = first.merge(second)
    exact = sum(whole(rule, each) for each in people)
    assert inside((merged.sums - exact) / merged.stddev)
    assert privot.fit(merged).sample(3, seed=0).num_rows == 3


def test_batches_of_two_servers_merge_with_the_guarantee_of_the_smaller(tmp_path):
    rule, data = encoder(), table(450)
    leader, helper = servers(tmp_path, rule, data)
    ids = sorted(leader.ids())
    parts = []
    for own in (ids[:200], ids[200:]):
        parts.append(open_sums(leader.release(own), helper.release(own)))
    merged = parts[0].merge(parts[1])
    assert (len(merged), merged.guarantee.people) == (450, 200)
    assert isinstance(merged.guarantee, DistributedDP)
    assert inside((merged.sums - whole(rule, data)) / (2 * rule.stddev))  # two servers, two batches
    with pytest.raises(PrivotError, match="is in two of the sums"):
        merged.merge(parts[0])


def test_what_does_not_add_up_is_refused():
    first = batch("a", encoder(), table(200), 200)
    with pytest.raises(PrivotError, match="of two rules"):
        first.merge(batch("b", encoder(201), table(201), 201))
    ours = count(table(200), of_curators())
    with pytest.raises(PrivotError, match="of two rules"):
        first.merge(ours)
    with pytest.raises(PrivotError, match="0 reports are fewer"):
        SumRelease(first.rule, {}, first.sums)
    with pytest.raises(PrivotError, match="sums must be 3,403"):
        SumRelease(first.rule, {"a": 200}, first.sums[:-1])


def test_records_are_released_once_by_a_ledger_and_a_second_time_is_noticed(tmp_path):
    people, rule = some(200, 0.3), of_curators(columns=FEW)
    first = count(people, rule, tmp_path / "ledger")
    with pytest.raises(PrivotError, match="counted a release: use its sums, or spend more"):
        count(people, rule, tmp_path / "ledger")
    with pytest.warns(RepeatedRecords, match="2 runs, together ε = 8"):
        second = count(people, rule)
    assert first.batches != second.batches
    assert first.merge(second).guarantee == first.guarantee  # as the page says: not detected


def test_what_one_curator_cannot_release_is_refused():
    with pytest.raises(PrivotError, match="199 records are fewer than the promise.s 200"):
        count(table(199), of_curators())
    with pytest.raises(PrivotError, match="where = 'central'"):
        count(table(200), schema())
    point = {"point": {"kind": "vector", "columns": list("wxyz"), "bounds": [[0, 1]] * 4}}
    with pytest.raises(PrivotError, match="not learned from one round of sums"):
        count({name: [0.5] * 200 for name in "wxyz"}, of_curators(columns=point))


def test_a_file_that_is_damaged_or_promises_less_noise_is_refused(tmp_path):
    path, release = tmp_path / "sums", count(some(200, 0.5), of_curators(columns=FEW))
    release.save(path)
    text = path.read_text()
    endless = sealed(unsealed(text) | {"batches": {"a": math.inf}})
    for content in (text[:-9], "", "{}", text.replace(":200}", ":201}"), endless):
        path.write_text(content)
        with pytest.raises(PrivotError, match="holds no noisy sums"):
            SumRelease.load(path)
    object.__setattr__(release.rule, "stddev", 1.0)
    release.save(path)
    with pytest.raises(PrivotError, match="the promise is"):
        SumRelease.load(path)
