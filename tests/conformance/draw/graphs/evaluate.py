"""Evaluates nodes with onnx's reference evaluator, and loops iteration by iteration."""

import warnings

import numpy as np
from onnx import GraphProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ..case import type_of

OPSETS = [helper.make_opsetid("", 22), helper.make_opsetid("ai.onnx.ml", 5)]
IR = 10
# Loops with more iterations are not generated.
MOST_ITERATIONS = 20


class Unfit(Exception):
    """The choice is invalid, or its result cannot be compared: another one is tried."""


def evaluate(node, values):
    """Returns the outputs of a node, given the values by name that it and its bodies use."""
    bodies = {"If": branch, "Loop": loop, "Scan": scan}
    if node.op_type in bodies:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        return bodies[node.op_type](node, attributes, values)
    feeds = {name: values[name] for name in node.input if name}
    types = [helper.make_value_info(name, type_of(x, False)) for name, x in feeds.items()]
    outputs = [
        helper.make_value_info(name, helper.make_tensor_type_proto(1, None)) for name in node.output
    ]
    graph = GraphProto(name="one", node=[node], input=types, output=outputs)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = helper.make_model(graph, opset_imports=OPSETS, ir_version=IR)
            results = ReferenceEvaluator(model).run(None, feeds)
    except Exception as error:  # the evaluator raises any exception of numpy
        raise Unfit(f"{node.op_type}: {error}") from error
    return [x if isinstance(x, list) else np.asarray(x) for x in results]


def run(graph, values):
    """Returns the outputs of a body."""
    values = values | {x.name: numpy_helper.to_array(x) for x in graph.initializer}
    for node in graph.node:
        values |= dict(zip(node.output, evaluate(node, values)))
    return [values[x.name] for x in graph.output]


def branch(node, attributes, values):
    taken = "then_branch" if values[node.input[0]].reshape(()) else "else_branch"
    return run(attributes[taken], values)


def loop(node, attributes, values):
    body = attributes["body"]
    most, on = (values[name].reshape(()) if name else None for name in node.input[:2])
    state, gathered = [values[name] for name in node.input[2:]], []
    iteration, on = 0, on is None or bool(on)
    while on and (most is None or iteration < most):
        if iteration == MOST_ITERATIONS:
            raise Unfit("too many iterations")
        inputs = [np.array(iteration), np.array(on), *state]
        on, *results = run(body, values | {x.name: v for x, v in zip(body.input, inputs)})
        state, rest = results[: len(state)], results[len(state) :]
        gathered.append(rest)
        iteration += 1
    return [*state, *stack(gathered, len(node.output) - len(state))]


def scan(node, attributes, values):
    body, count = attributes["body"], attributes["num_scan_inputs"]
    given = [values[name] for name in node.input]
    state, xs = given[: len(given) - count], given[len(given) - count :]
    axes = attributes.get("scan_input_axes", [0] * count)
    back = attributes.get("scan_input_directions", [0] * count)
    xs = [np.moveaxis(x, axis, 0)[:: -1 if b else 1] for x, axis, b in zip(xs, axes, back)]
    gathered = []
    for iteration in zip(*xs):
        results = run(
            body, values | {x.name: np.asarray(v) for x, v in zip(body.input, [*state, *iteration])}
        )
        state, rest = results[: len(state)], results[len(state) :]
        gathered.append(rest)
    count = len(node.output) - len(state)
    axes = attributes.get("scan_output_axes", [0] * count)
    back = attributes.get("scan_output_directions", [0] * count)
    made = stack(gathered, count)
    made = [np.moveaxis(x[:: -1 if b else 1], 0, axis) for x, axis, b in zip(made, axes, back)]
    return [*state, *(np.ascontiguousarray(x) for x in made)]


def stack(gathered, count):
    """Stacks the scan outputs of all iterations."""
    if count and (not gathered or any(len({x.shape for x in each}) > 1 for each in zip(*gathered))):
        raise Unfit("no iterations, or sizes that change")
    return [np.stack(each) for each in zip(*gathered)] if count else []
