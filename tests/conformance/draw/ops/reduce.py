"""Reductions, and the indices of the largest and smallest elements."""

import numpy as np

from ..registry import operator
from ..types import F16, I64, INTEGERS, wide

REDUCTIONS = {
    "ReduceL1": lambda x, **how: np.sum(np.abs(x), **how),
    "ReduceL2": lambda x, **how: np.sqrt(np.sum(np.square(x), **how)),
    "ReduceLogSum": lambda x, **how: np.log(np.sum(x, **how)),
    "ReduceLogSumExp": lambda x, **how: np.log(np.sum(np.exp(x), **how)),
    "ReduceMax": np.max,
    "ReduceMean": np.mean,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
    "ReduceSumSquare": lambda x, **how: np.sum(np.square(x), **how),
}


@operator(*REDUCTIONS)
def reduce(d):
    dtype = d.type()
    largest = 1.3 if dtype == F16 or d.op == "ReduceProd" else 3
    low = 0.25 if d.op == "ReduceLogSum" else -largest
    no_empty = d.op in ("ReduceMean", "ReduceMax", "ReduceMin") or dtype in INTEGERS
    shape = d.shape(empty=0 if no_empty else 0.1)
    if dtype in INTEGERS and d.op in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean"):
        low = largest = 4
    x = d.tensor(
        dtype,
        shape,
        low=low,
        high=largest,
        extremes=0.1 if d.op in ("ReduceMax", "ReduceMin") else 0,
    )
    rank = len(shape)
    axes = [axis - rank * (d.version >= 11 and d.chance(0.4)) for axis in d.some(range(rank))]
    axes = d.maybe(axes, 0.8)
    attributes = d.attributes(
        keepdims=d.maybe(d.int(0, 1)), noop_with_empty_axes=d.maybe(d.int(0, 1))
    )
    as_input = "axes" not in d.schema.attributes
    if not as_input and not axes:
        axes = None

    def reference(x, axes=None):
        axes = () if axes is None else tuple(int(axis) for axis in axes)
        if not axes and not attributes.get("noop_with_empty_axes"):
            axes = tuple(range(rank))
        x = (
            x.astype(np.float64)
            if dtype in INTEGERS
            and d.op.startswith(("ReduceL", "ReduceMean"))
            and d.op != "ReduceL1"
            else x
        )
        with np.errstate(all="ignore"):
            result = REDUCTIONS[d.op](x, axis=axes, keepdims=bool(attributes.get("keepdims", 1)))
        return result.astype(dtype) if dtype in INTEGERS else result

    if as_input:
        given = None if axes is None else d.ints(axes)
        constant = (1,) if not attributes.get("keepdims", 1) else ()
        return d.case(
            [x, given], wide(reference), attributes=attributes, constant=constant, dynamic=True
        )
    attributes |= d.attributes(axes=axes)
    return d.case([x], wide(lambda x: reference(x, axes)), attributes=attributes)


@operator("ArgMax", "ArgMin")
def arg(d):
    shape = d.shape(least=1, empty=0)
    dtype = d.type()
    rank = len(shape)
    axis = d.axis(rank) if d.version >= 11 else d.int(0, rank - 1)
    attributes = d.attributes(
        axis=d.maybe(axis), keepdims=d.maybe(d.int(0, 1)), select_last_index=d.maybe(d.int(0, 1))
    )
    axis = attributes.get("axis", 0)

    def reference(x):
        x = x.astype(np.float64) if dtype not in INTEGERS else x
        find = np.argmax if d.op == "ArgMax" else np.argmin
        if attributes.get("select_last_index"):
            found = x.shape[axis] - 1 - find(np.flip(x, axis), axis)
        else:
            found = find(x, axis)
        return (
            np.expand_dims(found, axis).astype(I64)
            if attributes.get("keepdims", 1)
            else np.asarray(found, I64)
        )

    return d.case(
        [d.tensor(dtype, shape, low=-2, high=2, extremes=0)], reference, attributes=attributes
    )


@operator("CumSum", "CumProd")
def cumulative(d):
    shape = d.shape(least=1)
    attributes = d.attributes(exclusive=d.maybe(d.int(0, 1)), reverse=d.maybe(d.int(0, 1)))
    x = d.tensor(d.type("T"), shape, low=-1.5, high=2, extremes=0)
    axis = np.array(d.axis(len(shape)), d.type("T2"))

    def reference(x, axis):
        axis = int(axis)
        x = np.flip(x, axis) if attributes.get("reverse") else x
        y = (np.cumsum if d.op == "CumSum" else np.cumprod)(x, axis, dtype=x.dtype)
        if attributes.get("exclusive"):
            first = np.full_like(np.take(x, [0] if x.shape[axis] else [], axis), d.op == "CumProd")
            kept = np.take(y, range(max(x.shape[axis] - 1, 0)), axis)
            y = np.concatenate([first, kept], axis)
        return np.flip(y, axis) if attributes.get("reverse") else y

    return d.case([x, axis], wide(reference), attributes=attributes)
