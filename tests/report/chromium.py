"""Headless Chromium through its DevTools pipe: no driver, no port, no further package."""

import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

EXECUTABLE = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


class Page:
    """One page; what it logs and requests is kept.

    Args:
        file: an HTML file; the profile of the browser is beside it.
    """

    def __init__(self, file: Path) -> None:
        self._to_child, self._write = os.pipe()
        self._read, self._from_child = os.pipe()
        self._numbers = itertools.count(1)
        self._buffer = b""
        self.events: list[dict[str, Any]] = []
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        assert EXECUTABLE is not None
        self._process = subprocess.Popen(
            [EXECUTABLE, *flags, f"--user-data-dir={file.with_name('profile')}", "about:blank"],
            preexec_fn=self._connect, close_fds=False, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=file.as_uri())
        while not any(one["method"] == "Page.loadEventFired" for one in self.events):
            self._receive()

    def _connect(self) -> None:
        os.dup2(self._to_child, 3)
        os.dup2(self._from_child, 4)
        for end in (3, 4):  # where a pipe has the number already, nothing was duplicated
            os.set_inheritable(end, True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        for end in (self._to_child, self._write, self._read, self._from_child):
            os.close(end)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol and return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            received = os.read(self._read, 1 << 16)
            assert received, "the browser ended"
            self._buffer += received
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message
