"""The whole way: a page in a real browser, the real collector, the dashboard, and a model."""

import http.server
import signal
import threading
from contextlib import contextmanager
from functools import partial

import pytest

from campaign.browser import CHROMIUM
from campaign.test_campaign import TABLE, answer, made
from commands import privot
from forked_commands import start
from privot import Release
from privot.campaign import CampaignFolder

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Server of pages, without log lines about requests."""

    def log_message(self, *_):
        pass


@contextmanager
def pages(folder):
    """A folder at an address."""
    handler = partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def collector(campaign, origin, port):
    """`privot serve` of a campaign in a process of its own, until it gets a signal."""
    more = ["--origin", origin, "--port", str(port), "--seal-every", "0"]
    given = ("serve", "randomizer.json", "--store", "store", *more)
    process = start(campaign.folder, *given)
    try:
        assert process.stdout.readline().startswith(b"http://"), "the collector did not start"
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.stdout.close()


def free_port():
    """A port that nobody listens on now."""
    with http.server.HTTPServer(("127.0.0.1", 0), Quiet) as server:
        return server.server_port


def test_answers_become_a_model_and_leave_the_browser_as_one_report(chromium, tmp_path):
    port = free_port()
    campaign = made(tmp_path, TABLE, collector=f"http://127.0.0.1:{port}")
    with pages(campaign.web) as url:
        with chromium.new_profile() as page:
            page.open(url + "/index.html")
            answer(page)
            page.run("document.getElementById('send').click()")  # nobody is there yet: it waits
            with collector(campaign, url, port):
                page.wait(
                    "!document.getElementById('done').hidden || "
                    "!document.getElementById('send').disabled && "
                    "(document.getElementById('send').click(), false)"
                )
        store = campaign.folder / "store" / campaign.randomizer.fingerprint / "release"
        assert len(Release.load(store)) == 1
        done = privot(tmp_path, "campaign", "status", "campaign")
        assert done.stdout.startswith("1 reports"), done.stderr
        with chromium.new_profile() as page:
            page.open(url + "/dashboard.html")
            page.wait("document.querySelectorAll('svg').length === 3")
    fitted = privot(tmp_path, "fit", store, "-o", "model")
    assert "learned from 1 reports" in fitted.stdout
    assert (
        CampaignFolder.load(campaign.folder).randomizer.fingerprint
        == campaign.randomizer.fingerprint
    )
