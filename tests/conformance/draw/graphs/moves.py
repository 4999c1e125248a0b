"""Operators that move elements: views, and copies in another order."""

import numpy as np
from onnx import helper

from ..types import BOOL, I64
from .evaluate import Unfit
from .steps import step


def any_type(g):
    return g.one_of([g.dtype] * 8 + [I64, BOOL])


@step(2)
def reshape(g):
    x = g.pick(dtype=any_type(g))
    sizes, left = [], x.array.size
    if left == 0:
        raise Unfit("no elements")
    for i in range(g.int(0, 3)):
        if left == 1 and g.chance(0.5):
            break
        divisors = [d for d in range(1, left + 1) if left % d == 0]
        sizes.append(g.one_of(divisors))
        left //= sizes[-1]
    sizes.append(left)
    if g.chance(0.3):
        sizes = [*x.shape[:-2], int(np.prod(x.shape[-2:]))] if g.chance(0.5) else [*x.shape, 1]
    sizes = list(sizes)
    if g.chance(0.5):
        sizes[g.int(0, len(sizes) - 1)] = -1
    elif x.rank and len(sizes) and sizes[0] == x.shape[0]:
        sizes[0] = 0
    g.add("Reshape", [x, g.shape_of(sizes)])


@step(2.5)
def transpose(g):
    x = g.pick(dtype=any_type(g), least=1)
    perm = [int(i) for i in g.rng.permutation(x.rank)]
    if g.chance(0.4) and x.rank > 1:
        perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    y = g.add("Transpose", [x], perm=g.maybe(perm, 0.9))
    if g.chance(0.3):
        z = g.add(g.one_of(["Relu", "Neg", "Identity"]), [y]) if y.dtype == g.dtype else y
        g.add("Transpose", [z], perm=[perm.index(i) for i in range(x.rank)])


@step()
def squeeze(g):
    x = g.pick(dtype=any_type(g))
    ones = [i for i, n in enumerate(x.shape) if n == 1]
    if ones and g.chance(0.5):
        axes = g.some(ones, 1)
        axes = [i - x.rank if g.chance(0.5) else i for i in axes]
        g.add("Squeeze", [x, g.shape_of(axes)])
    elif x.rank < 5:
        g.add("Unsqueeze", [x, g.shape_of([g.int(-x.rank - 1, x.rank)])])


@step(0.5)
def flatten(g):
    x = g.pick(dtype=any_type(g))
    g.add("Flatten", [x], axis=g.int(-x.rank, x.rank))


@step(3)
def concat(g):
    x = g.pick(dtype=any_type(g), least=1)
    axis = g.axis(x.rank)
    at = axis % x.rank
    fits = lambda y: y.rank == x.rank and all(
        a == b for i, (a, b) in enumerate(zip(x.shape, y.shape)) if i != at
    )
    parts = [x]
    for _ in range(g.int(0, 2)):
        kind = g.int(0, 3)
        if kind == 0:
            parts.append(x)
        elif kind == 1:
            shape = tuple(g.int(0, 3) if i == at else n for i, n in enumerate(x.shape))
            parts.append(g.constant(g.tensor(x.dtype, shape, extremes=0), 0.3))
        else:
            parts.append(g.pick(dtype=x.dtype, wanted=fits))
    g.add("Concat", [parts[i] for i in g.rng.permutation(len(parts))], axis=axis)


@step(2.5)
def split(g):
    x = g.pick(dtype=any_type(g), wanted=lambda x: x.rank and max(x.shape) > 1)
    axis = g.axis(x.rank)
    size = x.shape[axis]
    count = g.int(2, 3)
    if g.chance(0.3) and size >= count:
        parts = g.add("Split", [x], outputs=count, axis=axis, num_outputs=count)
    else:
        cuts = sorted(g.int(0, size) for _ in range(count - 1))
        sizes = np.diff([0, *cuts, size])
        parts = g.add("Split", [x, g.shape_of(sizes)], outputs=count, axis=axis)
    if g.chance(0.3):
        g.add("Concat", [parts[i] for i in g.rng.permutation(len(parts))], axis=axis)


@step(2.5)
def cut(g):
    x = g.pick(dtype=any_type(g), least=1)
    axes = g.some(list(range(x.rank)), 1)[:2]
    starts, ends, steps = [], [], []
    for axis in axes:
        n = x.shape[axis]
        step = g.one_of([1, 1, 1, 1, 2, -1, -1, -2])
        # The evaluator is wrong for a start before the first element and a negative step.
        a, b = g.int(-n if step < 0 else -n - 1, n + 1), g.int(-n - 1, n + 1)
        if g.chance(0.5):
            a, b = (0, n - g.int(0, 1)) if step > 0 else (n - 1, -n - 1)
        starts, ends, steps = [*starts, a], [*ends, b], [*steps, step]
    axes = [a - x.rank if g.chance(0.3) else a for a in axes]
    y = g.add("Slice", [x, *(g.shape_of(n) for n in (starts, ends, axes, steps))])
    if not y.array.size and g.chance(0.7):
        g.values.remove(y)


@step(1.5)
def gather(g):
    x = g.pick(dtype=any_type(g), wanted=lambda x: x.rank and min(x.shape) > 0)
    axis = g.axis(x.rank)
    n = x.shape[axis]
    places = g.integers(I64, g.shape(0, 2, (1, 3), 0), -n, n - 1)
    g.add("Gather", [x, g.constant(places, 0.2)], axis=axis)


@step(1.2)
def expand(g):
    x = g.pick(dtype=any_type(g), most=500)
    shape = tuple(g.int(1, 3) if n == 1 else n for n in x.shape)
    shape = shape if g.chance(0.6) else (g.int(1, 3), *shape)
    if len(shape) > 5:
        raise Unfit("many axes")
    if g.chance(0.3):
        g.add("Tile", [x, g.shape_of([g.int(1, 2) for _ in x.shape])])
    else:
        g.add("Expand", [x, g.shape_of(shape)])


@step(1.2)
def pad(g):
    x = g.pick(least=1)
    ends = [g.int(0, 2) if g.chance(0.5) else 0 for _ in range(2 * x.rank)]
    mode = g.one_of(["constant", "constant", "edge", "reflect"])
    if mode != "constant" and any(n == 0 for n in x.shape):
        raise Unfit("nothing to repeat")
    if mode == "reflect" and any(e >= n for e, n in zip(ends, [*x.shape, *x.shape])):
        raise Unfit("too little to mirror")
    value = (
        [g.constant(np.array(g.float(-1, 1), x.dtype))]
        if mode == "constant" and g.chance(0.5)
        else []
    )
    g.add("Pad", [x, g.shape_of(ends), *value], mode=mode)


@step(1.5)
def reshape_to_gathered_sizes(g):
    """Shape → Gather → Concat → Reshape, as exporters write it."""
    x = g.pick(least=2)
    shape = g.add("Shape", [x])
    first = g.add("Gather", [shape, g.constant(np.array(0, np.int64))], axis=0)
    first = g.add("Unsqueeze", [first, g.shape_of([0])])
    kind = g.int(0, 2)
    if kind == 0:
        sizes = [first, g.shape_of([-1])]
    elif kind == 1:
        rest = g.add("Slice", [shape, g.shape_of([1]), g.shape_of([99])])
        sizes = [g.add("ReduceProd", [rest], keepdims=1), first]
    else:
        sizes = [g.shape_of([1]), shape]
    wanted = g.add("Concat", sizes, axis=0)
    if x.array.size:
        g.add("Reshape", [x, wanted])


@step(0.7)
def depth(g):
    x = g.pick(rank=4)
    if x.shape[1] % 4 == 0:
        g.add("DepthToSpace", [x], blocksize=2, mode=g.one_of(["DCR", "CRD"]))
    elif x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0:
        g.add("SpaceToDepth", [x], blocksize=2)


@step(0.7)
def scatter(g):
    x = g.pick(wanted=lambda x: x.rank and min(x.shape) > 0)
    axis = g.axis(x.rank)
    shape = tuple(1 if i == axis % x.rank else n for i, n in enumerate(x.shape))
    places = g.integers(I64, shape, 0, x.shape[axis] - 1)
    updates = g.constant(g.tensor(x.dtype, shape, extremes=0), 0.5)
    g.add("ScatterElements", [x, g.constant(places), updates], axis=axis)


@step(0.5)
def compress(g):
    """A data-dependent number of rows."""
    x = g.pick(dtype=any_type(g), least=1)
    axis = g.axis(x.rank)
    g.add("Compress", [x, g.constant(g.tensor(BOOL, (x.shape[axis],)), 0.6)], axis=axis)


@step()
def duplicate(g):
    """A duplicate of an existing node."""
    nodes = [node for node in g.nodes if len(node.output) == 1 and node.op_type != "Constant"]
    if not nodes:
        raise Unfit("no nodes")
    node = g.one_of(nodes[-5:])
    values = {x.name: x for x in g.values} | g.fixed | {"": None}
    if any(a.HasField("g") for a in node.attribute) or not set(node.input) <= set(values):
        raise Unfit("bodies")
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    y = g.add(node.op_type, [values[name] for name in node.input], **attributes)
    other = next((x for x in g.values if x.name == node.output[0]), None)
    if other and y.dtype == g.dtype and g.chance(0.5):
        g.add(g.one_of(["Add", "Sub", "Mul"]), [y, other])
