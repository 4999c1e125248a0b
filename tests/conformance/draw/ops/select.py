"""Selection: the largest, distinct and nonzero elements; and tensors made of numbers."""

import numpy as np

from ..registry import operator
from ..types import (
    BOOL,
    BY_NAME,
    COMPLEX,
    F32,
    F64,
    I64,
    INTEGERS,
    STRING,
    is_float,
    onnx_type,
    wide,
)


@operator("Compress")
def compress(d):
    x = d.tensor(d.type("T"), d.shape(least=1))
    axis = d.maybe(d.axis(x.ndim) if d.version >= 11 else d.int(0, x.ndim - 1), 0.7)
    size = x.size if axis is None else x.shape[axis]
    keep = d.tensor(BOOL, [d.int(0, size)])
    attributes = d.attributes(axis=axis)
    return d.case(
        [x, keep], lambda x, keep: np.compress(keep, x, axis), attributes=attributes, dynamic=True
    )


@operator("NonZero")
def non_zero(d):
    x = d.tensor(d.type(), d.shape(least=1), low=-1, high=1)
    x = np.where(
        d.rng.random(x.shape) < 0.4, "" if x.dtype == STRING else np.zeros((), x.dtype), x
    ).astype(x.dtype)
    return d.case([x], lambda x: np.array(np.nonzero(x), I64).reshape(x.ndim, -1), dynamic=True)


@operator("OneHot")
def one_hot(d):
    at = d.type("T1", among=INTEGERS + (F32, F64))
    depth = d.int(1, 5)
    indices = d.tensor(at, d.shape(most=3), low=-depth - 1, high=depth + 1, extremes=0)
    indices = np.rint(indices).astype(at) if is_float(at) else indices
    values = d.tensor(d.type("T3"), [2], extremes=0)
    axis = d.int(-indices.ndim - 1, indices.ndim)
    attributes = d.attributes(axis=d.maybe(axis))

    def reference(indices, depth, values):
        axis = attributes.get("axis", -1)
        depth = int(depth.reshape(()))
        with np.errstate(all="ignore"):
            whole = indices.astype(np.int64)
        whole = np.where(whole < 0, whole + depth, whole)
        hot = np.expand_dims(whole, axis if axis >= 0 else whole.ndim + 1 + axis)
        place = axis if axis >= 0 else axis + whole.ndim + 1
        shape = [1] * (whole.ndim + 1)
        shape[place] = depth
        return np.where(hot == np.arange(depth).reshape(shape), values[1], values[0]).astype(
            values.dtype
        )

    count = np.array(depth, d.type("T2"))
    return d.case(
        [indices, count.reshape(d.one_of([(), (1,)])), values],
        reference,
        attributes=attributes,
        dynamic=True,
    )


@operator("TopK")
def top_k(d):
    shape = d.shape(least=1, empty=0)
    axis = d.axis(len(shape)) if d.version >= 11 else d.int(0, len(shape) - 1)
    attributes = d.attributes(axis=axis, largest=d.maybe(d.int(0, 1)), sorted=d.maybe(1))
    if axis % len(shape) == len(shape) - 1 and d.chance(0.5):
        del attributes["axis"]
    k = d.int(0 if d.chance(0.1) else 1, shape[axis])
    x = d.tensor(d.type("T"), shape, low=-3, high=3, extremes=0)

    def reference(x, *_):
        sign = -1 if attributes.get("largest", 1) else 1
        # Of equal elements, the first comes first.
        keys = sign * (x.astype(object) if x.dtype.kind in "iu" else x.astype(F64))
        order = np.argsort(keys, axis, kind="stable")
        order = np.take(order, range(k), axis).astype(I64)
        return np.take_along_axis(x, order, axis), order

    if d.version < 10:
        return d.case([x], reference, outputs=2, attributes=attributes | {"k": k})
    return d.case([x, d.ints([k])], reference, outputs=2, attributes=attributes, dynamic=True)


@operator("Unique")
def unique(d):
    # Complex numbers have no order.
    dtype = d.type(among=set(BY_NAME.values()) - set(COMPLEX))
    x = d.tensor(dtype, d.shape(least=1, most=3, empty=0), low=-1, high=2, extremes=0)
    x = np.rint(x.astype(F64)).astype(x.dtype) if is_float(x.dtype) else x
    axis = d.maybe(d.axis(x.ndim))
    attributes = d.attributes(axis=axis, sorted=d.maybe(d.int(0, 1)))
    outputs = [True, *(d.chance(0.6) for _ in range(3))]
    while not outputs[-1]:
        outputs.pop()

    def reference(x):
        parts = (
            list(x.reshape(-1))
            if axis is None
            else [np.asarray(np.take(x, i, axis)) for i in range(x.shape[axis])]
        )
        keys = [part if axis is None else tuple(part.reshape(-1).tolist()) for part in parts]
        found = list(dict.fromkeys(keys))
        found = sorted(found) if attributes.get("sorted", 1) else found
        first = [keys.index(key) for key in found]
        values = (
            np.array([keys[i] for i in first], x.dtype) if axis is None else np.take(x, first, axis)
        )
        inverse = [found.index(key) for key in keys]
        counts = [keys.count(key) for key in found]
        results = [values, *(np.array(places, I64) for places in (first, inverse, counts))]
        return tuple(result for result, used in zip(results, outputs) if used)

    return d.case([x], reference, outputs=outputs, attributes=attributes, dynamic=True)


@operator("EyeLike")
def eye_like(d):
    x = d.tensor(d.type("T1", among=INTEGERS + (F32, F64, BOOL)), d.shape(least=2, most=2))
    dtype = d.maybe(d.type("T2", among=INTEGERS + (F32, F64, BOOL)))
    attributes = d.attributes(
        k=d.maybe(d.int(-5, 5)), dtype=None if dtype is None else onnx_type(dtype)
    )
    reference = lambda x: np.eye(*x.shape, attributes.get("k", 0), dtype or x.dtype)
    return d.case([x], reference, attributes=attributes)


@operator("Range")
def ranging(d):
    dtype = d.type()
    start, limit = d.int(-10, 10), d.int(-10, 10)
    step = d.one_of([1, 2, 3, -1, -2])
    if is_float(dtype):
        step *= d.one_of([0.5, 0.25, 1])
    count = max(int(np.ceil((limit - start) / step)), 0)
    values = [np.array(value, dtype) for value in (start, limit, step)]
    reference = lambda start, *_: (start.astype(F64) + np.arange(count) * step).astype(dtype)
    return d.case(values, reference, dynamic=True, symbolic=False)


@operator("Hardmax")
def hardmax(d):
    x = d.tensor(d.type(), d.shape(least=1, empty=0), extremes=0)
    axis = d.axis(x.ndim) if d.version >= 11 else d.int(0, x.ndim - 1)
    attributes = d.attributes(axis=d.maybe(axis) if x.ndim > 1 or d.version >= 13 else axis)

    def reference(x):
        axis = attributes.get("axis", -1 if d.version >= 13 else 1)
        rows = in_rows(x, axis) if d.version < 13 else np.moveaxis(x, axis, -1)
        hot = (np.arange(rows.shape[-1]) == np.argmax(rows, -1)[..., None]).astype(x.dtype)
        return hot.reshape(x.shape) if d.version < 13 else np.moveaxis(hot, -1, axis)

    return d.case([x], reference, attributes=attributes)


def in_rows(x, axis):
    """Flattens a tensor to a matrix as old versions do: all axes from one on are a row."""
    axis += x.ndim if axis < 0 else 0
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


@operator("Softmax", "LogSoftmax")
def softmax(d):
    x = d.tensor(d.type(), d.shape(least=1, empty=0), low=-6, high=6, extremes=0)
    axis = d.axis(x.ndim) if d.version >= 11 else d.int(0, x.ndim - 1)
    attributes = d.attributes(axis=d.maybe(axis) if x.ndim > 1 or d.version >= 13 else axis)

    def reference(x):
        axis = attributes.get("axis", -1 if d.version >= 13 else 1)
        rows = in_rows(x, axis) if d.version < 13 else np.moveaxis(x, axis, -1)
        rows = rows - rows.max(-1, keepdims=True)
        sums = np.exp(rows).sum(-1, keepdims=True)
        result = np.exp(rows) / sums if d.op == "Softmax" else rows - np.log(sums)
        return result.reshape(x.shape) if d.version < 13 else np.moveaxis(result, -1, axis)

    return d.case([x], wide(reference), attributes=attributes)
