"""Loops and branches that hand values on in other places, hand on what they were given, or stop."""

import numpy as np

from ..types import BOOL
from .control import around, drawn, like, names
from .evaluate import Unfit
from .graph import Value
from .steps import step


def given(body, array, shaken=None):
    """What a body is given."""
    value = Value(body.name(), array, array if shaken is None else shaken)
    body.values.append(value)
    return value


def tensors(values):
    return [v for v in values if v.dtype is not None]


def same(g, x, shape):
    """The values of the type of `x` that have this shape."""
    return [v for v in tensors(g.values) if v.dtype == x.dtype and v.shape == shape]


def tame(body, x):
    """The value, such that it does not grow from turn to turn."""
    return body.add(body.one_of(["Tanh", "Sigmoid", "Softsign"]), [x])


def results(body, values):
    """Values that a body gives: each once, and of its own."""
    own, seen, made = names(body), set(), []
    for v in values:
        if v.name in seen or v.name not in own or body.chance(0.1):
            v = body.add("Identity", [v])
        seen.add(v.name)
        made.append(v)
    return made


def following(body, states, x):
    """What the next turn is given of each state: all of the shape of `x`."""
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
            v = tame(body, v)
        else:
            v = tame(body, like(body, state))
        next_.append(v)
    if body.chance(0.25):
        next_ = [next_[i] for i in body.rng.permutation(len(next_))]
    return next_


@step(2)
def states(g):
    """A loop with several values of one shape, handed on crosswise."""
    x = g.pick(wanted=lambda x: x.array.size > 0, most=300)
    alike = same(g, x, x.shape)
    firsts = [g.one_of(alike) if g.chance(0.7) else x for _ in range(g.int(1, 4))]
    body = g.body()
    turn, on = (given(body, np.array(v)) for v in (np.int64(0), True))
    inner = [given(body, v.array, v.shaken) for v in firsts]
    drawn(body, g.int(0, 3))
    next_ = following(body, inner, x)
    still = on
    kind = g.int(0, 5)
    if kind == 0:
        still = body.add("Less", [turn, body.constant(np.array(g.int(0, 3), np.int64))])
    elif kind == 1:
        mean = body.add("ReduceMean", [body.one_of(next_)], keepdims=0)
        still = body.add(body.one_of(["Less", "Greater"]), [mean, body.constant(np.array(0.1, x.dtype))])
    elif kind == 2:
        still = body.constant(np.array(g.chance(0.5)))
    gathered = []
    for _ in range(g.int(0, 2)):
        kind = g.int(0, 4)
        pool = [[x], inner, next_, [turn], body.values[len(g.values) :]][kind]
        v = g.one_of(tensors(pool))
        gathered.append(v)
    message = body.message(results(body, [still, *next_, *gathered]), [turn, on, *inner])
    most = g.maybe(g.constant(np.array(g.int(0, 4), np.int64), 0.6), 0.95)
    start = g.maybe(g.constant(np.array(g.chance(0.9)), 0.4), 0.8)
    if most is None and kind not in (0, 2):
        raise Unfit("without end")
    g.add("Loop", [most, start, *firsts], len(firsts) + len(gathered), around(g, message), body=message)


@step(1.5)
def rows(g):
    """A scan of several values along axes, either way."""
    x = g.pick(wanted=lambda x: x.rank and min(x.shape) > 0 and max(x.shape) < 9, most=300)
    axis = g.int(0, x.rank - 1)
    n = x.shape[axis]
    long = [v for v in tensors(g.values) if v.dtype == x.dtype and n in v.shape and 0 < v.array.size <= 300]
    scanned = [(x, axis)]
    for _ in range(g.int(0, 2)):
        v = g.one_of(long)
        scanned.append((v, g.one_of([i for i, m in enumerate(v.shape) if m == n])))
    reversed_ = [g.int(0, 1) for _ in scanned]
    body = g.body()
    part = lambda a, axis, back: np.take(a, n - 1 if back else 0, axis)
    first = part(x.array, axis, reversed_[0])
    alike = same(g, x, first.shape)
    count = g.int(0, 3)
    zeros = lambda: g.constant(np.zeros_like(first), 0.3)
    firsts = [g.one_of(alike) if alike and g.chance(0.7) else zeros() for _ in range(count)]
    inner = [given(body, v.array, v.shaken) for v in firsts]
    parts = [given(body, part(v.array, a, r), part(v.shaken, a, r)) for (v, a), r in zip(scanned, reversed_)]
    drawn(body, g.int(0, 3))
    next_ = following(body, inner, parts[0])
    pool = [*parts, *inner, *next_, *body.values[len(g.values) :]]
    gathered = [g.one_of(tensors(pool)) for _ in range(g.int(0 if count else 1, 2))]
    out_axes = [g.int(0, v.rank) for v in gathered]
    out_back = [g.int(0, 1) for _ in gathered]
    message = body.message(results(body, [*next_, *gathered]), [*inner, *parts])
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
def given_back(g):
    """Branches that give what they are given, constants, or a value twice."""
    x = g.pick(wanted=lambda x: x.array.size > 0, most=600)
    alike = same(g, x, x.shape)
    conditions = [v for v in g.values if v.dtype is not None and v.dtype == BOOL and v.array.size == 1]
    drawn_one = lambda: g.constant(np.array(g.chance(0.5)), 0.8)
    condition = g.one_of(conditions) if conditions and g.chance(0.5) else drawn_one()
    count = g.int(1, 4)
    bodies = []
    for name in ("then", "else"):
        body = g.body()
        drawn(body, g.one_of([0, 0, 1, 2, 3]))
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
        bodies.append(body.message(results(body, out), name=name))
    made = g.add("If", [condition], count, around(g, *bodies), then_branch=bodies[0], else_branch=bodies[1])
    made = made if count > 1 else [made]
    if g.chance(0.5):
        g.add(g.one_of(["Add", "Sub", "Mul"]), [g.one_of(made), g.one_of(alike)])


@step(1.5)
def told_by_running(g):
    """Values whose size only running tells."""
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
        # How many ends there are must be known, so it is a number without axes that the model is given.
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
