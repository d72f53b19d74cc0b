"""`privot serve` in a process of its own, and a client that knows what was acknowledged."""

import http.client
import json
import signal
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from urllib.parse import urlsplit

from campaign_reports import BATCH, CAMPAIGN, TEXT
from forked_commands import start
from privot.collector import app
from privot.device import write_batch


class Serving:
    """A server that was started.

    Arguments:
        process: Its process.
        port: Where it listens.
        log: File of what it says.
    """

    def __init__(self, process, port, log):
        self.process, self.port, self.log = process, port, log
        self._connections = ExitStack()

    def connection(self):
        """A connection, closed at the end if it is still there."""
        made = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        return self._connections.enter_context(closing(made))

    def close(self):
        self._connections.close()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def said(self):
        return self.log.read_text()


def _be_impatient(seconds):
    app._HEAD_SECONDS = seconds


@contextmanager
def serving(folder, *options, store=None, head_seconds=None, text=TEXT):
    """A server of a campaign, killed at the end if it is still there.

    It waits for the head of a request as long as all do, or as long as `head_seconds` says.
    """
    (folder / "randomizer.json").write_text(text)
    log = folder / "log"
    log.touch()
    given = ["serve", "randomizer.json", "--port", "0", "--store", store or folder / "store"]
    before = None if head_seconds is None else partial(_be_impatient, head_seconds)
    process = start(folder, *given, *options, err=log, before=before)
    try:
        line = process.stdout.readline()
        assert line, (process.wait(), log.read_text())
        with closing(Serving(process, urlsplit(line.decode().strip()).port, log)) as server:
            yield server
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


def wait_for_acknowledged(senders, number):
    """Until this many reports are, however slow the machine is; or the senders have ended."""
    while sum(len(each.acknowledged) for each in senders) < number:
        if not any(each.is_alive() for each in senders):
            break
        time.sleep(0.002)


def post(connection, reports, fingerprint=CAMPAIGN.fingerprint):
    """The status, and what was told."""
    path = f"/v1/campaigns/{fingerprint}/reports"
    connection.request("POST", path, write_batch(reports), BATCH)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def post_shares(connection, shares):
    """The status, and what was told, of shares for one of two servers."""
    kind = {"content-type": "application/octet-stream"}
    connection.request("POST", "/shares", b"".join(shares), kind)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


class Sender(threading.Thread):
    """Sends reports, group after group, until somebody stops answering."""

    def __init__(self, server, groups, fingerprint=CAMPAIGN.fingerprint):
        super().__init__()
        self.server, self.groups, self.fingerprint = server, groups, fingerprint
        self.acknowledged, self.sent, self.statuses = [], [], []

    def post(self, connection, group):
        return post(connection, group, self.fingerprint)

    def run(self):
        connection = self.server.connection()
        try:
            for group in self.groups:
                self.sent += group
                status, told = self.post(connection, group)
                self.statuses.append(status)
                if status in (200, 409):
                    failed = {each["index"] for each in told["failed"]}
                    self.acknowledged += [r for i, r in enumerate(group) if i not in failed]
                elif status == 503:
                    return
        except (OSError, http.client.HTTPException):
            return
        finally:
            connection.close()


class ShareSender(Sender):
    """Sends shares for one of two servers."""

    def post(self, connection, group):
        return post_shares(connection, group)
