"""Loops and branches that permute their values, pass values on unchanged, or stop early."""

import numpy as np

from ..types import BOOL
from .control import around, add_random_nodes, like, names
from .evaluate import Unfit
from .graph import Value
from .steps import step


def add_input(body, array, shaken=None):
    """Adds an input of a body."""
    value = Value(body.name(), array, array if shaken is None else shaken)
    body.values.append(value)
    return value


def tensors(values):
    return [v for v in values if v.dtype is not None]


def of_shape(g, x, shape):
    """Returns the values with the type of `x` and this shape."""
    return [v for v in tensors(g.values) if v.dtype == x.dtype and v.shape == shape]


def limit(body, x):
    """Limits a value, so that it does not grow from iteration to iteration."""
    return body.add(body.one_of(["Tanh", "Sigmoid", "Softsign"]), [x])


def body_outputs(body, values):
    """Returns outputs for a body: each name once, and no names of outer graphs."""
    own, seen, made = names(body), set(), []
    for v in values:
        if v.name in seen or v.name not in own or body.chance(0.1):
            v = body.add("Identity", [v])
        seen.add(v.name)
        made.append(v)
    return made


def next_states(body, states, x):
    """Returns the next value of each state, all of the shape of `x`."""
    next_ = []
    for state in states:
        kind = body.int(0, 5)
        if kind == 0:
            v = body.one_of(states)
        elif kind == 1:
            v = x
        elif kind == 2:
            v = body.one_of(next_ or states)
        elif kind == 3:
            v = body.add(body.one_of(["Add", "Sub", "Max", "Mul"]), [body.one_of(states), x])
            v = limit(body, v)
        else:
            v = limit(body, like(body, state))
        next_.append(v)
    if body.chance(0.25):
        next_ = [next_[i] for i in body.rng.permutation(len(next_))]
    return next_


@step(2)
def states(g):
    """A loop with several states of one shape, which it permutes."""
    x = g.pick(wanted=lambda x: x.array.size > 0, most=300)
    alike = of_shape(g, x, x.shape)
    firsts = [g.one_of(alike) if g.chance(0.7) else x for _ in range(g.int(1, 4))]
    body = g.body()
    iteration, on = (add_input(body, np.array(v)) for v in (np.int64(0), True))
    inner = [add_input(body, v.array, v.shaken) for v in firsts]
    add_random_nodes(body, g.int(0, 3))
    next_ = next_states(body, inner, x)
    still = on
    kind = g.int(0, 5)
    if kind == 0:
        still = body.add("Less", [iteration, body.constant(np.array(g.int(0, 3), np.int64))])
    elif kind == 1:
        mean = body.add("ReduceMean", [body.one_of(next_)], keepdims=0)
        still = body.add(
            body.one_of(["Less", "Greater"]), [mean, body.constant(np.array(0.1, x.dtype))]
        )
    elif kind == 2:
        still = body.constant(np.array(g.chance(0.5)))
    gathered = []
    for _ in range(g.int(0, 2)):
        kind = g.int(0, 4)
        pool = [[x], inner, next_, [iteration], body.values[len(g.values) :]][kind]
        v = g.one_of(tensors(pool))
        gathered.append(v)
    message = body.message(body_outputs(body, [still, *next_, *gathered]), [iteration, on, *inner])
    most = g.maybe(g.constant(np.array(g.int(0, 4), np.int64), 0.6), 0.95)
    start = g.maybe(g.constant(np.array(g.chance(0.9)), 0.4), 0.8)
    if most is None and kind not in (0, 2):
        raise Unfit("too many iterations")
    g.add(
        "Loop",
        [most, start, *firsts],
        len(firsts) + len(gathered),
        around(g, message),
        body=message,
    )


@step(1.5)
def scan_along_axes(g):
    """A scan of several values along any axes, forwards or backwards."""
    x = g.pick(wanted=lambda x: x.rank and min(x.shape) > 0 and max(x.shape) < 9, most=300)
    axis = g.int(0, x.rank - 1)
    n = x.shape[axis]
    long = [
        v
        for v in tensors(g.values)
        if v.dtype == x.dtype and n in v.shape and 0 < v.array.size <= 300
    ]
    scanned = [(x, axis)]
    for _ in range(g.int(0, 2)):
        v = g.one_of(long)
        scanned.append((v, g.one_of([i for i, m in enumerate(v.shape) if m == n])))
    reversed_ = [g.int(0, 1) for _ in scanned]
    body = g.body()
    part = lambda a, axis, back: np.take(a, n - 1 if back else 0, axis)
    first = part(x.array, axis, reversed_[0])
    alike = of_shape(g, x, first.shape)
    count = g.int(0, 3)
    zeros = lambda: g.constant(np.zeros_like(first), 0.3)
    firsts = [g.one_of(alike) if alike and g.chance(0.7) else zeros() for _ in range(count)]
    inner = [add_input(body, v.array, v.shaken) for v in firsts]
    parts = [
        add_input(body, part(v.array, a, r), part(v.shaken, a, r))
        for (v, a), r in zip(scanned, reversed_)
    ]
    add_random_nodes(body, g.int(0, 3))
    next_ = next_states(body, inner, parts[0])
    pool = [*parts, *inner, *next_, *body.values[len(g.values) :]]
    gathered = [g.one_of(tensors(pool)) for _ in range(g.int(0 if count else 1, 2))]
    out_axes = [g.int(0, v.rank) for v in gathered]
    out_back = [g.int(0, 1) for _ in gathered]
    message = body.message(body_outputs(body, [*next_, *gathered]), [*inner, *parts])
    g.add(
        "Scan",
        [*firsts, *(v for v, _ in scanned)],
        count + len(gathered),
        around(g, message),
        body=message,
        num_scan_inputs=len(scanned),
        scan_input_axes=[a - (v.rank if g.chance(0.2) else 0) for v, a in scanned],
        scan_input_directions=reversed_,
        scan_output_axes=out_axes,
        scan_output_directions=out_back,
    )


@step(1.5)
def branches_that_return_captures(g):
    """Branches that return captures values, constants, or a value twice."""
    x = g.pick(wanted=lambda x: x.array.size > 0, most=600)
    alike = of_shape(g, x, x.shape)
    conditions = [
        v for v in g.values if v.dtype is not None and v.dtype == BOOL and v.array.size == 1
    ]
    random_condition = lambda: g.constant(np.array(g.chance(0.5)), 0.8)
    condition = g.one_of(conditions) if conditions and g.chance(0.5) else random_condition()
    count = g.int(1, 4)
    bodies = []
    for name in ("then", "else"):
        body = g.body()
        add_random_nodes(body, g.one_of([0, 0, 1, 2, 3]))
        out = []
        for _ in range(count):
            kind = g.int(0, 4)
            if kind <= 1:
                out.append(g.one_of(alike))
            elif kind == 2:
                out.append(body.constant(g.tensor(x.dtype, x.shape, -1, 1, extremes=0)))
            elif kind == 3 and out:
                out.append(g.one_of(out))
            else:
                out.append(like(body, x))
        bodies.append(body.message(body_outputs(body, out), name=name))
    made = g.add(
        "If", [condition], count, around(g, *bodies), then_branch=bodies[0], else_branch=bodies[1]
    )
    made = made if count > 1 else [made]
    if g.chance(0.5):
        g.add(g.one_of(["Add", "Sub", "Mul"]), [g.one_of(made), g.one_of(alike)])


@step(1.5)
def data_dependent_sizes(g):
    """Values of data-dependent size."""
    x = g.pick(least=1, wanted=lambda x: min(x.shape) > 0, most=600)
    kind = g.int(0, 4)
    axis = g.axis(x.rank)
    n = x.shape[axis]
    flags = g.constant(g.rng.random(g.int(1, n) if g.chance(0.2) else n) < 0.6, 0.7)
    if kind == 0:
        y = g.add("Compress", [x, flags], axis=axis)
    elif kind == 1:
        where = g.add("NonZero", [flags])
        where = g.add("Squeeze", [where, g.shape_of([0])])
        y = g.add("Gather", [x, where], axis=axis)
    elif kind == 2:
        counts = g.constant(g.integers(np.dtype("int64"), (n,), 0, 3), 0.7)
        y, at, back, many = g.add("Unique", [counts], 4, sorted=g.int(0, 1))
        y = g.add("Gather", [x, at], axis=axis)
        if g.chance(0.5):
            y = g.add("Gather", [y, back], axis=axis)
    elif kind == 3:
        k = g.constant(np.array([g.int(0, n)], np.int64), 0.7)
        y, at = g.add("TopK", [x, k], 2, axis=axis)
    else:
        # The number of ends must be known, so the input is a scalar.
        k = g.add("Unsqueeze", [g.constant(np.array(g.int(0, n)), 0.7), g.shape_of([0])])
        y = g.add("Slice", [x, g.shape_of([0]), k, g.shape_of([axis])])
    if not y.array.size and g.chance(0.8):
        return
    kind = g.int(0, 5)
    if kind == 0:
        y = g.add("Reshape", [y, g.shape_of([-1])])
        g.add("Concat", [y, y], axis=0)
    elif kind == 1:
        g.add("Concat", [y, x] if g.chance(0.5) else [x, y], axis=axis)
    elif kind == 2:
        perm = [int(i) for i in g.rng.permutation(y.rank)]
        z = g.add("Transpose", [y], perm=perm)
        g.add("Reshape", [z, g.add("Shape", [z])])
    elif kind == 3:
        z = g.add("Tanh", [y])
        g.add("Add", [z, y])
    elif kind == 4:
        g.add("ReduceMean", [y, g.shape_of([axis])], keepdims=g.int(0, 1))
    elif kind == 5 and y.rank > 1 and y.shape[0] > 0:
        sizes = g.add("Concat", [g.shape_of([1]), g.shape_of([y.shape[0] - 1])], axis=0)
        g.add("Split", [y, sizes], 2, axis=0)
