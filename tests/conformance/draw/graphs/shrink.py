"""Reduces a failing graph while it still fails, and prints it.

    python -m draw.graphs.shrink ONNXC FOLDER [ARGUMENT ...]

FOLDER is a generated graph, and the arguments are passed to `onnxc test`. The results of ONNX
Runtime without optimizations are printed with the expected results.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from onnx import GraphProto, helper, load, load_tensor, numpy_helper, printer

from ..case import type_of
from . import control
from .evaluate import IR, OPSETS, evaluate
from .model import Case


class Graph:
    """A model and the expected value of each name."""

    def __init__(self, graph: GraphProto, values):
        self.graph, self.values = graph, values

    @classmethod
    def read(cls, folder):
        graph = load(folder / "model.onnx").graph
        data = folder / "test_data_set_0"
        values = {x.name: numpy_helper.to_array(x) for x in graph.initializer}
        for i, x in enumerate(graph.input):
            values[x.name] = numpy_helper.to_array(load_tensor(data / f"input_{i}.pb"))
        for node in graph.node:
            values |= dict(zip(node.output, evaluate(node, values)))
        return cls(graph, values)

    def with_(self, nodes, outputs, symbols=True):
        """Returns the graph of those nodes that the outputs need; missing values become inputs."""
        needed, kept = set(outputs), []
        for node in reversed(nodes):
            if needed & set(node.output):
                kept.insert(0, node)
                needed |= used(node)
        made = {name for node in kept for name in node.output}
        constants = [x for x in self.graph.initializer if x.name in needed]
        known = {x.name: x for x in self.graph.input} if symbols else {}
        inputs = needed - made - {x.name for x in constants}
        order = [n for n in self.values if n in inputs]
        infos = [
            known.get(n) or helper.make_value_info(n, type_of(self.values[n], False)) for n in order
        ]
        types = {x.name: x for x in self.graph.output}
        results = [
            types.get(n) or helper.make_value_info(n, type_of(self.values[n], False))
            for n in outputs
        ]
        graph = GraphProto(
            name="drawn", node=kept, initializer=constants, input=infos, output=results
        )
        return Graph(graph, self.values)

    def case(self):
        model = helper.make_model(self.graph, opset_imports=OPSETS, ir_version=IR)
        feeds = {x.name: self.values[x.name] for x in self.graph.input}
        return Case(model, feeds, [self.values[x.name] for x in self.graph.output])

    def smaller(self):
        """Yields graphs that are a little smaller."""
        nodes, outputs = list(self.graph.node), [x.name for x in self.graph.output]
        if len(outputs) > 1:
            for name in outputs:
                yield self.with_(nodes, [name])
            for name in outputs:
                yield self.with_(nodes, [n for n in outputs if n != name])
        for i in range(len(nodes)):
            later = [n for n in outputs if not made_by(nodes[: i + 1], n)]
            yield self.with_(nodes[i + 1 :], later or outputs)
        for i, node in enumerate(nodes):
            rest = nodes[:i] + nodes[i + 1 :]
            if set(node.output) & set(outputs):
                ahead = [n for n in used(node) if made_by(nodes, n)]
                kept = [n for n in outputs if n not in node.output]
                yield self.with_(rest, list(dict.fromkeys([*kept, *ahead])))
            else:
                yield self.with_(rest, outputs)
        if any(d.dim_param for x in self.graph.input for d in x.type.tensor_type.shape.dim):
            yield self.with_(nodes, outputs, symbols=False)


def used(node):
    bodies = [a.g for a in node.attribute if a.HasField("g")]
    return set().union({n for n in node.input if n}, *(control.captured(body) for body in bodies))


def made_by(nodes, name):
    return any(name in node.output for node in nodes)


def statuses(onnxc, graphs, arguments):
    """Returns the status of each graph."""
    with tempfile.TemporaryDirectory() as folder:
        for i, graph in enumerate(graphs):
            graph.case().write(Path(folder) / f"{i:05}", "")
        command = [onnxc, "test", "--json", *arguments, folder]
        run = subprocess.run(command, capture_output=True, text=True)
        lines = map(json.loads, run.stdout.splitlines())
        found = {int(Path(line["path"]).name): line for line in lines}
    if len(graphs) == 1 and not found:
        return [{"status": "panic", "reason": run.stderr[-2000:]}]
    if len(found) < len(graphs):  # one of them ended the program
        return [statuses(onnxc, [graph], arguments)[0] for graph in graphs]
    return [found[i] for i in range(len(graphs))]


def shrink(onnxc, graph, arguments):
    found = statuses(onnxc, [graph], arguments)[0]
    while found["status"] != "ok":
        candidates = [g for g in graph.smaller() if g.graph.output and size(g) < size(graph)]
        results = statuses(onnxc, candidates, arguments) if candidates else []
        same = [
            (size(g), i)
            for i, g in enumerate(candidates)
            if results[i]["status"] == found["status"]
        ]
        if not same:
            break
        graph, found = candidates[min(same)[1]], results[min(same)[1]]
    return graph, found


def size(g):
    symbols = sum(bool(d.dim_param) for x in g.graph.input for d in x.type.tensor_type.shape.dim)
    return len(g.graph.node), len(g.graph.output), symbols


def by_runtime(case):
    """Returns the results of ONNX Runtime."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        model = case.model.SerializeToString()
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return session.run(None, case.feeds)
    except Exception as error:  # any failure is printed
        return str(error)[:300]


def main(onnxc, folder, *arguments):
    graph, found = shrink(onnxc, Graph.read(Path(folder)), arguments)
    case = graph.case()
    print(folder, found["status"], found["reason"])
    print(printer.to_text(case.model)[:3000])
    theirs = by_runtime(case)
    with np.printoptions(threshold=24, precision=9):
        if isinstance(theirs, str):
            print("onnxruntime:", theirs)
        else:
            tolerance = case.tolerance()
            for ours, other in zip(case.expected, theirs):
                if isinstance(ours, list):
                    continue
                same = ours.shape == other.shape and np.allclose(
                    ours.astype(float), other.astype(float), tolerance, tolerance, equal_nan=True
                )
                other, ours = (f"{x.shape} {x.ravel()}" for x in (other, ours))
                print("onnxruntime:", "as expected" if same else f"{other}, not {ours}")
        for name, x in case.feeds.items():
            if isinstance(x, np.ndarray):
                print(name, x.dtype, x.shape, x.ravel()[:24])


if __name__ == "__main__":
    main(*sys.argv[1:])
