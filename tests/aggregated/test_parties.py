"""What each party can do to two servers: open twice, use two keys, kill, and search a disk."""

import os
import re
import shutil
import signal
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from aggregated.people import PLACE, encoder, few, provers, proving, schema, servers, table
from privot.aggregated import Encoder, Server, server
from privot.aggregated.prio3 import SEED_SIZE, Usage
from privot.central.sums import sensitivity
from privot.core.errors import PrivotError
from privot.privacy import ledger


def test_a_second_folder_of_an_encoder_is_refused(tmp_path):
    """Else the same shares, sent or read again, would be summed again with fresh noise."""
    rule = encoder()
    leader, _ = servers(tmp_path, rule, table(250))
    leader.release(leader.ids())
    shutil.rmtree(leader.folder)
    for name in ("leader", "again"):
        with pytest.raises(PrivotError, match="has had a leader of this encoder"):
            Server.create(tmp_path / name, rule, "leader")
        assert not (tmp_path / name).exists()


def test_shares_of_one_campaign_are_refused_by_another_of_the_same_schema(tmp_path):
    """A device whose answer was withheld sends the same bytes again: not into the next campaign."""
    first, second = (Encoder.calibrate(schema()) for _ in range(2))
    assert first.stddev == second.stddev
    leader = Server.create(tmp_path / "leader", second, "leader")
    with pytest.raises(PrivotError, match="of another encoder"):
        leader.accept(first.encode({"region": "r1", "age": 1, "sick": False})[0])


@pytest.mark.parametrize("backup", ["all", "database"])
def test_an_older_folder_without_its_ledger_is_refused(tmp_path, backup):
    leader, _ = servers(tmp_path, encoder(), table(250))
    ids, old = leader.ids(), tmp_path / "old"
    shutil.copytree(leader.folder, old)
    leader.release(ids)
    if backup == "all":
        shutil.rmtree(leader.folder)
        shutil.copytree(old, leader.folder)
    else:
        shutil.copy(old / "shares.sqlite", leader.folder)
    (leader.folder / "ledger.json").unlink()
    with pytest.raises(PrivotError, match=r"ledger .* is gone.*restore it"):
        Server(leader.folder)


def test_a_folder_from_before_a_kill_is_refused_once_its_sums_are_out(tmp_path):
    """A kill after the ledger's file and before its witness left older copies as good as the newest."""
    leader, _ = servers(tmp_path, encoder(), table(250))
    ids, old = leader.ids(), tmp_path / "old"
    shutil.copytree(leader.folder, old)
    process = get_context("fork").Process(target=counting, args=(leader.folder, ids))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert Server(leader.folder).release(ids).exists()
    with pytest.raises(PrivotError, match="rolled back or copied"):
        Server(old)


def counting(folder, ids):
    """Release in a process that dies when it has written a file."""
    write, leader = ledger.write_json, Server(folder)

    def last(path, fields):
        write(path, fields)
        os.kill(os.getpid(), signal.SIGKILL)

    ledger.write_json = last
    leader.release(ids)


def making(folder, rule, at):
    def die(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(*at, die)
    Server.create(folder, rule, "leader")


@pytest.mark.parametrize("at", [(server.Ledger, "begin"), (server, "write_json")])
def test_a_kill_while_a_folder_is_made_leaves_none_or_a_whole_one(tmp_path, at):
    """And none of the campaign's only leader is used up."""
    process = get_context("fork").Process(target=making, args=(tmp_path / "leader", encoder(), at))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    if at[1] == "begin":
        assert not (tmp_path / "leader").exists()
        Server.create(tmp_path / "leader", encoder(), "leader")
    assert Server(tmp_path / "leader").role == "leader"
    with pytest.raises(PrivotError, match="has had a leader of this encoder"):
        Server.create(tmp_path / "again", encoder(), "leader")


def test_of_two_folders_that_were_made_at_once_one_is_used(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(server, "_note_server", lambda *_: None)  # each before the other's note
        for name in ("first", "second"):
            Server.create(tmp_path / name, encoder(), "leader")
    assert [Server(tmp_path / "second").role for _ in range(2)] == ["leader"] * 2
    with pytest.raises(PrivotError, match="has had a leader of this encoder"):
        Server(tmp_path / "first")


def explained(circuit, points, verifiers, candidate, joint_rand):
    """Whether the wires at two points are those of a candidate, the random values eliminated."""
    field, count = circuit.field, circuit.wire_length
    factors = circuit.evaluate(candidate, joint_rand, 1)[0]
    known = circuit._wires(np.zeros(2 * circuit.chunk, object), factors)
    weights = [field.interpolate(field.powers(point, count)) for point in points]
    wires = [np.array(verifier[1:-1], object) for verifier in verifiers]
    found = wires[0] * weights[1][0] - wires[1] * weights[0][0]
    own = (weights[0] @ known) * weights[1][0] - (weights[1] @ known) * weights[0][0]
    return not ((found - own) % field.modulus).any()


def test_one_report_prepared_with_two_keys_is_open_to_the_other_server(tmp_path, monkeypatch):
    """Why no server prepares a report with a second key: from both, its cell is found among all."""
    rule = Encoder.calibrate(schema(50, 4.0, PLACE), proofs=True)
    shares, prio3 = next(rule.encode_table(few(1, "place"))), rule.prio3
    circuit, report_id = prio3.circuit, shares[0][33:49]
    points, verifiers = [], []
    for key in (bytes(16), bytes(range(16))):
        monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path / key.hex()))  # of two accounts
        both = [Server.create(tmp_path / key.hex() / r, rule, r, key) for r in ("leader", "helper")]
        sent = []
        for each, share in zip(both, shares):
            each.accept(share)
            row = each.prepare().read_bytes()[len(rule.head(each.role)) + 16 :]
            sent.append(circuit.field.decode(row[:-SEED_SIZE]))
        verifiers.append(sum(sent) % circuit.field.modulus)
        points.append(int(prio3._expand(Usage.QUERY_RANDOMNESS, key, report_id, 1)[0]))
    with both[1]._open() as database:  # of the helper, as is all of its view
        (seed,) = database.execute("SELECT seed FROM prepared").fetchone()
    rand, vector = prio3._joint_rands(seed), next(rule.contributions(few(1, "place")))[0]
    cells = [circuit.encode(cell) for cell in range(circuit.length)]
    found = [c for c, x in enumerate(cells) if explained(circuit, points, verifiers, x, rand)]
    assert found == [circuit.measurement_of(vector.view(np.int64)).argmax()]


def test_a_second_key_for_an_encoder_is_refused(tmp_path):
    rule = proving()
    Server.create(tmp_path / "leader", rule, "leader", bytes(16))
    shutil.rmtree(tmp_path / "leader")
    with pytest.raises(PrivotError, match="has had a leader of this encoder"):
        Server.create(tmp_path / "leader", rule, "leader", bytes(range(16)))


def test_servers_with_two_keys_verify_nothing(tmp_path):
    rule = proving()
    keys = {"leader": bytes(16), "helper": bytes(range(16))}
    both = [Server.create(tmp_path / role, rule, role, key) for role, key in keys.items()]
    for each, shares in zip(both, zip(*rule.encode_table(few(50)))):
        assert each.accept(*shares) == 50
    for each, other in (both, both[::-1]):
        assert each.verify(other.prepare()) == 0 == len(each.ids())


def test_a_server_that_declares_people_invalid_opens_no_fewer_and_no_one_twice(tmp_path):
    rule = proving()
    leader, helper = provers(tmp_path, rule, few(70))
    sent, head = bytearray(helper.prepare().read_bytes()), len(rule.head("helper"))
    size = (len(sent) - head) // 70
    for row in range(21):  # the helper spoils its proofs of 21 people
        sent[head + row * size + 20] ^= 1
    (tmp_path / "spoiled.bin").write_bytes(sent)
    assert leader.verify(tmp_path / "spoiled.bin") == 49
    with pytest.raises(PrivotError, match="49 reports are fewer than the promise.s 50"):
        leader.release(leader.ids())
    assert leader.verify(helper.prepare()) == 70
    ids = sorted(leader.ids())
    leader.release(ids[:69])  # all but one person
    for batch in (ids, ids[1:]):  # with them: no difference of two batches
        with pytest.raises(PrivotError, match="was opened, which is done once"):
            leader.release(batch)


def test_what_a_server_sends_does_not_depend_on_what_the_other_sent(tmp_path):
    leader, helper = provers(tmp_path, proving(), few(60))
    first, sent = leader.prepare().read_bytes(), bytearray(helper.prepare().read_bytes())
    head = len(leader.encoder.head("helper"))
    for hostile in (
        bytes(len(sent) - head),
        b"\xff" * (len(sent) - head),
        first[head:],
        sent[head:],
    ):
        (tmp_path / "hostile.bin").write_bytes(sent[:head] + hostile)
        leader.verify(tmp_path / "hostile.bin")
        assert leader.prepare().read_bytes() == first


def test_shares_and_proofs_of_a_batch_are_gone_from_the_disk(tmp_path):
    leader, helper = provers(tmp_path, proving(), few(70))
    leader.verify(helper.prepare())
    with leader._open() as database:
        bodies = database.execute("SELECT body, share FROM shares NATURAL JOIN prepared").fetchall()
    content = (leader.folder / "shares.sqlite").read_bytes()
    pieces = [part[at : at + 24] for row in bodies for part in row for at in (9, len(part) - 30)]
    assert sum(piece in content for piece in pieces) > 0.9 * len(pieces)
    leader.release(leader.ids())
    files = [path for path in leader.folder.iterdir() if path.name != "encoder.json"]
    content = b"".join(path.read_bytes() for path in files)
    assert not [piece for piece in pieces if piece in content]


CORNERS = np.array([-1e308, -1e-9, -0.0, 1e-300, 0.25, 0.5, 0.75, 1.0, 1 + 1e-9, 1e308])
EDGES = np.sort(np.concatenate([np.nextafter(CORNERS, -2), CORNERS, np.nextafter(CORNERS, 2)]))


def places():
    x, y = map(np.ravel, np.meshgrid(EDGES, EDGES))
    return {"x": np.append(x, np.nan), "y": np.append(y, np.nan)}


def mixed():
    rng = np.random.default_rng(0)
    return {
        "size": rng.choice(np.append(EDGES, np.nan), 400),
        "sick": [None if draw < 0.3 else draw < 0.6 for draw in rng.random(400)],
        "town": [f"t{k}" for k in rng.integers(90, size=400)],
    }


MIXED = {
    "size": {"kind": "numeric", "bounds": [0, 1], "nullable": True},
    "sick": {"kind": "boolean", "nullable": True},
    "town": {"kind": "categorical", "categories": [f"t{k}" for k in range(90)]},
}


@pytest.mark.parametrize("proofs", [False, True])
def test_shares_of_all_records_have_one_length(proofs):
    rule = Encoder.calibrate(schema(50, 4.0, PLACE), proofs=proofs)
    some = {name: axis[-30:] for name, axis in places().items()}  # with the missing one
    leader, helper = zip(*rule.encode_table(some))
    for role, shares in (("leader", leader), ("helper", helper)):
        assert {len(share) for share in shares} == {rule.share_length(role)}


@pytest.mark.parametrize(("columns", "records"), [(PLACE, places), (MIXED, mixed)])
def test_any_two_records_differ_by_the_sensitivity_at_most(columns, records):
    """On borders of cells, beyond the box, at the ends of floats, and missing; all add as much."""
    rule = Encoder.calibrate(schema(50_000, 4.0, columns))
    vectors = np.concatenate([c.view(np.int64) for c in rule.contributions(records())])
    floats = vectors.astype(float)  # sums below 2^53 are exact
    products, largest = floats @ floats.T, sensitivity(rule.query)
    squares = np.diag(products)
    apart = squares[:, None] + squares - 2 * products
    assert 0.95 * largest**2 < apart.max() <= largest**2
    assert len(np.unique(squares)) == 1  # so none is left out as too long


def test_the_tests_that_the_table_of_parties_names_are_there():
    root = Path(__file__).parents[2]
    text = (root / "docs" / "guarantees.md").read_text(encoding="utf-8")
    section = text.partition("## What each party can do")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(test_\w+)`", section))
    written = "".join(path.read_text(encoding="utf-8") for path in root.glob("tests/*/test_*.py"))
    assert len(named) > 20
    assert not {name for name in named if f"def {name}(" not in written}
