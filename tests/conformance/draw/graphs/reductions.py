"""Reductions and normalizations."""

import numpy as np

from .evaluate import Unfit
from .steps import step

REDUCTIONS = (
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceSumSquare ReduceProd".split()
)


@step(2.5)
def reduce(g):
    x = g.pick(wanted=lambda x: x.array.size > 0)
    axes = [g.axis(x.rank)] if x.rank and g.chance(0.7) else [int(i) for i in g.some(range(x.rank))]
    inputs = [x, g.shape_of(axes)] if axes or g.chance(0.5) else [x]
    noop = 1 if g.chance(0.1) else None
    y = g.add(
        g.one_of(REDUCTIONS), inputs, keepdims=g.one_of([0, 1, None]), noop_with_empty_axes=noop
    )
    if g.chance(0.4) and y.rank == x.rank:
        g.add(g.one_of(["Sub", "Add", "Mul"]), [x, y])


@step(2)
def softmax(g):
    x = g.pick(wanted=lambda x: x.rank and x.array.size > 0)
    g.add(g.one_of(["Softmax", "Softmax", "LogSoftmax"]), [x], axis=g.one_of([-1, g.axis(x.rank)]))


@step(1.5)
def layer(g):
    x = g.pick(wanted=lambda x: x.rank and x.array.size > 0)
    axis = g.one_of([-1, -1, g.axis(x.rank)])
    shape = x.shape[axis % x.rank :]
    scale, bias = g.weights(*shape, scale=1), g.weights(*shape, scale=1)
    if g.chance(0.4):
        g.add("LayerNormalization", [x, scale, *([bias] if g.chance(0.7) else [])], axis=axis)
        return
    if g.chance(0.3):
        rms(g, x, scale)
        return
    # The pattern that exporters wrote before the operator existed.
    axes = lambda: g.shape_of([-1])
    mean = g.add("ReduceMean", [x, axes()])
    centered = g.add("Sub", [x, mean])
    square = (
        g.add("Pow", [centered, g.number(2)])
        if g.chance(0.5)
        else g.add("Mul", [centered, centered])
    )
    variance = g.add("ReduceMean", [square, axes()])
    root = g.add("Sqrt", [g.add("Add", [variance, g.number(1e-2)])])
    y = g.add("Div", [centered, root])
    g.add("Add", [g.add("Mul", [y, scale]), bias])


def rms(g, x, scale):
    square = g.add("Pow", [x, g.number(2)])
    mean = g.add("ReduceMean", [square, g.shape_of([-1])])
    root = g.add("Sqrt", [g.add("Add", [mean, g.number(1e-2)])])
    y = g.add("Div", [x, root]) if g.chance(0.5) else g.add("Mul", [x, g.add("Reciprocal", [root])])
    g.add("Mul", [scale, y])


@step(0.7)
def places(g):
    x = g.pick(wanted=lambda x: x.rank and min(x.shape) > 0)
    axis = g.axis(x.rank)
    kind = g.int(0, 2)
    if kind == 0:
        g.add(g.one_of(["ArgMax", "ArgMin"]), [x], axis=axis, keepdims=g.one_of([0, 1]))
    elif kind == 1:
        k = g.shape_of([g.int(1, x.shape[axis])])
        g.add("TopK", [x, k], outputs=2, axis=axis, largest=g.one_of([0, 1]))
    else:
        axis = g.constant(np.array(axis, np.int64))
        g.add("CumSum", [x, axis], reverse=g.one_of([0, 1]), exclusive=g.one_of([0, 1]))


@step(0.7)
def moments(g):
    x = g.pick(least=3, wanted=lambda x: min(x.shape) > 0)
    c = x.shape[1]
    kind = g.int(0, 3)
    if kind == 0:
        g.add(
            "InstanceNormalization", [x, g.weights(c, scale=1), g.weights(c, scale=1)], epsilon=1e-2
        )
    elif kind == 1:
        groups = g.one_of([n for n in range(1, c + 1) if c % n == 0])
        scale, bias = g.weights(c, scale=1), g.weights(c, scale=1)
        g.add("GroupNormalization", [x, scale, bias], num_groups=groups, epsilon=1e-2)
    elif kind == 2:
        g.add("LpNormalization", [x], axis=g.axis(x.rank), p=2)
    else:
        if x.rank != 4:
            raise Unfit("only images")
        g.add("MeanVarianceNormalization", [x], axes=[0, 2, 3])
