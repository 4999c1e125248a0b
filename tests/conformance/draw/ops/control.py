"""Branches and loops."""

import numpy as np
from onnx import helper

from ..registry import operator
from ..types import BOOL, F32, F64, I32, I64, onnx_type


def graph(d, name, nodes, inputs, outputs, ranks=None):
    """Returns a body. Nodes are given as operator, inputs, output and attributes; values with their
    types.
    """
    made = [
        helper.make_node(op, names, [out], **(rest[0] if rest else {}))
        for op, names, out, *rest in nodes
    ]
    info = lambda values: [
        helper.make_tensor_value_info(key, onnx_type(dtype), (ranks or {}).get(key))
        for key, dtype in values.items()
    ]
    return helper.make_graph(made, name, info(inputs), info(outputs))


def arithmetic_type(d):
    return d.one_of([F32, F64, I32, I64] if d.opset >= 7 else [F32, F64])


@operator("If")
def branch(d):
    dtype, shape = arithmetic_type(d), d.shape()
    a, b = d.tensor(dtype, shape, extremes=0), d.tensor(dtype, shape, extremes=0)
    # The branches capture values.
    shapes = {"y": shape}
    then = graph(d, "then", [("Add", ["x1", "x2"], "y")], {}, {"y": dtype}, shapes)
    other = graph(
        d,
        "other",
        [("Mul", ["x1", "x2"], "s"), ("Sub", ["s", "x1"], "y")],
        {},
        {"y": dtype},
        shapes,
    )
    condition = d.tensor(BOOL, d.one_of([(), (1,)]))
    return captured(
        d,
        [condition],
        [a, b],
        lambda c, a, b: a + b if c.reshape(()) else a * b - a,
        {"then_branch": then, "else_branch": other},
    )


def captured(d, inputs, around, reference, attributes, **rest):
    """Returns a case whose bodies capture inputs of the model."""
    case = d.case([*inputs, *around], reference, attributes=attributes, symbolic=False, **rest)
    case.around = set(range(len(inputs), len(inputs) + len(around)))
    return case


@operator("Loop")
def loop(d):
    dtype = arithmetic_type(d)
    state, step = (d.tensor(dtype, shape, extremes=0) for shape in [d.shape(empty=0)] * 2)
    most, until = d.int(0, 5), d.int(1, 6)
    # A state that adds a captured value, a condition, and a scan output.
    nodes = [
        ("Add", ["state", "x3"], "next"),
        ("Sub", ["next", "x3"], "seen"),
        ("Identity", ["condition"], "go"),
    ]
    if d.opset >= 9:
        limit = helper.make_tensor("limit", 7, [], [until])
        nodes[2:] = [
            ("Constant", [], "limit", {"value": limit}),
            ("Less", ["iteration", "limit"], "go"),
        ]
    body = graph(
        d,
        "body",
        nodes,
        {"iteration": I64, "condition": BOOL, "state": dtype},
        {"go": BOOL, "next": dtype, "seen": dtype},
        {
            "iteration": (),
            "condition": (),
            "go": (),
            "state": state.shape,
            "next": state.shape,
            "seen": state.shape,
        },
    )
    first = d.maybe(np.array(d.chance(0.9)))
    count = d.maybe(np.array(most, I64), 0.8) if d.opset >= 9 else np.array(most, I64)

    def reference(count, first, state, step):
        seen, iteration, go = [], 0, first is None or bool(first)
        while go and (count is None or iteration < int(count)):
            seen.append(state)
            state = state + step
            go, iteration = (iteration < until if d.opset >= 9 else go), iteration + 1
        seen = [state_seen + step - step for state_seen in seen]
        return state, np.array(seen, state.dtype).reshape(-1, *state.shape)

    return captured(
        d, [count, first, state], [step], reference, {"body": body}, outputs=2, dynamic=True
    )


@operator("Scan")
def scan(d):
    dtype = d.one_of([F32, F64])
    iterations, shape = d.int(1, 4), d.shape(most=2, empty=0)
    shapes = {name: shape for name in ("state", "element", "next", "seen")}
    body = graph(
        d,
        "body",
        [("Add", ["state", "element"], "next"), ("Mul", ["next", "element"], "seen")],
        {"state": dtype, "element": dtype},
        {"next": dtype, "seen": dtype},
        shapes,
    )
    attributes = {"body": body, "num_scan_inputs": 1}
    if d.version == 8:
        return batched_scan(d, dtype, iterations, shape, attributes)
    backward, written_backward = d.int(0, 1), d.int(0, 1)
    rank = len(shape) + 1
    past = -rank if d.version >= 11 else 0
    axis, out = (d.int(past, rank - 1) for _ in range(2))
    given = {"scan_input_directions": [backward], "scan_output_directions": [written_backward]}
    given |= {"scan_input_axes": [axis], "scan_output_axes": [out]}
    defaults = {
        "scan_input_directions": [0],
        "scan_output_directions": [0],
        "scan_input_axes": [0],
        "scan_output_axes": [0],
    }
    attributes |= {
        name: value for name, value in given.items() if value != defaults[name] or d.chance(0.4)
    }
    x = np.moveaxis(d.tensor(dtype, [iterations, *shape], extremes=0), 0, axis)

    def reference(state, x):
        seen = []
        rows = np.moveaxis(x, axis, 0)
        for row in rows[::-1] if backward else rows:
            state = state + row
            seen.append(state * row)
        return state, np.stack(seen[::-1] if written_backward else seen, out)

    return d.case(
        [d.tensor(dtype, shape, extremes=0), x],
        reference,
        outputs=2,
        attributes=attributes,
        symbolic=False,
    )


def batched_scan(d, dtype, iterations, shape, attributes):
    """The first version has a batch axis, and a length for each sequence."""
    batch = d.int(1, 3)
    backward = d.int(0, 1)
    if backward or d.chance(0.3):
        attributes["directions"] = [backward]
    lengths = d.maybe(d.ints([d.int(1, iterations) for _ in range(batch)]))
    states = d.tensor(dtype, [batch, *shape], extremes=0)
    x = d.tensor(dtype, [batch, iterations, *shape], extremes=0)

    def reference(lengths, states, x):
        last, seen = states.copy(), np.zeros((batch, iterations, *shape), dtype)
        for item in range(batch):
            length = iterations if lengths is None else int(lengths[item])
            for t in range(length):
                row = x[item, length - 1 - t if backward else t]
                last[item] = last[item] + row
                seen[item, t] = last[item] * row
        return last, seen

    return d.case([lengths, states, x], reference, outputs=2, attributes=attributes, symbolic=False)
