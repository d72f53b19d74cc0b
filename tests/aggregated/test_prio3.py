"""Prio3: the draft's test vectors, what is rejected, and what one server can see."""

import json
from collections import Counter
from hashlib import sha256
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from aggregated.circuits import MultihotCountVec, SumVec
from privot.aggregated import prio3
from privot.aggregated.fields import FIELD64, FIELD128, Field, InvalidReportError
from privot.aggregated.prio3 import Histogram, Levels, Pairs, Prio3

VECTORS = json.loads((Path(__file__).parent / "prio3_vectors.json").read_text())
KEY, NONCE = bytes(range(16)), bytes(range(16))
Q = 41
TINY = Field(Q, pow(6, 5, Q), 3, 8)  # small enough that all its points can be tried


def circuit_of(vector):
    parameters = dict(vector["parameters"])
    if "field" in parameters:
        parameters["field"] = {64: FIELD64, 128: FIELD128}[parameters["field"]]
    kinds = {each.__name__: each for each in (Histogram, SumVec, MultihotCountVec)}
    return kinds[vector["circuit"]](**parameters)


def prepared(scheme, public, inputs, key=KEY, nonce=NONCE):
    pairs = [scheme.prep_init(key, k, nonce, public, share) for k, share in enumerate(inputs)]
    return [state for state, _ in pairs], [share for _, share in pairs]


def taken(scheme, state, message):
    """A server's share of what a report adds to the result."""
    measurement, seed = state
    scheme.check_seed(seed, message)
    return scheme.circuit.truncate(measurement)


def verified(scheme, public, inputs, key=KEY, nonce=NONCE):
    """Every server's share of the result."""
    states, shares = prepared(scheme, public, inputs, key, nonce)
    message = scheme.prep_shares_to_prep(shares)
    return [taken(scheme, state, message) for state in states]


def accepted(*report):
    try:
        return bool(verified(*report))
    except InvalidReportError:
        return False


def one_hots(*places, sizes=(3, 2, 4)):
    z = np.zeros(sum(sizes), np.int64)
    z[np.cumsum([0, *sizes[:-1]]) + np.array(places)] = 1
    return z


def pairs_of(z):
    rows, columns = np.triu_indices(len(z))
    return (z[rows] * z[columns]).astype(object)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda each: each["source"])
def test_the_draft_s_vectors_are_met(vector):
    scheme = Prio3(circuit_of(vector), vector["shares"], vector["proofs"])
    rand = bytes(range(scheme.rand_size))
    public, inputs = scheme.shard(scheme.circuit.encode(vector["measurement"]), NONCE, rand)
    assert public.hex() == vector["public_share"]
    assert [sha256(share).hexdigest() for share in inputs] == vector["input_shares_sha256"]
    assert [len(share) for share in inputs] == [*map(scheme.input_share_size, range(len(inputs)))]
    states, shares = prepared(scheme, public, inputs)
    assert [share.hex() for share in shares] == vector["prep_shares"]
    message = scheme.prep_shares_to_prep(shares)
    assert message.hex() == vector["prep_message"]
    result = scheme.unshard(taken(scheme, state, message) for state in states)
    encoded = scheme.circuit.encode(vector["measurement"])
    assert [*result] == [*scheme.circuit.truncate(encoded)]


@settings(max_examples=15, deadline=None)
@given(
    buckets=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    shares=st.integers(2, 4),
    proofs=st.integers(1, 2),
    chunk=st.integers(1, 12),
)
def test_sums_of_shares_are_sums_of_measurements(buckets, shares, proofs, chunk):
    scheme = Prio3(Histogram(10, chunk), shares, proofs)
    total = [0] * shares
    for bucket in buckets:
        report = scheme.shard(scheme.circuit.encode(bucket), NONCE)
        total = [one + other for one, other in zip(total, verified(scheme, *report))]
    assert scheme.unshard(total).tolist() == np.bincount(buckets, minlength=10).tolist()


@settings(max_examples=15, deadline=None)
@given(places=st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 3)))
def test_pairs_add_scaled_products(places):
    z = one_hots(*places)
    rows, columns = np.triu_indices(len(z))
    scheme = Prio3(Pairs((3, 2, 4), 7 * rows + columns + 1))
    contribution = z[rows] * z[columns] * (7 * rows + columns + 1)
    report = scheme.shard(scheme.circuit.measurement_of(contribution), NONCE)
    assert scheme.unshard(verified(scheme, *report)).tolist() == contribution.tolist()


@pytest.mark.parametrize("missing", [False, True])
def test_levels_add_the_counts_of_coarser_cells(missing):
    sizes = (4 + missing, 16 + missing)
    scheme = Prio3(Levels(sizes, missing))
    for cell in range(sizes[-1]):
        coarse = 4 if cell == 16 else cell // 4
        contribution = np.concatenate([np.eye(sizes[0])[coarse], np.eye(sizes[1])[cell]])
        measurement = scheme.circuit.measurement_of(contribution.astype(np.int64))
        report = scheme.shard(measurement, NONCE)
        assert scheme.unshard(verified(scheme, *report)).tolist() == contribution.tolist()


def test_negative_sums_keep_their_sign():
    scheme, p = Prio3(Histogram(3)), FIELD128.modulus
    sums = [np.array([p - 5, 3, 2**62], object), np.array([2, p - 3, 2**62], object)]
    assert scheme.unshard(sums).tolist() == [-3, 0, 2**63]


def wrong_histograms():
    p, valid = FIELD128.modulus, Histogram(10).encode(3)
    yield "two-hot", valid + Histogram(10).encode(7)
    yield "nothing", 0 * valid
    yield "2", 2 * valid
    yield "a minus and two", valid + 2 * Histogram(10).encode(7) - 2 * Histogram(10).encode(8)
    yield "-1", (-valid) % p
    yield "huge", valid * 10**15
    yield "halves", np.array([(p + 1) // 2] * 2 + [0] * 8, object)


SWAP = np.eye(9, dtype=int)[
    [0, 1, 2, 3, 5, 4, 6, 7, 8]
]  # moves the second block's one to the third


def wrong_pairs():
    valid, p = pairs_of(one_hots(0, 1, 2)), FIELD128.modulus
    rows, columns = np.triu_indices(9)
    yield "no product", np.where(rows == columns, valid, 0)
    yield "one product more", valid + pairs_of(np.eye(9, dtype=int)[1])
    yield "another column's product", np.roll(valid, 1)
    yield "two cells of a block", pairs_of(one_hots(0, 1, 2) + np.eye(9, dtype=int)[1])
    yield "an empty block", pairs_of(one_hots(0, 1, 2) - np.eye(9, dtype=int)[0])
    yield "an empty last block", pairs_of(one_hots(0, 1, 2) - np.eye(9, dtype=int)[7])
    yield "two cells of one, none of another", pairs_of(one_hots(0, 1, 2) @ SWAP)
    yield "weight 3 in a cell", pairs_of(one_hots(0, 1, 2) * np.array([3] + [1] * 8))
    yield "-1", (-valid) % p
    yield "huge", np.where((rows == 0) & (columns == 8), 10**15, valid)


WRONG = [(Histogram(10), *each) for each in wrong_histograms()]
WRONG += [(Pairs((3, 2, 4)), *each) for each in wrong_pairs()]


@pytest.mark.parametrize(("circuit", "name", "measurement"), WRONG, ids=lambda each: str(each)[:30])
def test_measurements_of_no_record_are_rejected(circuit, name, measurement):
    """Each with probability 1 − 2^−110 or more, whatever the coins."""
    scheme = Prio3(circuit)
    assert circuit.error < 2.0**-110
    for _ in range(5):
        assert not accepted(scheme, *scheme.shard(measurement % FIELD128.modulus, NONCE))


def test_the_error_is_stated_for_1024_cells_and_many_tries():
    assert Histogram(1024).error * 2.0**64 < 2.0**-53


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_a_bit_that_is_changed_is_found(data):
    """In any share, or in what servers send one another; false alarm never, miss below 2^−100."""
    scheme = Prio3(data.draw(st.sampled_from([Histogram(10), Pairs((3, 2, 4))])))
    valid = Histogram(10).encode(2) if scheme.circuit.length == 10 else pairs_of(one_hots(1, 0, 3))
    public, inputs = scheme.shard(valid, NONCE)
    states, shares = prepared(scheme, public, inputs)
    what = data.draw(st.sampled_from(["leader", "helper", "public", "prep", "message", "nonce"]))
    known = {"leader": inputs[0], "helper": inputs[1], "public": public, "prep": shares[1]}
    known |= {"message": scheme.prep_shares_to_prep(shares), "nonce": NONCE}
    changed = bytearray(known[what])
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    changed = bytes(changed)
    if what == "message":
        with pytest.raises(InvalidReportError, match="do not belong together"):
            taken(scheme, states[0], changed)
    elif what == "prep":
        with pytest.raises(InvalidReportError):
            taken(scheme, states[0], scheme.prep_shares_to_prep([shares[0], changed]))
    elif what == "nonce":
        assert not accepted(scheme, public, inputs, KEY, changed)
    elif what == "public":
        assert not accepted(scheme, changed, inputs)
    else:
        both = [changed, inputs[1]] if what == "leader" else [inputs[0], changed]
        assert not accepted(scheme, public, both)


def test_servers_with_other_keys_and_shares_of_others_are_refused():
    scheme = Prio3(Histogram(10))
    public, inputs = scheme.shard(scheme.circuit.encode(1), NONCE)
    _, first = scheme.prep_init(KEY, 0, NONCE, public, inputs[0])
    _, second = scheme.prep_init(bytes(16), 1, NONCE, public, inputs[1])
    with pytest.raises(InvalidReportError, match="not accepted"):
        scheme.prep_shares_to_prep([first, second])
    for wrong in (inputs[::-1], [inputs[0][:-1], inputs[1]], [inputs[0], inputs[1] + b"\0"]):
        with pytest.raises(InvalidReportError, match="other sizes"):
            prepared(scheme, public, wrong)
    with pytest.raises(InvalidReportError, match="bytes"):
        scheme.prep_shares_to_prep([first, second[1:]])


def test_helpers_shares_are_coins_alone_and_the_leader_s_a_bijection():
    """With the same coins; so with uniform expansions the leader's is uniform, for all records alike."""
    scheme = Prio3(Histogram(10))
    rand = bytes(range(scheme.rand_size))
    made = [scheme.shard(scheme.circuit.encode(k), NONCE, rand)[1] for k in range(10)]
    assert len({share for _, share in made}) == 1
    pad = scheme.measurement_share(1, made[0][1])
    for k, (leader, _) in enumerate(made):
        both = scheme.measurement_share(0, leader) + pad
        assert (both % FIELD128.modulus == scheme.circuit.encode(k)).all()


@pytest.mark.parametrize("bucket", [0, 9])
def test_what_one_server_receives_looks_uniform(bucket):
    """Bytes of the leader's share and of the helper's verifier; false alarm 1e-6 each."""
    scheme, seen = Prio3(Histogram(10)), []
    for _ in range(60):
        public, (leader, helper) = scheme.shard(scheme.circuit.encode(bucket), NONCE)
        _, verifier = scheme.prep_init(KEY, 1, NONCE, public, helper)
        seen.append(leader + public + verifier)
    counts = np.bincount(np.frombuffer(b"".join(seen), np.uint8), minlength=256)
    expected = counts.sum() / 256
    assert counts.sum() > 20_000
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), 255) > 1e-6


class TinyHistogram(Histogram):
    field = TINY


TINIES = pytest.mark.parametrize("bucket", [0, 2])


@TINIES
def test_the_verifier_of_a_valid_measurement_is_independent_of_it(bucket):
    """Exactly, by all random values at α^0: v = 0, W(t) takes each pair once, and g(t) follows."""
    circuit = TinyHistogram(3, 1)
    measurement, joint = circuit.encode(bucket), np.array([5, 11], object)
    seen = Counter()
    for values in product(range(Q), repeat=2):
        proof = circuit.prove(measurement, np.array(values, object), joint)
        verifier = circuit.query(measurement, proof, [3], joint, 1)
        assert circuit.decide(verifier)
        seen[tuple(verifier)] += 1
    assert seen == Counter((0, a, b, a * b % Q) for a, b in product(range(Q), repeat=2))


def points(circuit):
    """All points t that are no roots of unity."""
    return [t for t in range(1, Q) if pow(t, circuit.wire_length, Q) != 1] + [0]


def test_the_best_lie_passes_at_as_many_points_as_the_bound_says():
    """A polynomial g that makes v zero is another at all but 2P − 2 points; those can be chosen."""
    circuit, joint = TinyHistogram(3, 1), np.array([5, 11], object)
    wrong = np.array([1, 1, 0], object)
    proof = circuit.prove(wrong, np.array([8, 20], object), joint)
    degree = 2 * circuit.wire_length - 2
    shift = np.array([1], object)
    for point in points(circuit)[:degree]:
        shift = (np.append(0, shift) - point * np.append(shift, 0)) % Q
    gap = int(circuit.query(wrong, proof, [3], joint, 1)[0])
    lie = proof.copy()
    lie[2:] += shift
    moved = (int(circuit.query(wrong, lie, [3], joint, 1)[0]) - gap) % Q
    assert gap
    assert moved
    lie[2:] = (proof[2:] - gap * TINY.inverse(moved) * shift) % Q
    found = [circuit.decide(circuit.query(wrong, lie, [t], joint, 1)) for t in points(circuit)]
    assert found == [True] * degree + [False] * (len(found) - degree)
    assert degree / len(found) == pytest.approx(circuit.error - circuit.degree / Q)


def test_a_wrong_measurement_is_valid_for_few_joint_randomness():
    """Counted over all r: at most d of Q for each s, and for some."""
    circuit, wrong = TinyHistogram(3, 1), np.array([2, Q - 1, 0], object)
    valid = []
    for r, s in product(range(Q), repeat=2):
        factors, scale, rest = circuit.evaluate(wrong, np.array([r, s], object), 1)
        valid.append((scale * (factors[:, 0] * factors[:, 1]).sum() + rest) % Q == 0)
    share = np.mean(valid)
    assert 0 < share <= circuit.degree / Q


def test_a_point_that_is_a_root_of_unity_is_refused():
    circuit, joint = TinyHistogram(3, 1), np.array([5, 11], object)
    proof = circuit.prove(circuit.encode(1), np.array([8, 20], object), joint)
    with pytest.raises(InvalidReportError, match="root of unity"):
        circuit.query(circuit.encode(1), proof, [TINY.root(4)], joint, 1)


def test_coins_are_fresh_and_the_system_s(monkeypatch):
    scheme = Prio3(Histogram(10))
    made = [scheme.shard(scheme.circuit.encode(1), NONCE) for _ in range(20)]
    assert len({helper for _, (_, helper) in made}) == 20
    drawn = []
    monkeypatch.setattr(prio3.secrets, "token_bytes", lambda n: drawn.append(n) or bytes(range(n)))
    public, inputs = scheme.shard(scheme.circuit.encode(1), NONCE)
    assert drawn == [scheme.rand_size]
    assert (public, inputs) == scheme.shard(scheme.circuit.encode(1), NONCE, bytes(range(80)))
