"""The protocol of a program that trains a network in Python, the same as that of the program of
`onnxc bench`: lines, each answered by a line of JSON.
"""
import json
import pathlib
import sys
import time

import numpy as np


def serve(step, loss_of):
    """Takes a step, and then as many as each request says. `step` returns a loss, and `loss_of`
    waits for its value.
    """
    say(load_ms=timed(step, loss_of, 1) / 1e3)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "o":
            loss = np.float32(loss_of(step()))
            loss.tofile(pathlib.Path(rest[0]) / "out0.bin")
            say(outputs=1)
        elif word == "t":
            say(us=timed(step, loss_of, int(rest[0])))
        elif word == "w":
            end, n, us = time.perf_counter() + int(rest[0]) / 1e3, 0, 0.0
            while n == 0 or time.perf_counter() < end:
                us += timed(step, loss_of, 1)
                n += 1
            say(n=n, us=us / n)


def timed(step, loss_of, n):
    """Returns microseconds per step over `n` steps. Only the last loss is waited for."""
    start = time.perf_counter()
    for _ in range(n):
        loss = step()
    loss_of(loss)
    return (time.perf_counter() - start) * 1e6 / n


def say(**fields):
    print(json.dumps(fields), flush=True)
