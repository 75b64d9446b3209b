"""Debian's chromium, headless, driven over a pipe with its own protocol: without a driver or a port."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
SECONDS = 60.0
SHOTS = os.environ.get("RAILBED_SHOTS")
"""Where to save screenshots for people to look at; they take too long to be made without anyone looking."""
WIDE, NARROW = 1100, 390
LOOKS = {"light": (WIDE, False), "dark": (WIDE, True), "narrow": (NARROW, False)}
"""Width and whether it is dark, by the name of a screenshot."""
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP foreign.example 127.0.0.1 , MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
)


@dataclass
class Browser:
    """One tab. What it asked for and what it complained of is kept."""

    write: int
    read: int
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    _session: str = ""
    _number: int = 0
    _rest: bytes = b""
    _loaded: bool = False

    def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol and return its answer."""
        self._number += 1
        number = self._number
        message: dict[str, object] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write, data) :]
        deadline = time.monotonic() + SECONDS
        while True:
            heard = self._hear(deadline)
            if heard.get("id") == number:
                assert "error" not in heard, heard
                result: dict[str, Any] = heard["result"]
                return result

    def start_tab(self) -> None:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def start_over(self) -> None:
        """Leave the page, in a wide and light window, and forget what it asked for, complained of and stored."""
        self.visit("about:blank")
        self.look(width=WIDE)
        self.ask("Network.clearBrowserCookies")
        self.requests.clear()
        self.complaints.clear()

    def open(self, path: Path) -> None:
        """Open a file from disk and wait until it is loaded."""
        self.visit(path.resolve().as_uri())

    def visit(self, url: str) -> None:
        """Open an address and wait until it is loaded."""
        self._loaded = False
        self.ask("Page.navigate", url=url)
        deadline = time.monotonic() + SECONDS
        while not self._loaded:
            self._hear(deadline)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; wait if it is a promise."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Return the value of an expression as soon as it is true."""
        deadline = time.monotonic() + SECONDS
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < deadline, f"never true: {expression}"
            time.sleep(0.05)
        return value

    def look(self, *, width: int, dark: bool = False) -> None:
        """Set the width of the window and the colours that the user prefers, and let the page settle."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        settled = "new Promise(done => setTimeout(() => requestAnimationFrame(done), 400))"
        self.evaluate(f"location.href === 'about:blank' || {settled}")

    def looks(self, name: str) -> Iterator[int]:
        """Yield the width of the page in light and dark mode and on a narrow screen; it never scrolls sideways."""
        for look, (width, dark) in LOOKS.items():
            self.look(width=width, dark=dark)
            assert self.evaluate("document.documentElement.scrollWidth") <= width, f"{look} scrolls sideways"
            yield width
            self.photograph(f"{name}-{look}")

    def photograph(self, name: str) -> None:
        """Save a screenshot if somebody wants to look at it."""
        if SHOTS:
            self.evaluate("new Promise(done => setTimeout(done, 800))")
            self.screenshot(Path(SHOTS) / f"{name}.png")

    def screenshot(self, path: Path) -> None:
        """Save the complete page as a picture."""
        answer = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def print(self, path: Path) -> None:
        """Save the page as a PDF, as on paper."""
        path.write_bytes(base64.b64decode(self.ask("Page.printToPDF", preferCSSPageSize=True)["data"]))

    def _hear(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self.read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "chromium does not answer"
            data = os.read(self.read, 1 << 20)
            assert data, "chromium ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        heard: dict[str, Any] = json.loads(line)
        self._note(heard)
        return heard

    def _note(self, heard: dict[str, Any]) -> None:
        match heard:
            case {"method": "Page.loadEventFired"}:
                self._loaded = True
            case {"method": "Network.requestWillBeSent", "params": {"request": {"url": str(url)}}}:
                self.requests.append(url)
            case {"method": "Runtime.exceptionThrown", "params": {"exceptionDetails": details}}:
                self.complaints.append(json.dumps(details)[:600])
            case {"method": "Log.entryAdded", "params": {"entry": entry}}:
                self.complaints.append(f"{entry.get('level')}: {entry.get('text')}")
            case {"method": "Runtime.consoleAPICalled", "params": {"type": "error" | "warning", "args": said}}:
                self.complaints.append(json.dumps(said)[:600])


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser with a profile of its own, and end it."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    to_us, from_browser = os.pipe()
    to_browser, from_us = os.pipe()

    def take_three_and_four() -> None:
        # Copied up first: one of them may be 3 or 4 already.
        reading, writing = os.dup(to_browser), os.dup(from_browser)
        os.dup2(reading, 3)
        os.dup2(writing, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [CHROMIUM, *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            start_new_session=True,
            preexec_fn=take_three_and_four,  # noqa: PLW1509  (no threads)
        )
        os.close(to_browser)
        os.close(from_browser)
        try:
            browser = Browser(from_us, to_us)
            browser.start_tab()
            yield browser
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(from_us)
            os.close(to_us)
