# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A browser for the tests: of the report, and as a client of a server."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import urllib.request
from pathlib import Path

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


class Browser:
    """Headless Chromium, by the W3C's WebDriver protocol."""

    def __init__(self):
        self.driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, text=True)
        line = next(line for line in self.driver.stdout if "started successfully on port" in line)
        self.base = f"http://127.0.0.1:{line.split()[-1].rstrip('.')}/session"
        options = {
            "binary": CHROMIUM,
            "args": ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        }
        session = self.call(
            "",
            {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}},
        )
        self.base += f"/{session['sessionId']}"

    def call(self, path: str, body: dict | None = None, method: str = "POST"):
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def cdp(self, command: str, **parameters):
        return self.call("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, file: Path, width: int = 1200, dark: bool = False, scripts: bool = True) -> None:
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.cdp(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.cdp("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("/se/log", {"type": "browser"})  # what came before
        self.call("/url", {"url": file.as_uri()})

    def run(self, script: str):
        return self.call("/execute/sync", {"script": script, "args": []})

    def press(self, key: str) -> None:
        self.call(
            "/actions",
            {
                "actions": [
                    {"type": "key", "id": "keys", "actions": [{"type": t, "value": key} for t in ("keyDown", "keyUp")]}
                ]
            },
        )

    def screenshot(self, file: Path, whole: bool = True) -> None:
        file.write_bytes(base64.b64decode(self.cdp("Page.captureScreenshot", captureBeyondViewport=whole)["data"]))

    def close(self) -> None:
        try:
            self.call("", method="DELETE")
        finally:
            self.driver.terminate()
            self.driver.wait()
