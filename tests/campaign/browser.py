"""A real browser, headless, driven over Chromium's own protocol through a pipe."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
_WAIT = 30.0


class Browser:
    """One page of a Chromium of its own, with an empty profile.

    Arguments:
        profile: An empty folder, where it keeps what a page stores.

    Attributes:
        events: Events of the browser, oldest first; `act("Network.enable")` and the like
            enable more of them.
    """

    def __init__(self, profile: Path) -> None:
        to_it, own_end = os.pipe()
        back_end, from_it = os.pipe()
        os.set_inheritable(to_it, True)
        os.set_inheritable(from_it, True)
        options = "--headless --no-sandbox --disable-gpu --remote-debugging-pipe"
        # Chromium reads descriptor 3 and writes 4.
        ends = f"exec 3<&{to_it} 4>&{from_it}"
        command = f"{ends}; exec {CHROMIUM} {options} --user-data-dir={profile}"
        self._process = subprocess.Popen(
            ["bash", "-c", command],
            pass_fds=(to_it, from_it),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_it)
        os.close(from_it)
        self._out, self._in = os.fdopen(own_end, "wb"), os.fdopen(back_end, "rb")
        self._number, self._session, self._rest = 0, None, b""
        self.events: list[dict] = []
        self._show_page()

    def _show_page(self, **profile: str) -> None:
        self._session = None
        target = self.act("Target.createTarget", url="about:blank", **profile)["targetId"]
        attached = self.act("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.act("Page.enable")

    @contextmanager
    def new_profile(self) -> Iterator[Browser]:
        """This browser with a page of another, empty profile, as if it had just been started."""
        first, self._session = self._session, None
        profile = self.act("Target.createBrowserContext")
        self._show_page(**profile)
        try:
            yield self
        finally:
            self._session = None
            self.act("Target.disposeBrowserContext", **profile)
            self._session, self.events = first, []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, AssertionError):
            self._session = None
            self.act("Browser.close")
        self._process.wait()
        self._out.close()
        self._in.close()

    def open(self, url: str, width: int = 760, height: int = 900) -> None:
        """Go to a page, in a window of this size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1.5, "mobile": False}
        self.act("Emulation.setDeviceMetricsOverride", **size)
        self.act("Page.navigate", url=url)

    def run(self, script: str) -> object:
        """The value of an expression on the page; promises are awaited."""
        answer = self.act(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait(self, script: str) -> None:
        """Until an expression counts as true."""
        end = time.monotonic() + _WAIT
        while not self.run(f"Boolean({script})"):
            if time.monotonic() > end:
                page = self.run("document.body ? document.body.innerText : ''")
                raise AssertionError(f"never true: {script}; the page says: {page}")
            time.sleep(0.05)

    def screenshot(self, path: Path) -> None:
        """The whole page as PNG."""
        answer = self.act("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def act(self, method: str, **parameters: object) -> dict:
        """A command of the protocol, and its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while True:
            answer = json.loads(self._read())
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(answer["error"])
                return answer["result"]
            self.events.append(answer)

    def _read(self) -> bytes:
        while b"\0" not in self._rest:
            more = os.read(self._in.fileno(), 65_536)
            assert more, "the browser ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return message
