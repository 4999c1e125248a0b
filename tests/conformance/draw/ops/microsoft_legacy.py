"""Operators of the first versions of ONNX, which ONNX Runtime has kept in its schemas."""

import numpy as np

from ..registry import operator
from ..types import F32, F64, I64, wide


def number(d):
    return d.float(-2, 2)


@operator("Affine", "Scale")
def affine(d):
    attributes = d.attributes(
        alpha=d.maybe(number(d)), beta=d.maybe(number(d)), scale=d.maybe(number(d))
    )
    factor = attributes.get("alpha", attributes.get("scale", 1.0))
    offset = attributes.get("beta", 0.0)
    x = d.tensor(d.type(), d.shape(), extremes=0)
    return d.case([x], wide(lambda x: x * factor + offset), attributes=attributes)


@operator("ParametricSoftplus", "ScaledTanh")
def scaled(d):
    attributes = {"alpha": number(d), "beta": number(d)}
    alpha, beta = attributes["alpha"], attributes["beta"]
    function = np.tanh if d.op == "ScaledTanh" else lambda x: np.log1p(np.exp(x))
    x = d.tensor(d.type(), d.shape(), extremes=0)
    return d.case([x], wide(lambda x: alpha * function(beta * x)), attributes=attributes)


@operator("Crop")
def crop(d):
    left, top, right, bottom = (d.int(0, 2) for _ in range(4))
    height, width = d.int(1, 4), d.int(1, 4)
    shape = [d.int(1, 2), d.int(1, 3), top + height + bottom, left + width + right]
    size = d.maybe([d.int(1, height), d.int(1, width)])

    def reference(x):
        rows, columns = size or (height, width)
        return x[:, :, top : top + rows, left : left + columns]

    attributes = d.attributes(border=[left, top, right, bottom], scale=size)
    return d.case([d.tensor(d.type(), shape)], reference, attributes=attributes)


@operator("DynamicSlice")
def dynamic_slice(d):
    shape = d.shape(least=1, empty=0)
    count = d.int(1, len(shape))
    axes = d.some(range(len(shape)), 1) if d.chance(0.5) else None
    sides = [shape[axis] for axis in (axes or range(count))]
    starts = [d.int(0, side - 1) for side in sides]
    ends = [d.int(start + 1, side + 2) for start, side in zip(starts, sides)]
    dtype = d.type("Tind")
    operands = [d.ints(starts, dtype), d.ints(ends, dtype)]
    operands += [d.ints(axes, dtype)] if axes else []

    def reference(x, starts, ends, axes=None):
        places = [slice(None)] * x.ndim
        for i, (start, end) in enumerate(zip(starts, ends)):
            places[i if axes is None else axes[i]] = slice(start, end)
        return x[tuple(places)]

    x = d.tensor(d.type("T"), shape)
    return d.case([x, *operands], reference, constant=[1, 2, 3][: len(operands)])


@operator("GivenTensorFill")
def given_tensor_fill(d):
    shape = list(d.shape(least=1, most=3, empty=0))
    values = [number(d) for _ in range(int(np.prod(shape)))]
    full = np.array(values, F32).reshape(shape)
    given = d.one_of(["attribute", "sizes", "input"])
    if given == "attribute":
        return d.case([], lambda: full, attributes={"values": values, "shape": shape})
    extra = shape[1:] if d.chance(0.5) else []
    first = shape[: len(shape) - len(extra)]
    if given == "sizes":
        inputs, attributes = [np.array(first, F32)], {"input_as_shape": 1}
    else:
        inputs, attributes = [d.tensor(F32, first)], {}
    attributes |= {"values": values} | ({"extra_shape": extra} if extra else {})
    constant = [0] if given == "sizes" else []
    return d.case(inputs, lambda _: full, constant=constant, attributes=attributes)


@operator("GRUUnit")
def gru_unit(d):
    batch, size, drop = d.int(1, 4), d.int(1, 5), d.maybe(d.int(0, 1))
    dtype = d.type()
    inputs = [
        d.tensor(dtype, [1, batch, size], extremes=0),
        d.tensor(dtype, [1, batch, 3 * size], extremes=0),
        d.integers(I64, [batch], 0, 4).astype(dtype),
        d.integers(I64, d.one_of([[], [1]]), 0, 4).astype(dtype),
    ]

    def reference(previous, gates, lengths, t):
        _, update, output = np.split(gates, 3, axis=-1)
        share = 1 / (1 + np.exp(-update))
        state = previous * share + np.tanh(output) * (1 - share)
        after = 0 * previous if drop else previous
        return np.where((t.reshape(()) < lengths)[:, None], state, after)

    return d.case(inputs, wide(reference), attributes=d.attributes(drop_states=drop))


@operator("ImageScaler")
def image_scaler(d):
    shape = [d.int(1, 2), d.int(1, 4), d.int(1, 4), d.int(1, 4)]
    scale, bias = d.maybe(number(d)), [number(d) for _ in range(shape[1])]

    def reference(x):
        return x * (1.0 if scale is None else scale) + np.array(bias, F64)[:, None, None]

    x = d.tensor(d.type(), shape, extremes=0)
    return d.case([x], wide(reference), attributes=d.attributes(scale=scale, bias=bias))
