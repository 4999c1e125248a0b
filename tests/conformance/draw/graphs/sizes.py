"""Sizes computed_size from other sizes, and operators that use them."""

import numpy as np
from onnx import helper, numpy_helper

from ..types import F32
from .evaluate import Unfit
from .steps import step


def size(g, x=None):
    """Returns a size of a value as a tensor of one element."""
    x = x or g.pick(least=1)
    axis = g.int(0, x.rank - 1)
    kind = g.int(0, 2)
    if kind == 0:
        return g.add("Shape", [x], start=axis, end=axis + 1)
    shape = g.add("Shape", [x])
    if kind == 1:
        places = [axis - x.rank if g.chance(0.3) else axis]
        return g.add("Gather", [shape, g.shape_of(places)], axis=0)
    return g.add("Slice", [shape, g.shape_of([axis]), g.shape_of([axis + 1])])


def computed_size(g, x=None):
    """Returns a size after some arithmetic."""
    n = size(g, x)
    for _ in range(g.int(0, 2)):
        other = size(g) if g.chance(0.3) else g.shape_of([g.int(1, 3)])
        op = g.one_of(["Add", "Sub", "Mul", "Div", "Max", "Min", "Mod"])
        if op in ("Div", "Mod") and not other.array.all():
            raise Unfit("divides by zero")
        n = g.add(op, [n, other])
    return n


@step(0.8)
def reshape_by_sizes(g):
    x = g.pick(wanted=lambda x: x.rank > 1 and min(x.shape) > 0)
    at = g.int(0, x.rank - 2)
    a, b = (g.add("Shape", [x], start=i, end=i + 1) for i in (at, at + 1))
    joined = g.add("Mul", [a, b] if g.chance(0.5) else [b, a])
    rest = [g.add("Shape", [x], start=i, end=i + 1) for i in range(x.rank) if i not in (at, at + 1)]
    parts = [*rest[:at], joined, *rest[at:]]
    if g.chance(0.3):
        parts[g.int(0, len(parts) - 1)] = g.shape_of([-1])
    y = g.add("Reshape", [x, g.add("Concat", parts, axis=0)])
    if g.chance(0.4):
        g.add("Reshape", [y, g.add("Shape", [x])])


@step(0.8)
def slice_or_pad(g):
    """A slice or padding of a computed_size size."""
    x = g.pick(least=1, wanted=lambda x: min(x.shape) > 0)
    n = computed_size(g, x if g.chance(0.7) else None)
    if n.array[0] < 0:
        raise Unfit("no size")
    axis = g.axis(x.rank)
    if g.chance(0.7):
        start, end = (g.shape_of([0]), n) if g.chance(0.6) else (n, g.shape_of([99]))
        g.add("Slice", [x, start, end, g.shape_of([axis])])
    elif x.rank == 1:
        g.add("Pad", [x, g.add("Concat", [n, g.shape_of([1])], axis=0)])


@step(0.8)
def expand(g):
    """A broadcast to the shape of another value."""
    x = g.pick(least=1)
    y = g.pick(wanted=lambda y: y.rank >= x.rank and fits(x.shape, y.shape))
    shape = g.add("Shape", [y])
    if g.chance(0.3):
        shape = g.add("Max", [shape, g.shape_of([1] * y.rank)])
    z = g.add("Expand", [x, shape])
    if g.chance(0.4):
        g.add(g.one_of(["Add", "Mul"]), [z, y] if g.chance(0.5) else [y, z])


def fits(a, b):
    return all(n in (1, m) for n, m in zip(a[::-1], b[::-1]))


@step(0.7)
def numbers_up_to_size(g):
    """A range up to a computed_size size."""
    n = computed_size(g)
    if not 0 <= n.array[0] < 30:
        raise Unfit("too many, or negative")
    n = g.add("Squeeze", [n, g.shape_of([0])] if g.chance(0.7) else [n])
    zero, one = (g.constant(np.array(i, np.int64)) for i in (0, g.int(1, 2)))
    numbers = g.add("Range", [zero, n, one])
    if g.chance(0.6):
        g.add("Cast", [numbers], to=helper.np_dtype_to_tensor_dtype(g.dtype))


@step(0.6)
def constant_of_size(g):
    n = computed_size(g)
    if not 0 <= n.array[0] < 30:
        raise Unfit("too many, or negative")
    shape = g.add("Concat", [n, g.shape_of([2])], axis=0)
    value = g.tensor(g.one_of([g.dtype, F32]), (1,), -2, 2)
    g.add("ConstantOfShape", [shape], value=numpy_helper.from_array(value))


@step(0.6)
def size_values(g):
    """Sizes as numbers, and comparisons of them."""
    n = computed_size(g)
    kind = g.int(0, 2)
    if kind == 0:
        g.add("Cast", [n], to=helper.np_dtype_to_tensor_dtype(g.dtype))
    elif kind == 1:
        g.add(g.one_of(["Less", "Equal", "Greater"]), [n, g.shape_of([g.int(1, 4)])])
    else:
        x = g.pick(least=1)
        sizes = g.add("Shape", [x])
        g.add("ReduceProd", [sizes], keepdims=g.one_of([0, 1]))
