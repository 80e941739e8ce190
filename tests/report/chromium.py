"""Headless Chromium through its DevTools pipe: no driver, no port, no further package."""

import atexit
import itertools
import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

EXECUTABLE = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


class Browser:
    """A browser without a window, whose profile is in a folder."""

    def __init__(self, profile: Path) -> None:
        self._to_child, self._write = os.pipe()
        self._read, self._from_child = os.pipe()
        self._numbers = itertools.count(1)
        self._buffer = b""
        self.events: list[dict[str, Any]] = []
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        assert EXECUTABLE is not None
        self._process = subprocess.Popen(
            [EXECUTABLE, *flags, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=self._connect, close_fds=False, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def _connect(self) -> None:
        os.dup2(self._to_child, 3)
        os.dup2(self._from_child, 4)
        for end in (3, 4):  # where a pipe has the number already, nothing was duplicated
            os.set_inheritable(end, True)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for end in (self._to_child, self._write, self._read, self._from_child):
            os.close(end)

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol and return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def receive(self) -> dict[str, Any]:
        """Wait for a message; those that are events are kept."""
        while b"\0" not in self._buffer:
            received = os.read(self._read, 1 << 16)
            assert received, "the browser ended"
            self._buffer += received
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message


@cache
def the_browser() -> Browser:
    """Start the browser that all pages of this process share, and that ends with it."""
    profile = TemporaryDirectory(ignore_cleanup_errors=True)
    browser = Browser(Path(profile.name))
    atexit.register(profile.cleanup)
    atexit.register(browser.close)
    return browser


class Page:
    """An HTML file in a browser context of its own; what it logs and requests is kept."""

    def __init__(self, file: Path) -> None:
        self._browser = browser = the_browser()
        self._context = browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call(
            "Target.createTarget", url="about:blank", browserContextId=self._context
        )
        attached = browser.call("Target.attachToTarget", **target, flatten=True)
        self._session: str = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=file.as_uri())
        while not any(one["method"] == "Page.loadEventFired" for one in self.events):
            browser.receive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.call("Target.disposeBrowserContext", browserContextId=self._context)

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return what the page has reported."""
        return [one for one in self._browser.events if one.get("sessionId") == self._session]

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol for this page."""
        return self._browser.call(method, self._session, **parameters)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")
