#!/usr/bin/env python3
"""Times a step of networks in training, alternately. `run` calls this program."""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
from importlib.metadata import version

import numpy as np

import graph
from networks import EPSILON, NETWORKS
from timing import Peer, machine, measure, micros

# The variants of each peer, of which the fastest counts. Networks without images have the first.
WAYS = {
    "PyTorch": [("in_torch.py", "contiguous_format"), ("in_torch.py", "channels_last")],
    "JAX": [("in_jax.py", "NCHW"), ("in_jax.py", "NHWC")],
}
# XLA uses as many threads as there are processors, even if it is pinned to one.
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
# The largest difference of the losses of the first steps, relative to the largest loss.
TOLERANCE, STEPS = 1e-4, 6


def prepare(name, network, folder):
    """Writes the model, its inputs, and its training model."""
    folder.mkdir(parents=True, exist_ok=True)
    graph.write(name, network, folder)
    (folder / f"{name}.onnx").replace(folder / "inference.onnx")
    seeded = np.random.default_rng(7)
    shape = [network.batch, *network.input]
    np.save(folder / "x.npy", seeded.standard_normal(shape).astype(np.float32))
    np.save(folder / "label.npy", seeded.integers(0, network.classes, network.batch))
    onnxc(
        "train-prep", folder / "inference.onnx", "-o", folder / "model.onnx", "--init", "keep",
        "--loss", "cross-entropy", "--optimizer", network.optimizer, "--lr", str(network.rate),
        *(["--eps", str(EPSILON)] if network.optimizer == "adam" else []), *network.prepare,
    )


def compile_ours(network, folder, work):
    """Builds the program that `onnxc bench` times, in one project for all models."""
    project = work / "ours"
    inputs = [f"--input={name}={folder / name}.npy" for name in ["x", "label"]]
    onnxc(
        "bench", folder / "model.onnx", "--step", "--dim", f"batch={network.batch}", *inputs,
        "--scratch", project, "--no-run",
    )
    for file in ["bench", "inputs", "src/model.weights"]:
        if (project / file).exists():
            subprocess.run(["cp", project / file, folder], check=True)


def onnxc(*arguments):
    done = subprocess.run([os.environ["ONNXC"], *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())


def start(name, network, folder):
    """Starts all programs that train a network; returns their names and processes."""
    programs = {"onnxc": Peer("onnxc", [folder / "bench", folder / "inputs"], 1, {})}
    here = pathlib.Path(__file__).parent
    for peer, ways in WAYS.items():
        for script, layout in ways if len(network.input) == 3 else ways[:1]:
            command = [sys.executable, here / script, name, folder, layout]
            programs[f"{peer} {layout}"] = Peer(peer, command, 1, {"XLA_FLAGS": ONE_THREAD})
    return programs


def losses(peer, folder):
    """Returns the losses of the first steps, without the step that programs take at their start."""
    found = []
    for _ in range(STEPS):
        peer.ask(f"o {folder}")
        found.append(float(np.fromfile(folder / "out0.bin", np.float32)[0]))
    return found


def compare(name, network, rounds, work):
    """Returns a row of results."""
    folder = work / "runs" / name
    prepare(name, network, folder)
    compile_ours(network, folder, work)
    programs = start(name, network, folder)
    try:
        found = {way: losses(peer, folder) for way, peer in programs.items()}
        ours = np.array(found["onnxc"])
        apart = {way: np.abs(np.array(of) - ours).max() / ours.max() for way, of in found.items()}
        if max(apart.values()) > TOLERANCE or not np.isfinite(ours).all():
            raise RuntimeError(f"{name}: the losses differ: {json.dumps(found, indent=1)}")
        measure(list(programs.values()), rounds)
    finally:
        for peer in programs.values():
            peer.end()
    return {
        way: {
            "us": statistics.median(peer.times), "least_us": min(peer.times),
            "apart": apart[way], "losses": found[way],
        }
        for way, peer in programs.items()
    }


def cell(row, peer):
    """Returns the time of a peer's fastest program as a multiple of onnxc's."""
    ways = {way: said["us"] for way, said in row.items() if way.startswith(peer)}
    way = min(ways, key=ways.get)
    layout = f" ({way.split()[1]})" if len(ways) > 1 else ""
    return f"{ways[way] / row['onnxc']['us']:.2f}{layout}"


def table(results):
    """Formats the results as Markdown."""
    lines = [["a step of", "onnxc", *WAYS], ["---"] + ["--:"] * (1 + len(WAYS))]
    for name, row in results.items():
        lines.append([name, micros(row["onnxc"]["us"]), *(cell(row, peer) for peer in WAYS)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def heading():
    said = f"PyTorch {version('torch')}, JAX {version('jax')}"
    return (
        f"{datetime.date.today()}, {machine()}, one thread, load {os.getloadavg()[0]:.1f}; {said}. "
        f"Medians; a peer's number is its time as a multiple of onnxc's.\n"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(NETWORKS))
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    results = {}
    for name in options.only.split(","):
        results[name] = compare(name, NETWORKS[name], options.rounds, options.work)
        print(f"{name}: {json.dumps(results[name])}", flush=True)
        (options.work / "table.md").write_text(f"{heading()}\n{table(results)}")
    print((options.work / "table.md").read_text())


if __name__ == "__main__":
    main()
