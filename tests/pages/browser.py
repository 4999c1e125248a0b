"""A page in headless Chromium, which is controlled by its debugging protocol over a pipe."""

import base64
import json
import os
import shutil
import subprocess
import tempfile

# Ends when the next frame is drawn.
FRAME = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"

NAMES = ["chromium", "chromium-headless-shell", "chromium-browser", "google-chrome"]


def path():
    """Returns the path of Chromium, or None."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A browser with one page."""

    def __init__(self, width, height, scale=1):
        self.profile = tempfile.TemporaryDirectory()
        commands, self.commands = os.pipe()
        self.events, events = os.pipe()

        def connect():
            # Chromium reads commands from file descriptor 3, and writes answers to 4. Neither may
            # be overwritten before it is copied.
            read, write = os.dup(commands), os.dup(events)
            high = [os.dup2(read, 60), os.dup2(write, 61)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [path(), "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile.name}"],
            preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(events)
        self.buffer, self.number, self.session, self.errors = b"", 0, None, []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ["Page", "Runtime", "Log"]:
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale, mobile=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.profile.cleanup()

    def send(self, method, **parameters):
        """Calls a method, and returns its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        return self.wait(lambda answer: answer.get("id") == self.number)["result"]

    def wait(self, is_wanted):
        """Reads messages up to a wanted one, and keeps the errors of the page."""
        while True:
            while b"\0" not in self.buffer:
                self.buffer += os.read(self.events, 1 << 20)
            text, self.buffer = self.buffer.split(b"\0", 1)
            message = json.loads(text)
            if message.get("method") in ["Runtime.exceptionThrown", "Log.entryAdded"]:
                self.errors.append(json.dumps(message["params"])[:500])
            if "error" in message:
                raise RuntimeError(message["error"])
            if is_wanted(message):
                return message

    def open(self, page):
        """Opens a file, and returns the seconds until it is drawn."""
        self.send("Page.navigate", url=f"file://{os.path.abspath(page)}")
        self.wait(lambda message: message.get("method") == "Page.loadEventFired")
        return self.evaluate(f"{FRAME}.then(() => performance.now())") / 1000

    def evaluate(self, code):
        """Evaluates JavaScript, and returns the value."""
        answer = self.send(
            "Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def press(self, *keys):
        """Presses keys, and waits for a frame after each."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {}
            for kind in ["keyDown", "keyUp"]:
                self.send("Input.dispatchKeyEvent", type=kind, key=key,
                          **(text if kind == "keyDown" else {}))
            self.evaluate(FRAME)

    def write(self, text):
        """Inserts text where the focus is."""
        self.send("Input.insertText", text=text)

    def save(self, file):
        """Saves a picture of the page."""
        picture = self.send("Page.captureScreenshot", format="png")["data"]
        with open(file, "wb") as out:
            out.write(base64.b64decode(picture))
