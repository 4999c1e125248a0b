"""Times programs that do the same, alternately."""
import json
import os
import platform
import random
import select
import subprocess
import time

# The duration of a burst of calls, in milliseconds.
BURST = 60


class Peer:
    """A program that has loaded the model, and answers lines."""

    def __init__(self, name, command, threads, extra):
        self.name, self.times = name, []
        environment = dict(os.environ, **extra)
        for key in ["ONNXC_THREADS", "RAYON_NUM_THREADS", "OMP_NUM_THREADS", "RTEN_NUM_THREADS"]:
            environment[key] = str(threads)
        # One thread stays on one core.
        core = sorted(os.sched_getaffinity(0))[-1]
        pinned = (lambda: os.sched_setaffinity(0, {core})) if threads == 1 else None
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True,
            env=environment, preexec_fn=pinned,
        )
        self.load = self.answer()["load_ms"]

    def answer(self, seconds=300):
        end = time.monotonic() + seconds
        while select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
            line = self.process.stdout.readline()
            if line.startswith("{"):
                said = json.loads(line)
                if "error" in said:
                    raise RuntimeError(said["error"])
                return said
            if not line:
                break
        raise RuntimeError("it ended, or did not answer")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def hurry(self, line):
        """Sends a request while the program's threads have real-time priority."""
        self.schedule(os.SCHED_RR, 1)
        said = self.ask(line)
        self.schedule(os.SCHED_OTHER, 0)
        return said

    def schedule(self, policy, priority):
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            try:
                os.sched_setscheduler(int(thread), policy, os.sched_param(priority))
            except OSError:
                pass

    def end(self):
        self.process.kill()
        self.process.wait()


def measure(peers, rounds):
    """Times the peers alternately, in a random order in each round."""
    for peer in peers:
        peer.hurry("w 50")
        peer.count = max(1, int(BURST * 1e3 / peer.hurry("w 150")["us"]))
    for _ in range(rounds):
        for peer in random.sample(peers, len(peers)):
            peer.hurry("t 1")  # The other peers have filled the caches.
            peer.times.append(peer.hurry(f"t {peer.count}")["us"])


def micros(us):
    return f"{us:.3g} µs" if us < 1000 else f"{us / 1000:.3g} ms"


def machine():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()
