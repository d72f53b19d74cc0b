"""The process: killed under load again and again, stopped in order, and bounded against the slow."""

import http.client
import random
import socket
import threading
import time
from contextlib import ExitStack

import pytest

from campaign_reports import CAMPAIGN, RANDOMIZER, changed, ids_of, made, rows
from collector_process import Sender, post, serving, wait_for_acknowledged
from privot import Release
from privot.collector.app import listen
from privot.collector.collecting import collect
from privot.collector.folder import FolderStore
from privot.collector.postgres import PostgresStore
from privot.collector.sealing import FolderStorage, seal
from privot.collector.store import DUPLICATE
from privot.core.errors import PrivotError


def groups_of(rng, reports):
    """Batches of many sizes."""
    at, found = 0, []
    while at < len(reports):
        size = rng.choice([1, 3, 30, 100])
        found.append(reports[at : at + size])
        at += size
    return found


def kill_under_load(folder, times, each):
    """Everything that three senders of `each` reports sent, and everything that was acknowledged."""
    rng, sent, acknowledged = random.Random(times), [], []
    for _ in range(times):
        with serving(folder) as server:
            # Also what was sent before, acknowledged or not, as devices do.
            again = rng.sample(sent, min(len(sent), 300))
            senders = [Sender(server, groups_of(rng, made(each) + again)) for _ in range(3)]
            for sender in senders:
                sender.start()
            wait_for_acknowledged(senders, rng.randrange(1, each))
            time.sleep(rng.uniform(0, 0.02))
            server.kill()
            for sender in senders:
                sender.join()
                sent += sender.sent
                acknowledged += sender.acknowledged
                assert set(sender.statuses) <= {200}
    assert acknowledged
    return sent, acknowledged


def require_all_once(store, sent, acknowledged, folder):
    known = store.append(*rows([*dict.fromkeys(acknowledged)]))
    assert (known == DUPLICATE).all(), "an acknowledged report was lost"
    seal(store, CAMPAIGN, FolderStorage(folder / "release"))
    held = Release.open(folder / "release").table.column("report_id").to_pylist()
    assert len(held) == len(set(held)) == store.count, "a report is there twice"
    assert ids_of(acknowledged) <= set(held) <= ids_of(sent)
    store.close()


@pytest.mark.parametrize(
    ("times", "each"), [(3, 800), pytest.param(100, 3000, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(1800)
def test_kills_under_load_lose_nothing_and_double_nothing(tmp_path, times, each):
    sent, acknowledged = kill_under_load(tmp_path, times, each)
    store = FolderStore(tmp_path / "store" / CAMPAIGN.fingerprint, CAMPAIGN.format)
    require_all_once(store, sent, acknowledged, tmp_path)


class Roaming(Sender):
    """Sends every group until a server acknowledges it: after a failure to another one."""

    def __init__(self, servers, groups):
        super().__init__(None, groups)
        self.servers = servers

    def run(self):
        turn = 0
        for group in self.groups:
            self.sent += group
            while True:
                turn += 1
                connection = self.servers[turn % 2].connection()
                try:
                    status, told = self.post(connection, group)
                except (OSError, http.client.HTTPException):
                    continue
                finally:
                    connection.close()
                self.statuses.append(status)
                assert not told["failed"]
                self.acknowledged += group
                break


@pytest.mark.parametrize("times", [2, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.timeout(1800)
def test_two_servers_of_one_campaign_lose_and_double_nothing_while_either_is_killed(
    tmp_path, database, times
):
    """Each is killed in turn under load, and its senders go on with the other one."""
    rng, stop = random.Random(times), threading.Event()
    (tmp_path / "sealed").mkdir()
    folders = [tmp_path / name for name in "ab"]

    def started(stack, number):
        folders[number].mkdir(exist_ok=True)
        options = ("--release", tmp_path / "sealed")
        return stack.enter_context(serving(folders[number], *options, store=database))

    def groups():
        while not stop.is_set():
            yield made(rng.choice([1, 3, 30, 100]))

    with ExitStack() as stack:
        servers = [started(stack, number) for number in range(2)]
        senders = [Roaming(servers, groups()) for _ in range(3)]
        for sender in senders:
            sender.start()
        for turn in range(times):
            wait_for_acknowledged(senders, 200 * (turn + 1))
            time.sleep(rng.uniform(0, 0.02))
            servers[turn % 2].kill()
            servers[turn % 2] = started(stack, turn % 2)
        stop.set()
        for sender in senders:
            sender.join()
    acknowledged = [r for sender in senders for r in sender.acknowledged]
    assert len(acknowledged) >= 200 * times
    require_all_once(PostgresStore(database, CAMPAIGN.format), acknowledged, acknowledged, tmp_path)


def test_an_orderly_end_under_load_seals_all_that_was_acknowledged(tmp_path):
    rng = random.Random(5)
    with serving(tmp_path) as server:
        senders = [Sender(server, groups_of(rng, made(5000))) for _ in range(3)]
        for sender in senders:
            sender.start()
        wait_for_acknowledged(senders, 500)
        assert server.stop() == 0
        for sender in senders:
            sender.join()
            assert set(sender.statuses) <= {200, 503}
    folder = tmp_path / "store" / CAMPAIGN.fingerprint / "release"
    held = set(Release.load(folder).table.column("report_id").to_pylist())
    acknowledged = [r for sender in senders for r in sender.acknowledged]
    assert acknowledged
    assert ids_of(acknowledged) <= held <= ids_of([r for s in senders for r in s.sent])
    assert "everything that was acknowledged is stored" in server.said()


def damaged(rng, report):
    """Cut short, or with a byte changed."""
    at = rng.randrange(len(report))
    changed_byte = bytes([report[at] ^ rng.randrange(1, 256)])
    return rng.choice([report[:at], report[:at] + changed_byte + report[at + 1 :]])


def test_resends_garbage_and_forged_ids_are_counted_exactly(tmp_path):
    """10 % come again, 5 % are garbage, 1 % have another's id: a set has the expected reports."""
    rng, people = random.Random(11), made(2000)
    garbage = {damaged(rng, report) for report in made(100)}
    liars = [changed(report) for report in rng.sample(people, 20)]
    sent = [*people, *rng.sample(people, 200), *liars, *garbage]
    rng.shuffle(sent)
    held, expected, found = set(), [], []
    with serving(tmp_path) as server:
        connection = server.connection()
        for start in range(0, len(sent), 100):
            group = sent[start : start + 100]
            new = copies = 0
            for report in group:
                if report in garbage:
                    continue
                new += report not in held
                copies += report in held
                held.add(report)
            expected.append((new, copies, {i for i, r in enumerate(group) if r in garbage}))
            _, answer = post(connection, group)
            failed = {each["index"] for each in answer["failed"]}
            found.append((answer["accepted"], answer["duplicates"], failed))
        server.stop()
    assert found == expected
    assert sum(new for new, *_ in found) == 2020
    release = Release.load(tmp_path / "store" / CAMPAIGN.fingerprint / "release")
    assert len(release) == 2020
    expected_table = collect(held, RANDOMIZER).release.table
    assert sorted(map(repr, release.table.to_pylist())) == sorted(
        map(repr, expected_table.to_pylist())
    )


def raw(port, *pieces, pause=0.0):
    """What is answered to bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(pause)
        held = b""
        try:
            while data := connection.recv(65536):
                held += data
        except (ConnectionError, TimeoutError):
            pass
        return held


def test_what_is_no_http_or_does_not_end_is_refused_and_not_logged(tmp_path):
    path = f"/v1/campaigns/{CAMPAIGN.fingerprint}/reports".encode()
    with serving(tmp_path, head_seconds=1.0) as server:
        assert raw(server.port, b"nothing of this kind\r\n\r\n").startswith(b"HTTP/1.1 400")
        long = b"GET /metrics HTTP/1.1\r\nhost: a\r\nx-secret: " + b"s" * 2**17
        assert b" 431 " in raw(server.port, long)[:20]
        vast = b"POST " + path + b" HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n"
        vast += b"content-type: application/json\r\n\r\n"
        answer = raw(server.port, vast)
        assert b" 413 " in answer[:20]
        assert b"send fewer reports" in answer
        assert b" 408 " in raw(server.port, b"GET /secret")[:20]
        again = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n"
        assert (
            raw(server.port, again + again.replace(b"host: a", b"connection: close")).count(
                b"200 OK"
            )
            == 2
        )
        assert post(server.connection(), made(5))[0] == 200
        assert server.stop() == 0
        said = server.said()
    assert "127.0.0.1" not in said
    assert "secret" not in said
    assert len(said.splitlines()) == 3


def test_a_port_that_is_taken_is_told():
    taken = listen("127.0.0.1", 0)
    taken.listen()
    with pytest.raises(PrivotError, match="give another"):
        listen("127.0.0.1", taken.getsockname()[1])
    taken.close()
