"""Shares over HTTP: what is refused, what may come again, and what survives kills under load."""

import random

import numpy as np
import pytest

from aggregated.people import FEW, VERIFY_KEY, few, proving, schema, whole
from aggregated.test_server import silent
from collector.test_app import calls
from collector_process import ShareSender, post_shares, serving, wait_for_acknowledged
from privot.aggregated import Encoder, Server, open_sums
from privot.aggregated.app import ServedShares, ShareCollector
from privot.collector.admission import tokens

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

RULE = Encoder.calibrate(schema(50, 4.0, FEW))
KIND = {"content-type": "application/octet-stream"}
HEAD = len(RULE.head("leader"))


def ids_of(shares):
    return {share[HEAD : HEAD + 16] for share in shares}


@pytest.fixture
def served(tmp_path):
    """A function that serves one more server, and the lines that all of them log."""
    made, lines = [], []

    def serve(role, rule=RULE, key=None, **options):
        Server.create(tmp_path / role, rule, role, key)
        made.append(ShareCollector(ServedShares(tmp_path / role, lines.append), **options))
        return made[-1]

    yield serve, lines
    for collector in made:
        collector.served[0].writer.close()


def post(collector, body, headers=KIND):
    return calls(collector, ("POST", "/shares", {"content": body, "headers": headers}))[0]


def pairs(count, seed=0):
    return [*RULE.encode_table(few(count, seed=seed))]


def reasons(answer):
    return [(each["index"], each["reason"]) for each in answer.json()["failed"]]


def test_shares_are_stored_once_however_often_they_come(served, tmp_path):
    collector = served[0]("leader")
    mine = [leader for leader, _ in pairs(20)]
    first = post(collector, mine[0])
    assert (first.status_code, first.json()) == (
        200,
        {"accepted": 1, "duplicates": 0, "failed": []},
    )
    again = post(collector, b"".join(mine))
    assert (again.status_code, again.json()["accepted"], again.json()["duplicates"]) == (200, 19, 1)
    twice = post(collector, mine[3] * 2).json()
    assert (twice["accepted"], twice["duplicates"]) == (0, 2)
    assert Server(tmp_path / "leader").ids() == ids_of(mine)


def test_other_bytes_under_an_id_are_refused_and_what_is_beside_them_is_stored(served, tmp_path):
    collector = served[0]("leader")
    mine = [leader for leader, _ in pairs(3)]
    assert post(collector, mine[0]).status_code == 200
    changed = mine[0][:-1] + bytes([mine[0][-1] ^ 1])
    alone = post(collector, changed)
    assert (alone.status_code, reasons(alone)) == (409, [(0, "other")])
    mixed = post(collector, mine[1] + changed + mine[2])
    assert (mixed.status_code, reasons(mixed), mixed.json()["accepted"]) == (409, [(1, "other")], 2)
    assert post(collector, mine[0]).json()["duplicates"] == 1
    assert Server(tmp_path / "leader").ids() == ids_of(mine)


def test_a_report_that_was_opened_is_not_stored_again(served, tmp_path):
    collector = served[0]("leader")
    mine = [leader for leader, _ in pairs(60)]
    assert post(collector, b"".join(mine)).status_code == 200
    Server(tmp_path / "leader").release(ids_of(mine[:50]))
    again = post(collector, mine[0] + mine[59])
    assert (again.status_code, reasons(again)) == (409, [(0, "opened")])
    assert again.json()["duplicates"] == 1
    assert len(Server(tmp_path / "leader").ids()) == 10


def test_what_cannot_be_a_share_of_this_server_is_one_line(served, tmp_path):
    serve, lines = served
    collector = serve("leader")
    ((mine, theirs),) = pairs(1)
    (other,) = Encoder.calibrate(schema(51, 4.0, FEW)).encode_table(few(1))
    for body, headers, status, reason in (
        (b"", KIND, 400, "length"),
        (mine[:-1], KIND, 400, "length"),
        (mine + b"\0", KIND, 400, "length"),
        (theirs, KIND, 400, "length"),
        (b"\0" + mine[1:], KIND, 400, "fingerprint"),
        (mine[: HEAD - 1] + b"\1" + mine[HEAD:], KIND, 400, "fingerprint"),
        (mine + other[0], KIND, 400, "fingerprint"),
        (mine * 1001, KIND, 413, "many"),
        (b"\0" * (2**23 + 1), KIND, 413, "large"),
        (mine, {"content-type": "text/plain"}, 415, "type"),
        (mine, {"content-type": "application/json"}, 415, "type"),
        (mine, KIND | {"content-encoding": "gzip"}, 415, "type"),
    ):
        answer = post(collector, body, headers)
        assert (answer.status_code, answer.json()["error"]["reason"]) == (status, reason)
        assert "\n" not in answer.json()["error"]["message"]
        assert mine[HEAD : HEAD + 16].hex() not in answer.text
    assert not Server(tmp_path / "leader").ids()
    assert not lines


def test_only_senders_with_a_token_and_pages_of_an_origin_are_answered(served, tmp_path):
    (tmp_path / "tokens").write_text("0123456789abcdef\n")
    origins = ["https://a.org"]
    collector = served[0]("leader", admit=tokens(tmp_path / "tokens"), origins=origins)
    ((mine, _),) = pairs(1)
    assert post(collector, mine).status_code == 401
    allowed = KIND | {"authorization": "Bearer 0123456789abcdef"}
    for origin in (*origins, "https://b.org"):
        answer = post(collector, mine, allowed | {"origin": origin})
        assert answer.status_code == 200
        assert (answer.headers.get("access-control-allow-origin") == origin) == (origin in origins)


def test_the_encoder_is_given_and_other_paths_are_refused(served):
    collector = served[0]("helper")
    ((_, mine),) = pairs(1)
    assert post(collector, mine).status_code == 200
    given, health, metrics, nothing, other = calls(
        collector,
        ("GET", "/encoder.json", {}),
        ("GET", "/healthz", {}),
        ("GET", "/metrics", {}),
        ("POST", "/v1/shares", {}),
        ("GET", "/shares", {}),
    )
    assert Encoder.from_json(given.text) == RULE
    assert health.status_code == 200
    assert f'privot_stored_reports{{campaign="{RULE.fingerprint[:16]}"}} 1\n' in metrics.text
    assert nothing.json()["error"]["message"] == "there is nothing here: post to /shares"
    assert (nothing.status_code, other.status_code) == (404, 405)


def test_a_database_that_fails_is_logged_without_what_was_sent(served, tmp_path):
    serve, lines = served
    collector = serve("leader")
    ((mine, _),) = pairs(1)
    (tmp_path / "leader" / "shares.sqlite").write_bytes(b"no database" * 1000)
    answer = post(collector, mine)
    assert (answer.status_code, answer.json()["error"]["reason"]) == (503, "stopped")
    assert "leader" not in answer.text
    (line,) = lines
    assert "cannot be used" in line
    assert mine[HEAD : HEAD + 16].hex() not in line


def test_shares_with_proofs_are_verified_and_wrong_ones_stay_unopened(served, tmp_path):
    rule = proving()
    both = [served[0](role, rule, VERIFY_KEY) for role in ("leader", "helper")]
    shares = [*rule.encode_table(few(20))]
    wrong = bytearray(shares[0][0])
    wrong[-1] ^= 1
    bodies = (bytes(wrong) + b"".join(s[0] for s in shares[1:]), b"".join(s[1] for s in shares))
    for collector, body in zip(both, bodies, strict=True):
        assert post(collector, body).json()["accepted"] == 20
    leader, helper = (Server(tmp_path / role) for role in ("leader", "helper"))
    for server, other in ((leader, helper), (helper, leader)):
        assert server.verify(other.prepare()) == 19
    assert leader.ids() == helper.ids() == ids_of([first for first, _ in shares[1:]])


def exact(records, ids):
    """The sums of the records with these ids."""
    chosen = [records[each] for each in ids]
    return whole(RULE, {name: np.array([each[name] for each in chosen]) for name in FEW})


@pytest.mark.parametrize(
    ("times", "each"), [(3, 600), pytest.param(50, 1500, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(1800)
def test_kills_under_load_lose_nothing_and_open_nothing_twice(tmp_path, monkeypatch, times, each):
    """The leader is killed while devices send and a batch is released; sums without noise are exact."""
    silent(monkeypatch)
    helper = Server.create(tmp_path / "helper", RULE, "helper")
    rng, records, sent, acknowledged, opened = random.Random(times), {}, [], [], set()

    def release():
        leader = Server(tmp_path / "store")
        if len(batch := leader.ids()) >= 50:
            found = open_sums(leader.release(batch), helper.release(batch))
            assert (found.sums == exact(records, batch)).all()
            assert not opened & batch
            opened.update(batch)

    def start():
        return serving(tmp_path, "--role", "leader", text=RULE.to_json())

    for seed in range(times):
        table = few(2 * each, seed=seed)
        made = [*RULE.encode_table(table)]
        helper.accept(*(theirs for _, theirs in made))
        for row, (mine, _) in enumerate(made):
            (name,) = ids_of([mine])
            records[name] = {column: table[column][row] for column in FEW}
        fresh = [mine for mine, _ in made] + rng.sample(sent, min(len(sent), 100))
        rng.shuffle(fresh)
        groups = [[fresh[at : at + 7] for at in range(half, len(fresh), 14)] for half in (0, 7)]
        with start() as server:
            senders = [ShareSender(server, own) for own in groups]
            for sender in senders:
                sender.start()
            wait_for_acknowledged(senders, rng.randrange(60, each))
            release()  # while the leader accepts
            wait_for_acknowledged(senders, rng.randrange(each, 2 * each))
            server.kill()
            for sender in senders:
                sender.join()
                sent += sender.sent
                acknowledged += sender.acknowledged
                assert set(sender.statuses) <= {200, 409}
    assert opened
    with start() as server:
        connection, found = server.connection(), []
        for at in range(0, len(acknowledged), 500):
            _, told = post_shares(connection, group := acknowledged[at : at + 500])
            assert told["accepted"] == 0, "an acknowledged share was lost"
            assert {failed["reason"] for failed in told["failed"]} <= {"opened"}
            found += [group[failed["index"]] for failed in told["failed"]]
        assert ids_of(found) == ids_of(acknowledged) & opened
        assert server.stop() == 0
        said = server.said()
    release()
    assert ids_of(acknowledged) <= opened | Server(tmp_path / "store").ids() <= ids_of(sent)
    assert "127.0.0.1" not in said
    assert not any(name.hex() in said for name in records)
