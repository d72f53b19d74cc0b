"""Servers: what they take, what they open, once, and what survives kills and restored copies."""

import json
import os
import shutil
import signal
from multiprocessing import get_context

import numpy as np
import pytest
from scipy.stats import chi2

from aggregated.people import encoder, few, provers, proving, servers, table, whole
from privot.aggregated import Server, open_sums, server
from privot.cli.campaign import aggregate
from privot.core.errors import PrivotError
from privot.privacy.ledger import adopt


def silent(monkeypatch):
    """No noise from whichever server sums next."""
    monkeypatch.setattr(server, "sample_rounded_gaussian", lambda n, s: np.zeros(n, np.int64))


def test_sums_without_noise_are_exact(tmp_path, monkeypatch):
    rule, data = encoder(), table(250)
    leader, helper = servers(tmp_path, rule, data)
    silent(monkeypatch)
    ids = leader.ids() & helper.ids()
    found = open_sums(leader.release(ids), helper.release(ids))
    assert (found.sums == whole(rule, data)).all()
    assert len(found) == 250


def spread(sums, exact, stddev):
    """χ² of the noise in units of a stddev: p-values that it is no less, and no more."""
    square = (((sums - exact) / stddev) ** 2).sum()
    return chi2.cdf(square, len(sums)), chi2.sf(square, len(sums))


@pytest.mark.parametrize("lying", ["leader", "helper"])
def test_with_one_server_silent_the_other_noise_is_all_that_is_promised(
    tmp_path, monkeypatch, lying
):
    rule, data = encoder(), table(250)
    both = servers(tmp_path, rule, data)
    ids, files = both[0].ids(), {}
    for each in both:
        with monkeypatch.context() as patch:
            if each.role == lying:
                silent(patch)
            files[each.role] = each.release(ids)
    found, exact = open_sums(files["leader"], files["helper"]), whole(rule, data)
    less, more = spread(found.sums, exact, rule.stddev)
    assert less > 1e-5
    assert more > 1e-5
    # Noise that is a tenth less would have been found out.
    assert spread(exact + 0.9 * (found.sums - exact), exact, rule.stddev)[0] < 1e-3
    assert found.guarantee == rule.guarantee(250)


def test_both_noises_together_have_the_stated_stddev(tmp_path):
    rule, data = encoder(), table(250)
    leader, helper = servers(tmp_path, rule, data)
    ids = leader.ids()
    found = open_sums(leader.release(ids), helper.release(ids))
    exact = whole(rule, data)
    assert min(spread(found.sums, exact, found.stddev)) > 1e-5
    for wrong in (1.1, 0.9):
        assert min(spread(exact + wrong * (found.sums - exact), exact, found.stddev)) < 1e-3


def test_one_file_alone_is_noise(tmp_path):
    """What one server publishes is uniform to whoever lacks the other's shares."""
    leader, helper = servers(tmp_path, encoder(), table(250))
    for each in (leader, helper):
        fields = server.unsealed(each.release(each.ids()).read_text())
        words = np.frombuffer(server.base64.b64decode(fields["sums"]), np.uint8)
        counts = np.bincount(words, minlength=256)
        expected = len(words) / 256
        assert chi2.sf(((counts - expected) ** 2 / expected).sum(), 255) > 1e-6


def test_one_file_of_places_with_proofs_says_its_noise_and_nothing_else(tmp_path):
    """Its finest cells are uniform, and what coarser ones add to these is noise of the stated σ."""
    rule = proving("place")
    leader, helper = provers(tmp_path, rule, few(50, "place"))
    leader.verify(helper.prepare())
    fields = server.unsealed(leader.release(leader.ids()).read_text())
    prime, sizes = rule.prio3.circuit.field, rule.query.sizes
    sums = prime.decode(server.base64.b64decode(fields["sums"]))
    *coarser, finest = np.split(sums, np.cumsum(sizes)[:-1])
    words = np.frombuffer(prime.encode(finest), np.uint8)
    expected = len(words) / 256
    assert (
        chi2.sf(((np.bincount(words, minlength=256) - expected) ** 2 / expected).sum(), 255) > 1e-6
    )
    squares = []
    for level in coarser:  # the last cell of each level has the missing places
        sides = finest[:-1].reshape(len(level) - 1, -1)
        apart = np.append(level[:-1] - sides.sum(axis=1), level[-1] - finest[-1]) % prime.modulus
        apart = np.where(apart > prime.modulus // 2, apart - prime.modulus, apart).astype(float)
        summed = np.append(np.full(len(sides), sides.shape[1]), 1)  # noises, beside its own
        squares += [*(apart**2 / (1 + summed) / rule.stddev**2)]
    assert 0 < max(squares) < 8**2  # deviations of single cells


def test_a_liar_moves_any_count_by_any_amount_and_nobodys_privacy(tmp_path, monkeypatch):
    rule, data = encoder(), table(250)
    leader, helper = servers(tmp_path, rule, data)
    mine = rule.encode({"region": "r1", "age": 1, "sick": False})
    words = np.frombuffer(mine[0][49:], "<u8").copy()
    words[7] -= np.uint64(10**15)
    leader.accept(mine[0][:49] + words.astype("<u8").tobytes())
    helper.accept(mine[1])
    silent(monkeypatch)
    ids = leader.ids()
    found = open_sums(leader.release(ids), helper.release(ids))
    honest = whole(rule, data)
    assert found.sums[7] < honest[7] - 10**14
    assert found.guarantee.epsilon == rule.guarantee(250).epsilon


def test_fewer_than_the_promises_people_are_not_opened(tmp_path):
    leader, _ = servers(tmp_path, encoder(), table(250))
    with pytest.raises(PrivotError, match="199 reports are fewer than the promise.s 200"):
        leader.release(sorted(leader.ids())[:199])
    twice = sorted(leader.ids())[:150] * 2
    with pytest.raises(PrivotError, match="150 reports are fewer"):
        leader.release(twice)
    assert len(leader.ids()) == 250
    assert not [*leader.folder.glob("sum-*")]


def test_no_report_is_opened_twice(tmp_path):
    leader, _ = servers(tmp_path, encoder(), table(450))
    ids = sorted(leader.ids())
    first = leader.release(ids[:220]).read_bytes()
    assert leader.ids() == {*ids[220:]}
    with pytest.raises(PrivotError, match="was opened, which is done once"):
        leader.release(ids[219:])
    assert len(leader.ids()) == 230
    assert leader.release(ids[:220]).read_bytes() == first
    second = leader.release(ids[220:])
    assert second.read_bytes() != first
    assert leader._ledger.spent == 450


def test_shares_of_a_batch_are_gone(tmp_path):
    leader, _ = servers(tmp_path, encoder(), table(250))
    content = (leader.folder / "shares.sqlite").read_bytes()
    with leader._open() as database:
        (body,) = database.execute("SELECT body FROM shares").fetchone()
    assert body[:64] in content
    leader.release(leader.ids())
    assert body[:64] not in (leader.folder / "shares.sqlite").read_bytes()
    assert not (leader.folder / "shares.sqlite-journal").exists()


def test_the_same_bytes_count_once_and_others_under_their_id_are_refused(tmp_path):
    rule = encoder()
    leader, helper = (Server.create(tmp_path / r, rule, r) for r in ("leader", "helper"))
    first, second = (rule.encode({"region": "r1", "age": 1, "sick": False}) for _ in range(2))
    assert leader.accept(first[0]) == 1
    assert leader.accept(first[0]) == 0
    forged = first[0][:49] + second[0][49:]
    with pytest.raises(PrivotError, match="is here with other bytes"):
        leader.accept(second[0], forged)
    assert leader.ids() == {first[0][33:49]}  # all or none
    assert helper.accept(first[1], first[1]) == 1


def test_shares_for_others_are_refused(tmp_path):
    rule, other = encoder(), encoder(201)
    leader = Server.create(tmp_path / "leader", rule, "leader")
    record = {"region": "r1", "age": 1, "sick": False}
    for share, match in (
        (rule.encode(record)[1], "not for the leader"),
        (other.encode(record)[0], "of another encoder"),
        (rule.encode(record)[0][:-1], r"bytes, not .* send it again"),
        (rule.encode(record)[0] + b"0", r"bytes, not .* send it again"),
        (b"", "not for the leader"),
    ):
        with pytest.raises(PrivotError, match=match):
            leader.accept(share)
    assert not leader.ids()


def test_a_report_is_not_taken_again_after_its_batch(tmp_path):
    rule = encoder()
    leader = Server.create(tmp_path / "leader", rule, "leader")
    shares = [mine for mine, _ in rule.encode_table(table(200))]
    leader.accept(*shares)
    leader.release(leader.ids())
    with pytest.raises(PrivotError, match="was opened already"):
        leader.accept(shares[0])


def test_reports_that_are_not_here_are_refused(tmp_path):
    leader, helper = servers(tmp_path, encoder(), table(200))
    late, _ = encoder().encode({"region": "r1", "age": 1, "sick": False})
    leader.accept(late)
    with pytest.raises(PrivotError, match=r"is not here.*ids that both servers hold"):
        helper.release(leader.ids())
    assert len(helper.ids()) == 200


def killed(folder, at, ids):
    """Release in a process that dies where a function is called."""
    each = Server(folder)

    def die(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    if at == "counting":
        each._ledger.spend = die
    else:
        setattr(server, at, die)
    each.release(ids)


@pytest.mark.parametrize("at", ["sample_rounded_gaussian", "sealed", "counting", "replacing_file"])
def test_a_kill_loses_nothing_and_no_second_noise_is_drawn(tmp_path, at):
    rule, data = encoder(), table(200)
    leader, helper = servers(tmp_path, rule, data)
    ids = leader.ids()
    process = get_context("fork").Process(target=killed, args=(leader.folder, at, ids))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not [*leader.folder.glob("sum-*")]
    with leader._open() as database:
        stored = [text for (text,) in database.execute("SELECT text FROM releases")]
    assert len(stored) == (at in ("counting", "replacing_file"))
    again = Server(leader.folder)
    published = again.release(ids).read_text()
    assert not stored or stored == [published]
    assert again._ledger.spent == 200
    found = open_sums(again.release(ids), helper.release(ids))
    assert min(spread(found.sums, whole(rule, data), found.stddev)) > 1e-5


def test_a_folder_that_was_restored_is_refused(tmp_path):
    leader, _ = servers(tmp_path, encoder(), table(250))
    shutil.copytree(leader.folder, tmp_path / "copy")
    ids = leader.ids()
    leader.release(ids)
    with pytest.raises(PrivotError, match="rolled back or copied"):
        Server(tmp_path / "copy")
    # The database alone, beside the ledger as it is.
    shutil.copy(tmp_path / "copy" / "shares.sqlite", leader.folder / "shares.sqlite")
    for file in leader.folder.glob("sum-*"):
        file.unlink()
    refused = "counted 250 reports, and 0 are opened"
    with pytest.raises(PrivotError, match=refused):
        Server(leader.folder)  # which would acknowledge shares that are never opened
    for batch in (ids, sorted(ids)[:220]):  # a server that runs meanwhile
        with pytest.raises(PrivotError, match=refused):
            leader.release(batch)
    assert len(leader.ids()) == 250
    assert not [*leader.folder.glob("sum-*")]


def test_an_older_folder_after_no_batch_lacks_what_came_since(tmp_path):
    """What the page says is lost: the ledger counts reports when they are opened, not when they come."""
    leader, _ = servers(tmp_path, rule := encoder(), table(250))
    shutil.copytree(leader.folder, tmp_path / "copy")
    assert leader.accept(*(share for share, _ in rule.encode_table(table(5)))) == 5
    older = Server(tmp_path / "copy")
    assert len(older.ids()) == 250
    older.release(older.ids())
    with pytest.raises(PrivotError, match="rolled back or copied"):
        leader.release(leader.ids())  # so none of the 250 is opened twice


def test_an_older_copy_that_is_adopted_opens_a_batch_again(tmp_path, monkeypatch):
    """What the page says is not detected; what is printed says when a copy may be adopted."""
    leader, _ = servers(tmp_path, encoder(), table(250))
    shutil.copytree(leader.folder, tmp_path / "copy")
    first = leader.release(leader.ids()).read_text()
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path / "another account"))
    with pytest.raises(PrivotError, match="if the original was not used since it was copied"):
        Server(tmp_path / "copy")
    adopt(tmp_path / "copy" / "ledger.json")
    again = Server(tmp_path / "copy")
    assert again.release(again.ids()).read_text() != first


def test_a_server_opens_no_other_batch_than_the_sums_that_it_is_given(tmp_path):
    """A list from before late shares came: both would be opened, and neither could be read."""
    leader, helper = servers(tmp_path, encoder(), table(250))
    lists = [tmp_path / "older", tmp_path / "newer"]
    for path, ids in zip(lists, (sorted(leader.ids())[1:], leader.ids()), strict=True):
        path.write_text("".join(f"{each.hex()}\n" for each in ids))
    older, newer = lists
    sums = tmp_path / "leader.json"
    aggregate(leader.folder, None, None, None, [newer, newer], sums, None, None, False)

    def released(*files):
        output = tmp_path / "helper.json"
        aggregate(helper.folder, None, None, None, [*files], output, None, None, False)
        return output

    for files, words in (
        ((older, newer, sums), "sums of other reports"),
        ((sums,), "cannot be read"),
    ):
        with pytest.raises(PrivotError, match=words):
            released(*files)
        assert len(helper.ids()) == 250
    assert len(open_sums(sums, released(newer, newer, sums))) == 250


def test_folders_of_others_are_refused(tmp_path):
    rule = encoder()
    Server.create(tmp_path / "leader", rule, "leader")
    with pytest.raises(PrivotError, match="exists, and a server's folder is not replaced"):
        Server.create(tmp_path / "leader", rule, "leader")
    with pytest.raises(PrivotError, match="role is 'judge'"):
        Server.create(tmp_path / "judge", rule, "judge")
    with pytest.raises(PrivotError, match="is no server's folder"):
        Server(tmp_path / "none")
    (tmp_path / "leader" / "shares.sqlite").write_bytes(b"no database, whatever it is" * 99)
    with pytest.raises(PrivotError, match="cannot be used"):
        Server(tmp_path / "leader")


def test_a_folder_is_its_owners_alone(tmp_path):
    leader = Server.create(tmp_path / "leader", encoder(), "leader")
    assert leader.folder.stat().st_mode & 0o077 == 0
    assert (leader.folder / "shares.sqlite").stat().st_mode & 0o077 == 0


def test_what_is_published_names_no_report(tmp_path):
    leader, _ = servers(tmp_path, encoder(), table(200))
    ids = leader.ids()
    text = leader.release(ids).read_text()
    assert not [each for each in ids if each.hex() in text]
    fields = json.loads(text.splitlines()[0])
    assert sorted(fields) == ["batch", "encoder", "reports", "role", "sums"]


@pytest.mark.parametrize("kind", ["table", "place"])
def test_verified_sums_without_noise_are_exact(tmp_path, monkeypatch, kind):
    rule, data = proving(kind), few(70, kind)
    leader, helper = provers(tmp_path, rule, data)
    assert leader.ids() == helper.ids() == frozenset()
    files = [each.prepare() for each in (leader, helper)]
    assert [leader.verify(files[1]), helper.verify(files[0])] == [70, 70]
    silent(monkeypatch)
    ids = leader.ids() & helper.ids()
    found = open_sums(leader.release(ids), helper.release(ids))
    assert (found.sums == whole(rule, data)).all()
    assert leader.ids() == helper.ids() == frozenset()
    assert leader.prepare().read_bytes() == rule.head("leader")


@pytest.mark.parametrize("kind", ["table", "place"])
def test_noise_of_both_servers_is_added_to_verified_sums(tmp_path, kind):
    rule, data = proving(kind), few(70, kind)
    leader, helper = provers(tmp_path, rule, data)
    files = [each.prepare() for each in (leader, helper)]
    leader.verify(files[1])
    helper.verify(files[0])
    ids, exact = leader.ids(), whole(rule, data)
    found = open_sums(leader.release(ids), helper.release(ids))
    square = (((found.sums - exact) / found.stddev) ** 2).sum()
    assert 5e-7 < chi2.cdf(square, len(exact)) < 1 - 5e-7  # false alarm 1e-6


def lying_shares(rule):
    """Shares of ten records at once, with the best proof that a client can make of them."""
    record = next(rule.contributions(few(1)))[0].view(np.int64)
    measurement = 10 * rule.prio3.circuit.measurement_of(record)
    report_id = os.urandom(16)
    public, inputs = rule.prio3.shard(measurement, report_id)
    return [
        rule.head(role) + report_id + public + mine
        for role, mine in zip(("leader", "helper"), inputs)
    ]


def test_a_liar_is_left_out(tmp_path, monkeypatch):
    rule, data = proving(), few(70)
    leader, helper = provers(tmp_path, rule, data)
    lie = lying_shares(rule)
    assert leader.accept(lie[0]) == helper.accept(lie[1]) == 1
    garbage = rule.head("leader") + bytes(16) + b"\xff" * (rule.share_length("leader") - 49)
    assert leader.accept(garbage) == 1
    files = [each.prepare() for each in (leader, helper)]
    assert [leader.verify(files[1]), helper.verify(files[0])] == [70, 70]
    with pytest.raises(PrivotError, match="is not verified"):
        leader.release(leader.ids() | {lie[0][33:49]})
    silent(monkeypatch)
    ids = leader.ids()
    found = open_sums(leader.release(ids), helper.release(ids))
    assert (found.sums == whole(rule, data)).all()


def test_proofs_of_others_are_refused(tmp_path, monkeypatch):
    rule = proving()
    leader, helper = provers(tmp_path, rule, few(60))
    with pytest.raises(PrivotError, match="does not hold proofs of the helper"):
        leader.verify(leader.prepare())
    short = tmp_path / "short.bin"
    short.write_bytes(helper.prepare().read_bytes()[:-1])
    with pytest.raises(PrivotError, match="does not hold proofs of the helper"):
        leader.verify(short)
    part = tmp_path / "part.bin"
    sent = bytearray(helper.prepare().read_bytes())
    sent[-1] ^= 1
    part.write_bytes(sent)
    assert leader.verify(part) == 59
    with monkeypatch.context() as patch:
        patch.setenv("PRIVOT_STATE_DIR", str(tmp_path / "another account"))
        other = Server.create(tmp_path / "other", rule, "helper", bytes(16))
    other.accept(*(rule.head("helper") + body for body in bodies(helper)))
    assert leader.verify(other.prepare()) == 59  # no report more
    assert leader.verify(helper.prepare()) == 60


def bodies(each):
    with each._open() as database:
        return [a + b for a, b in database.execute("SELECT id, body FROM shares")]


def test_a_key_is_for_shares_with_proofs(tmp_path):
    for rule, key in ((encoder(), bytes(16)), (proving(), None), (proving(), bytes(15))):
        with pytest.raises(PrivotError, match="verify_key must be 16 random bytes"):
            Server.create(tmp_path / "leader", rule, "leader", key)
    plain = Server.create(tmp_path / "leader", encoder(), "leader")
    with pytest.raises(PrivotError, match="have no proofs"):
        plain.prepare()
    with pytest.raises(PrivotError, match="have no proofs"):
        plain.verify(tmp_path / "proofs.bin")
