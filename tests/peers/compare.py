#!/usr/bin/env python3
"""Times programs that run the same model, alternately. `run` calls this program."""
import argparse
import datetime
import json
import math
import os
import pathlib
import statistics
import subprocess
from importlib.metadata import version

import numpy as np
import onnxruntime

from chart import chart
from timing import Peer, machine, measure, micros

DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
NAMES = {
    "onnxc": "onnxc", "ort": "ONNX Runtime", "openvino": "OpenVINO f32",
    "openvino-default": "OpenVINO default", "rten": "rten", "tract": "tract",
}
# The largest difference from the unoptimized output, relative to its largest element.
TOLERANCE = 1e-4


def prepare(model, folder, seed):
    """Generates the inputs of a model from a seed, and writes them with the expected outputs."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(model, options, providers=providers)
    seeded = np.random.default_rng(seed)
    feeds = {port.name: draw(port, seeded) for port in session.get_inputs()}
    results = session.run(None, feeds)
    outputs = {port.name: y for port, y in zip(session.get_outputs(), results)}
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for kind, arrays in [("in", feeds), ("out", outputs)]:
        for k, (name, array) in enumerate(arrays.items()):
            np.save(folder / f"{kind}{k}.npy", array)
            array.tofile(folder / f"{kind}{k}.bin")
            sizes = ",".join(map(str, array.shape))
            lines.append(f"{kind} {name} {array.dtype} {sizes} {kind}{k}.bin\n")
    (folder / "manifest.txt").write_text("".join(lines))
    return list(feeds), list(outputs.values())


def draw(port, seeded):
    """Returns normally distributed floats, indices below 256, or a mask without the last eighth."""
    shape = [size if isinstance(size, int) else 1 for size in port.shape]
    if DTYPES[port.type] is np.float32:
        return seeded.standard_normal(shape).astype(np.float32)
    if "mask" in port.name:
        mask = np.ones(shape, np.int64)
        mask[..., shape[-1] - shape[-1] // 8 :] = 0
        return mask
    return seeded.integers(0, 256, shape)


def compile_ours(model, inputs, folder, work, threads, precision):
    """Builds the program that `onnxc bench` times, in one project for all models."""
    project = work / "ours"
    command = [os.environ["ONNXC"], "bench", model, "--scratch", project, "--no-run"]
    command += ["--threads", str(max(threads))]
    if precision:
        command += ["--precision", precision]
    for k, name in enumerate(inputs):
        command += ["--input", f"{name}={folder / f'in{k}.npy'}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[0])
    for file in ["bench", "inputs", "src/model.weights"]:
        if (project / file).exists():
            subprocess.run(["cp", project / file, folder], check=True)


def start(name, model, folder, threads):
    """Starts a peer on a model."""
    programs = pathlib.Path(os.environ["PEERS_PROGRAMS"])
    if name == "onnxc":
        return Peer(name, [folder / "bench", folder / "inputs"], threads, {})
    package = pathlib.Path(onnxruntime.__file__).parent
    library = next((package / "capi").glob("libonnxruntime.so.1*"))
    program, _, precision = name.partition("-")
    extra = {"ORT_DYLIB_PATH": str(library), "LD_LIBRARY_PATH": os.environ["PEERS_LIBRARIES"]}
    extra["PEERS_PRECISION"] = precision or "f32"
    return Peer(name, [programs / program, model, folder, str(threads)], threads, extra)


def error_of(peer, expected, folder):
    """Returns the largest difference, relative to the largest element of the output."""
    folder.mkdir(exist_ok=True)
    peer.ask(f"o {folder}")
    worst = 0.0
    for k, wanted in enumerate(expected):
        got = np.fromfile(folder / f"out{k}.bin", wanted.dtype).astype(np.float64)
        if got.size != wanted.size:
            raise RuntimeError(f"output {k} has {got.size} elements")
        apart = np.max(np.abs(got - wanted.reshape(-1)), initial=0.0)
        worst = max(worst, apart / max(np.max(np.abs(wanted), initial=0.0), 1e-30))
    return float(worst)


def compare(model, names, threads, rounds, work, expected):
    """Returns a row of results for one model and number of threads."""
    folder, row, peers = work / "runs" / model.stem, {}, []
    for name in names:
        try:
            peer = start(name, model, folder, threads)
            error = error_of(peer, expected, work / "outputs")
            peers.append(peer)
            row[name] = {"error": error, "load_ms": peer.load}
        except (RuntimeError, OSError, ValueError) as reason:
            row[name] = {"refused": str(reason)}
    measure(peers, rounds)
    for peer in peers:
        row[peer.name] |= {"us": statistics.median(peer.times), "least_us": min(peer.times)}
        peer.end()
    return row


def cell(row, name):
    """Returns a peer's time as a multiple of onnxc's, in parentheses if its outputs are wrong."""
    peer, ours = row[name], row["onnxc"]
    if "us" not in peer or "us" not in ours:
        return "–"
    text = f"{peer['us'] / ours['us']:.2f}"
    return text if peer["error"] <= TOLERANCE else f"({text})"


def table(results, names, threads):
    """Formats the results for this number of threads as Markdown."""
    others = [name for name in names if name != "onnxc"]
    lines = [["model", "onnxc"] + [NAMES[name] for name in others]]
    lines.append(["---"] + ["--:"] * (1 + len(others)))
    ratios = {name: [] for name in others}
    for model, row in results:
        ours = row["onnxc"]
        first = micros(ours["us"]) if "us" in ours else "refused"
        lines.append([model, first] + [cell(row, name) for name in others])
        for name in others:
            if "us" in row[name] and "us" in ours:
                ratios[name].append(math.log(row[name]["us"] / ours["us"]))
    means = [f"{math.exp(statistics.mean(r)):.2f}" if r else "–" for r in ratios.values()]
    lines.append(["geometric mean", ""] + means)
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{threads} thread{'s' if threads > 1 else ''}:\n\n{body}\n"


def draw_chart(results, names, threads):
    """Draws the ratios of `table`."""
    rows = []
    for model, row in results:
        timed = [name for name in names if "us" in row[name]]
        if "onnxc" in timed and len(timed) > 1:
            others = [name for name in timed if name != "onnxc"]
            rows.append((model, {name: row[name]["us"] / row["onnxc"]["us"] for name in others}))
    peers = {name: NAMES[name] for name in names if name != "onnxc"}
    count = f"{threads} thread{'s' if threads > 1 else ''}"
    return chart(f"Time of a run, divided by onnxc's, {count}", rows, peers) if rows else ""


def heading(names):
    crates = {}
    lock = (pathlib.Path(__file__).parent / "Cargo.lock").read_text().split("[[package]]")
    for package in lock:
        fields = dict(line.split(" = ", 1) for line in package.splitlines() if " = " in line)
        crates[fields.get("name", "").strip('"')] = fields.get("version", "").strip('"')
    versions = {
        "ort": f"ONNX Runtime {version('onnxruntime')}",
        "openvino": f"OpenVINO {version('openvino')}",
        "rten": f"rten {crates.get('rten')}",
        "tract": f"tract {crates.get('tract-onnx')}",
    }
    said = dict.fromkeys(versions[name.split("-")[0]] for name in names if name != "onnxc")
    cores, load = os.cpu_count(), os.getloadavg()[0]
    return (
        f"{datetime.date.today()}, {machine()}, {cores} cores, load {load:.1f}; "
        f"{', '.join(said)}. Medians; a peer's number is its time as a multiple of onnxc's, in "
        f"brackets where an output is off by more than {TOLERANCE:g} of its largest element.\n"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--peers", default="ort,openvino,rten,tract")
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--precision", default="")
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args()
    names = ["onnxc", *options.peers.split(",")]
    threads = [int(n) for n in options.threads.split(",")]
    models = sorted(options.models.glob("*.onnx"), key=lambda path: path.stat().st_size)
    if options.only:
        models = [options.models / f"{name}.onnx" for name in options.only.split(",")]
    results = {n: [] for n in threads}
    for model in models:
        folder = options.work / "runs" / model.stem
        inputs, expected = prepare(model, folder, options.seed)
        try:
            compile_ours(model, inputs, folder, options.work, threads, options.precision)
        except RuntimeError as reason:
            print(f"{model.stem}: onnxc: {reason}", flush=True)
            (folder / "bench").unlink(missing_ok=True)
        for n in threads:
            row = compare(model, names, n, options.rounds, options.work, expected)
            results[n].append((model.stem, row))
            print(f"{model.stem}, {n}: {json.dumps(row)}", flush=True)
        tables = [table(results[n], names, n) for n in threads]
        (options.work / "table.md").write_text("\n".join([heading(names), *tables]))
        chart_file = options.work / "chart.svg"
        chart_file.write_text(draw_chart(results[threads[0]], names, threads[0]))
    print((options.work / "table.md").read_text())


if __name__ == "__main__":
    main()
