"""Branches and loops with random bodies."""

import numpy as np
from onnx import helper

from ..types import BOOL
from . import steps
from .graph import Value
from .steps import step


def captures(graph):
    """Returns the names that a body captures."""
    own = {x.name for x in [*graph.input, *graph.initializer]}
    used = set()
    for node in graph.node:
        bodies = [a.g for a in node.attribute if a.HasField("g")]
        used |= {name for name in node.input if name and name not in own}
        used |= set().union(*(captures(body) for body in bodies)) - own if bodies else set()
        own |= set(node.output)
    return used | {x.name for x in graph.output if x.name not in own}


def around(g, *bodies):
    """Returns the values that bodies capture."""
    names = set().union(*(captures(body) for body in bodies))
    return [x for x in g.values if x.name in names]


def add_random_nodes(body, count):
    """Adds some random nodes to a body."""
    for _ in range(count):
        steps.take(body, control=body.around.around is None and body.chance(0.15))


def like(body, x):
    """Returns a value of the shape of `x` that depends on values of the body."""
    made = body.values[len(body.around.values) :]
    made = [
        v for v in made if not isinstance(v.array, list) and v.dtype == x.dtype and v.array.size
    ]
    if not made:
        return body.add("Tanh", [x])
    v = body.one_of(made)
    if v.shape == x.shape and body.chance(0.6):
        return v
    mean = body.add("ReduceMean", [v], keepdims=0)
    return body.add(body.one_of(["Add", "Sub"]), [x, mean])


@step(1.5)
def branch(g):
    x = g.pick(wanted=lambda x: x.array.size > 0, most=600)
    conditions = [
        v for v in g.values if v.dtype is not None and v.dtype == BOOL and v.array.size == 1
    ]
    if conditions and g.chance(0.6):
        condition = g.one_of(conditions)
    elif g.chance(0.4):
        mean = g.add("ReduceMean", [x], keepdims=0)
        condition = g.add("Greater", [mean, g.number(0)])
    else:
        condition = g.constant(np.array(g.chance(0.5)), 0.6)
    bodies = []
    count = g.int(1, 2)
    for name in ("then", "else"):
        body = g.body()
        add_random_nodes(body, g.int(0, 3))
        results = [like(body, x) if g.chance(0.85) else x for _ in range(count)]
        # A body returns each name once, and no names of outer graphs.
        results = [
            (
                body.add("Identity", [v])
                if any(v is w for w in results[:i]) or v.name not in names(body)
                else v
            )
            for i, v in enumerate(results)
        ]
        bodies.append(body.message(results, name=name))
    g.add(
        "If", [condition], count, around(g, *bodies), then_branch=bodies[0], else_branch=bodies[1]
    )


def names(body):
    return {name for node in body.nodes for name in node.output}


@step()
def loop(g):
    x = g.pick(wanted=lambda x: x.array.size > 0, most=300)
    iterations = g.int(0, 3)
    body = g.body()
    state = Value(g.name(), x.array, x.shaken)
    iteration = Value(g.name(), np.array(0, np.int64), np.array(0, np.int64))
    on = Value(g.name(), np.array(True), np.array(True))
    body.values += [iteration, on, state]
    add_random_nodes(body, g.int(0, 3))
    if g.chance(0.3):
        body.add("Cast", [iteration], to=helper.np_dtype_to_tensor_dtype(g.dtype))
    next_state = body.add("Tanh", [like(body, state)])
    still = body.add("Identity", [on])
    if g.chance(0.2):
        still = body.add("Less", [iteration, body.constant(np.array(g.int(0, 2), np.int64))])
    gathered = [body.add("Identity", [like(body, x)])] if g.chance(0.6) else []
    message = body.message([still, next_state, *gathered], [iteration, on, state])
    most = g.constant(np.array(iterations, np.int64), 0.6)
    start = g.constant(np.array(True), 0.3)
    g.add("Loop", [most, start, x], 1 + len(gathered), around(g, message), body=message)


@step(0.7)
def scan(g):
    """A scan along the first axis."""
    xs = g.pick(wanted=lambda x: x.rank and min(x.shape) > 0 and x.shape[0] < 6, most=300)
    body = g.body()
    first = Value(g.name(), xs.array[0], xs.shaken[0])
    state = Value(g.name(), np.zeros_like(first.array), np.zeros_like(first.array))
    body.values += [state, first]
    add_random_nodes(body, g.int(0, 2))
    next_state = body.add("Tanh", [body.add("Add", [like(body, first), state])])
    gathered = body.add("Mul", [next_state, first])
    message = body.message([next_state, gathered], [state, first])
    start = g.constant(state.array, 0.3)
    g.add("Scan", [start, xs], 2, around(g, message), body=message, num_scan_inputs=1)


@step(0.7)
def branches_of_different_sizes(g):
    """Branches whose results differ in size."""
    x = g.pick(wanted=lambda x: x.rank and min(x.shape) > 0, most=300)
    condition = g.constant(np.array(g.chance(0.5)), 0.7)
    axis = g.axis(x.rank)
    bodies = []
    for name in ("then", "else"):
        body = g.body()
        add_random_nodes(body, g.int(0, 1))
        y = like(body, x)
        for _ in range(g.int(0, 2)):
            y = body.add("Concat", [y, x] if body.chance(0.5) else [x, y], axis=axis)
        bodies.append(body.message([body.add("Identity", [y])], name=name))
    y = g.add(
        "If", [condition], 1, around(g, *bodies), then_branch=bodies[0], else_branch=bodies[1]
    )
    if g.chance(0.5):
        g.add("ReduceSum", [y, g.shape_of([axis])])


@step(0.7)
def growing_state(g):
    """A loop whose carried value grows in each iteration."""
    x = g.pick(wanted=lambda x: x.rank and min(x.shape) > 0, most=100)
    axis = g.axis(x.rank)
    body = g.body()
    iteration = Value(g.name(), np.array(0, np.int64), np.array(0, np.int64))
    on = Value(g.name(), np.array(True), np.array(True))
    state = Value(g.name(), x.array, x.shaken)
    body.values += [iteration, on, state]
    part = body.add(body.one_of(["Tanh", "Neg", "Identity"]), [x])
    next_state = body.add("Concat", [state, part] if body.chance(0.5) else [part, state], axis=axis)
    message = body.message([body.add("Identity", [on]), next_state], [iteration, on, state])
    most = g.constant(np.array(g.int(0, 3), np.int64), 0.6)
    g.add("Loop", [most, g.constant(np.array(True)), x], 1, around(g, message), body=message)
