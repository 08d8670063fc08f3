"""A headless Chromium for scripts, controlled over two pipes by the Chrome DevTools Protocol."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROGRAMS = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]


class Browser:
    """One page of a browser; `requests` has the addresses that it has asked for."""

    def __init__(self):
        program = os.environ.get("NAMEGATE_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
        if not program:
            sys.exit("no browser is installed (Debian: chromium-headless-shell)")
        self.profile = tempfile.TemporaryDirectory()
        # The protocol uses descriptors 3 and 4, which a shell can set up.
        shell = 'exec "$@" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null'
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe", "--hide-scrollbars"]
        options += ["--disable-background-networking", "--disable-dev-shm-usage", f"--user-data-dir={self.profile.name}"]
        self.child = subprocess.Popen(
            ["sh", "-c", shell, "sh", program, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.last, self.session, self.events, self.requests = 0, None, [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.wait()
        self.child.stdout.close()
        self.profile.cleanup()

    def read(self):
        message = bytearray()
        while (byte := self.child.stdout.read(1)) != b"\0":
            if not byte:
                sys.exit("the browser has ended")
            message += byte
        answer = json.loads(message)
        if answer.get("method") == "Network.requestWillBeSent":
            self.requests.append(answer["params"]["request"]["url"])
        return answer

    def call(self, method, **params):
        """Calls a method of the protocol and waits for its result."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.child.stdin.write(json.dumps(message).encode() + b"\0")
        self.child.stdin.flush()
        while (answer := self.read()).get("id") != self.last:
            self.events.append(answer.get("method"))
        if "error" in answer:
            sys.exit(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def open(self, file, width, height, scheme, scale=1):
        """Opens a file in a window of this size, in the colour scheme `light` or `dark`, and waits until it is loaded."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.events.clear()
        self.call("Page.navigate", url=pathlib.Path(file).resolve().as_uri())
        while "Page.loadEventFired" not in self.events:
            self.events.append(self.read().get("method"))

    def value(self, expression):
        """The value of an expression in the page; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            sys.exit(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def shoot(self, file):
        """Writes what the window shows as PNG."""
        # Two frames, after which what scripts have changed is drawn.
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        picture = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(file).write_bytes(base64.b64decode(picture))
