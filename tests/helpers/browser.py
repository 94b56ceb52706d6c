"""Drives an installed Chromium through its debugging pipe; needs nothing beyond Python.

Commands and events are JSON of the DevTools protocol, each ended by a zero byte, on the file
descriptors 3 (in) and 4 (out) of the browser.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WAIT = 60.0
FLAGS = (
    "--headless",
    "--no-sandbox",  # continuous integration often runs as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # there is no network
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# Puts the two pipes where the browser looks for them, then becomes the browser.
BECOME = """import os, sys
os.dup2({read}, 3)
os.dup2({write}, 4)
os.execv(sys.argv[1], sys.argv[1:])
"""
KEYS = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    " ": (32, " "),
    "Escape": (27, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
}
CODES = {" ": "Space"}


def find_browser() -> str | None:
    """The program, or None; `CHROMIUM` names another one than those on the path."""
    named = os.environ.get("CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """One tab. Events of the browser are kept: what it loaded, and what went wrong."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._rest, self._last = b"", 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def attach(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command and waits for its answer."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        answer = self._wait(lambda each: each.get("id") == self._last, method)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _wait(self, is_wanted: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        until = time.monotonic() + WAIT
        while True:
            message, found, rest = self._rest.partition(b"\0")
            if found:
                self._rest = rest
                told = json.loads(message)
                self.events.append(told)
                if is_wanted(told):
                    return told
                continue
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise TimeoutError(f"the browser did not answer {what} within {WAIT:.0f} s")
            more = os.read(self._read, 1 << 20)
            if not more:
                raise RuntimeError(f"the browser has ended, during {what}")
            self._rest += more

    def resize(self, width: int, height: int, is_phone: bool = False, dark: bool = False) -> None:
        metrics = {"width": width, "height": height, "mobile": is_phone}
        scale = 2 if is_phone else 1
        self.call("Emulation.setDeviceMetricsOverride", deviceScaleFactor=scale, **metrics)
        self.call("Emulation.setTouchEmulationEnabled", enabled=is_phone)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        features.append({"name": "prefers-reduced-motion", "value": "no-preference"})
        self.call("Emulation.setEmulatedMedia", features=features)

    def before_scripts(self, source: str) -> None:
        """A script that runs in every document before its own."""
        self.call("Page.addScriptToEvaluateOnNewDocument", source=source)

    def open(self, url: str) -> None:
        """Loads a page and waits until it and its scripts are done."""
        for each in ("about:blank", url):  # a new fragment alone would load nothing
            self.events.clear()
            self.call("Page.navigate", url=each)
            here = f"location.href === {json.dumps(each)}"
            self.wait_for(f"{here} && document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page, a promise's where it is one."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, script: str) -> None:
        """Until an expression holds."""
        until = time.monotonic() + WAIT
        while not self.run(f"Boolean({script})"):
            if time.monotonic() > until:
                raise TimeoutError(f"{script} never held")
            time.sleep(0.05)

    def press(self, key: str, shift: bool = False) -> None:
        """A key, as from a keyboard: the page may take it, or the browser does."""
        number, text = KEYS.get(key, (ord(key[0].upper()), key))
        code = CODES.get(key, key if key in KEYS else f"Digit{key}" if key.isdigit() else "")
        event = {"key": key, "code": code, "windowsVirtualKeyCode": number}
        event["modifiers"] = 8 if shift else 0
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.call("Input.dispatchKeyEvent", **event, **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def tap(self, selector: str) -> None:
        """A finger on the middle of an element."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{found}.scrollIntoView({{block: 'center'}})")
        middle = "({x, y, width, height}) => [x + width / 2, y + height / 2]"
        x, y = self.run(f"({middle})({found}.getBoundingClientRect())")
        point = {"x": x, "y": y}
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[point])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def capture(self, target: Path, **options: Any) -> None:
        """A picture of what is seen, or with `captureBeyondViewport` and `clip` of more."""
        found = self.call("Page.captureScreenshot", format="png", **options)
        target.write_bytes(base64.b64decode(found["data"]))

    @property
    def loaded(self) -> list[str]:
        """Addresses that the page asked for, itself among them."""
        sent = [each for each in self.events if each.get("method") == "Network.requestWillBeSent"]
        return [each["params"]["request"]["url"] for each in sent]

    @property
    def errors(self) -> list[str]:
        """What the console shows in red: exceptions, refused loads, `console.error`."""
        found = []
        for each in self.events:
            method, params = each.get("method"), each.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"]))
            if method == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"]["text"])
            if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
                found.append(json.dumps(params["args"]))
        return found


@contextmanager
def launch(program: str, home: Path) -> Iterator[Page]:
    """A browser with a profile of its own in `home`, ended afterwards."""
    browser_reads, write = os.pipe()
    read, browser_writes = os.pipe()
    become = BECOME.format(read=browser_reads, write=browser_writes)
    command = [program, *FLAGS, f"--user-data-dir={home / 'profile'}", "about:blank"]
    with (home / "browser.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", become, *command],
            pass_fds=(browser_reads, browser_writes),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home)},
        )
    os.close(browser_reads)
    os.close(browser_writes)
    page = Page(read, write)
    try:
        page.attach()
        yield page
    finally:
        process.terminate()
        process.wait(WAIT)
        os.close(read)
        os.close(write)
