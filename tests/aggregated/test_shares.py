"""What shares are made of, what one server can see in them, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from aggregated.people import (
    COLUMNS,
    IMAGES,
    PLACE,
    encoder,
    few,
    proving,
    schema,
    table,
    whole,
)  # fmt: skip
from conformance import shares as suite
from privot.aggregated import Encoder, shares
from privot.central.sums import NoisySums, SumMechanism, SumPlan, sensitivity
from privot.core.errors import PrivotError
from privot.privacy import calibrate_gaussian
from privot.privacy.ledger import Ledger
from privot.schema import Schema

ONE = {"region": "r0", "age": 3, "sick": False}
OTHER = {"region": "r29", "age": 60, "sick": True}


def words(share):
    return np.frombuffer(share[49:], "<u8")


def seed(share):
    return share[49:]


def test_both_shares_are_the_record_and_carry_one_id():
    rule = encoder()
    leader, helper = rule.encode(ONE)
    assert (len(leader), len(helper)) == (49 + 8 * rule.length, 81)
    assert leader[33:49] == helper[33:49]
    together = words(leader) - shares.expand(seed(helper), rule.length)
    one = {name: [value] for name, value in ONE.items()}
    assert (together.view(np.int64) == whole(rule, one)).all()
    assert together.any()


def test_sums_of_contributions_are_the_curators():
    rule, data = encoder(), table(600)
    (codes,) = rule.fitted.records.encode(shares.raw_table(data, rule.schema))
    plan = SumPlan((1e12,), 1e-6, 600)
    curators = SumMechanism((codes,), Ledger(plan)).release(rule.query)
    ours = shares.contributions(rule.query, (codes,)).sum(axis=0)
    rows, columns = np.triu_indices(rule.query.width)
    times = np.where(rows == columns, 29, 41)
    assert np.abs(curators.sums[0, rows, columns] * times - ours).max() <= 1
    assert isinstance(curators, NoisySums)


def test_no_two_records_differ_by_more_than_the_sensitivity():
    rule = encoder()
    vectors = np.concatenate([c.view(np.int64) for c in rule.contributions(table(300))])
    apart = np.linalg.norm(vectors[:150] - vectors[150:], axis=1).max()
    assert 0.9 * sensitivity(rule.query) < apart <= sensitivity(rule.query)


def leaders_view(record, count):
    rule = encoder()
    return np.stack([words(rule.encode(record)[0]) for _ in range(count)])


def unevenness(view):
    """The smallest p-value, over the bytes of a word, that their values are uniform."""
    spread = np.stack([np.bincount(b, minlength=256) for b in as_bytes(view)])
    expected = view.size / 256
    return chi2.sf(((spread - expected) ** 2 / expected).sum(axis=1), 255).min()


def as_bytes(view):
    return np.ascontiguousarray(view).view(np.uint8).reshape(-1, 8).T


def difference(first, second):
    """The smallest p-value, over words of the vector, that the means of their bytes are equal."""
    means = [
        np.ascontiguousarray(v).view(np.uint8).reshape(len(v), -1).mean(axis=0)
        for v in (first, second)
    ]
    variance = (256**2 - 1) / 12 * (1 / len(first) + 1 / len(second))
    return chi2.sf((means[0] - means[1]) ** 2 / variance, 1).min() * len(means[0])


def test_the_leader_sees_uniform_words_whatever_the_record():
    first, second = leaders_view(ONE, 60), leaders_view(OTHER, 60)
    assert unevenness(first) > 1e-6
    assert unevenness(second) > 1e-6
    assert difference(first, second) > 1e-6


@pytest.mark.parametrize("pad", ["none", "too short"])
def test_a_leader_who_sees_more_is_found(monkeypatch, pad):
    """The tests above have the power to see a pad that is missing, or lacks the highest byte."""
    good = shares.expand
    masks = {"none": np.uint64(0), "too short": np.uint64(2**56 - 1)}
    monkeypatch.setattr(shares, "expand", lambda s, n: good(s, n) & masks[pad])
    first, second = leaders_view(ONE, 60), leaders_view(OTHER, 60)
    assert unevenness(first) < 1e-9
    if pad == "none":
        assert difference(first, second) < 1e-9


def test_each_record_explains_what_the_leader_sees_by_exactly_one_pad(monkeypatch):
    """So pads that are uniform make words that are uniform, for every record alike."""
    rule = encoder()
    seen = words(rule.encode(ONE)[0])
    for record in (ONE, OTHER):
        (vector,) = next(rule.contributions({name: [v] for name, v in record.items()}))
        monkeypatch.setattr(shares, "expand", lambda s, n, v=vector: seen - v)
        assert (words(rule.encode(record)[0]) == seen).all()


def test_the_helper_sees_nothing_of_the_record(monkeypatch):
    """With the same coins, its share is the same for any record."""
    monkeypatch.setattr(shares.secrets, "token_bytes", lambda n: bytes(range(n)))
    rule = encoder()
    first, second = rule.encode(ONE), rule.encode(OTHER)
    assert first[1] == second[1]
    assert first[0] != second[0]


def test_seeds_and_ids_are_fresh():
    rule = encoder()
    made = [rule.encode(ONE) for _ in range(50)]
    assert len({helper[33:49] for _, helper in made}) == 50
    assert len({seed(helper) for _, helper in made}) == 50


def test_the_noise_is_the_least_that_one_server_needs():
    rule = encoder()
    needed = calibrate_gaussian(sensitivity(rule.query), 4.0, 1e-6)
    assert rule.stddev == pytest.approx(needed, rel=1e-9)
    assert 0.999 < rule.guarantee(200).epsilon / 4.0 <= 1
    with pytest.raises(PrivotError, match=r"stddev .* gives ε = 4\.09.*, the promise is ε = 4"):
        Encoder(rule.schema, 0.98 * rule.stddev)


def test_fewer_people_have_no_guarantee():
    rule = encoder()
    assert rule.guarantee(300).people == 300
    with pytest.raises(PrivotError, match="199 reports are fewer than the promise.s 200"):
        rule.guarantee(199)


def test_sums_that_could_wrap_around_are_refused():
    rule = encoder()
    most = (2**62 - 1) // (29 * rule.query.radius**2)
    rule.require_room(min(most, 2 * 10**11))
    wide = {f"c{i}": {"kind": "boolean"} for i in range(3000)}
    promise = {"epsilon": 1, "where": "aggregated", "delta": 1e-12, "people": 2 * 10**10}
    with pytest.raises(PrivotError, match="could wrap around: open at most"):
        Encoder(Schema.from_dict({"columns": wide, "promise": promise}), 2.0**36)


def test_entries_stay_below_the_bound_of_the_docstring():
    rule = encoder()
    largest = max(chunk.max() for chunk in rule.contributions(table(300)))
    assert largest <= 29 * rule.query.radius**2


def test_an_encoder_is_read_as_it_was_written(tmp_path):
    rule = encoder()
    rule.save(tmp_path / "encoder.json")
    again = Encoder.load(tmp_path / "encoder.json")
    assert again == rule
    assert again.fingerprint == rule.fingerprint != encoder(201).fingerprint


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"stddev": 1.0}, "the promise is"),
        ({"format": 1}, "was altered"),
        ({"device": None}, "was altered"),
        ({"query": {}}, "was altered"),
        ({"extra": 1}, "was altered"),
        ({"schema": {}}, "cannot be used"),
        ({"stddev": "much"}, "cannot be used"),
        ({"stddev": -1.0}, "cannot be used"),
    ],
)
def test_an_encoder_that_was_altered_is_refused(change, match):
    fields = json.loads(encoder().to_json()) | change
    with pytest.raises(PrivotError, match=match):
        Encoder.from_json(json.dumps(fields, separators=(",", ":")))


def test_schemas_without_this_promise_or_one_round_are_refused():
    bare = schema().model_copy(update={"promise": None})
    with pytest.raises(PrivotError, match="promises nothing: declare"):
        Encoder.calibrate(bare)
    point = {"kind": "vector", "columns": list("abcd"), "bounds": [[0, 1]] * 4}
    with pytest.raises(PrivotError, match="not learned from one round of sums"):
        Encoder.calibrate(schema(200, 1.0, {"point": point, "sick": {"kind": "boolean"}}))


def test_images_have_no_proofs():
    with pytest.raises(PrivotError, match="calibrate without proofs"):
        Encoder.calibrate(schema(300, 20.0, IMAGES), proofs=True)


def test_noise_that_hides_everything_is_refused():
    with pytest.raises(PrivotError, match="noise alone would move every column"):
        Encoder.calibrate(schema(20, 0.1))


def test_records_that_the_schema_does_not_allow_are_refused():
    with pytest.raises(PrivotError, match="region"):
        encoder().encode(ONE | {"region": "elsewhere"})
    with pytest.raises(PrivotError, match="missing"):
        encoder().encode({"region": "r1"})


@pytest.mark.parametrize("kind", ["table", "place"])
def test_shares_with_proofs_are_of_the_contribution(kind):
    rule, data = proving(kind), few(30, kind)
    for (vector,), share in zip(one_by_one(rule, data), rule.encode_table(data)):
        assert [len(each) for each in share] == [*map(rule.share_length, shares.ROLES)]
        assert share[0][33:49] == share[1][33:49]
        none = np.zeros(rule.length, np.int64)
        sums = [
            rule.total([rule.read_share(mine, role)[1]], role, none)
            for mine, role in zip(share, shares.ROLES)
        ]
        assert {len(each) for each in sums} == {rule.sums_size}
        assert (rule.opened(*sums) == vector.view(np.int64)).all()


def one_by_one(rule, data):
    for k in range(len(next(iter(data.values())))):
        yield next(rule.contributions({name: column[k : k + 1] for name, column in data.items()}))


@pytest.mark.parametrize("kind", ["table", "place"])
def test_every_report_with_a_proof_is_accepted(kind):
    rule, key = proving(kind), bytes(16)
    for share in rule.encode_table(few(20, kind)):
        (nonce, _), bodies = rule.read_share(share[0], "leader"), [each[49:] for each in share]
        pairs = [
            rule.prio3.prep_init(key, k, nonce, body[:32], body[32:])
            for k, body in enumerate(bodies)
        ]
        message = rule.prio3.prep_shares_to_prep(each for _, each in pairs)
        for (_, seed), _ in pairs:  # a proof that is refused has another one
            rule.prio3.check_seed(seed, message)


def test_sums_that_do_not_belong_together_are_refused():
    rule = proving()
    none, noise = bytes(rule.sums_size), bytes(range(16)) * rule.length
    assert not rule.opened(none, none).any()
    with pytest.raises(PrivotError, match="not of the same reports"):
        rule.opened(none, noise)


def test_an_encoder_remembers_that_its_shares_have_proofs(tmp_path):
    rule = proving()
    rule.save(tmp_path / "encoder.json")
    assert Encoder.load(tmp_path / "encoder.json") == rule
    bare = replace(rule, proofs=False)
    assert bare.fingerprint != rule.fingerprint
    odd = json.loads(bare.to_json()) | {"proofs": 1}
    with pytest.raises(PrivotError, match="was altered"):
        Encoder.from_json(json.dumps(odd, separators=(",", ":")))


def test_what_browsers_compute_by_is_in_the_encoder():
    """Images have no program; what a schema does not read is named."""
    identifier = {"id": {"kind": "identifier", "pattern": "P-[0-9]{6}"}}
    rule = Encoder.calibrate(schema(columns=COLUMNS | identifier))
    assert rule.program["unread"] == ["id"]
    assert [each["column"] for each in rule.program["pairs"]] == [*COLUMNS]
    assert rule.program["length"] == rule.length
    assert Encoder.calibrate(schema(100_000, columns=IMAGES)).program is None
    assert [len(each["codes"][0]) for each in proving().program["pairs"]] == [2, 3]
    levels = Encoder.calibrate(schema(columns=PLACE, epsilon=4.0)).program["levels"]
    assert levels["halvings"] == [*range(1, len(levels["halvings"]) + 1)]


@pytest.mark.parametrize("path", sorted(suite.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_vectors_for_other_languages_are_met(path):
    met, total = suite.check(path)
    assert met == total == (suite.PER_PROVER if "proofs" in path.stem else suite.PER_ENCODER)
