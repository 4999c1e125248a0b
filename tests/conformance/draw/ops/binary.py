"""Binary functions, comparisons and logic, and sums of any number of tensors."""

import numpy as np

from ..registry import operator
from ..types import BOOL, INTEGERS, wide


def divide(a, b):
    """Divides; integer quotients are rounded towards zero."""
    if a.dtype.kind == "f":
        return a / b
    size, of = (np.asarray(abs(x.astype(object)), object) for x in (a, b))
    return np.asarray(size // of * np.sign(a).astype(object) * np.sign(b).astype(object)).astype(
        a.dtype
    )


ARITHMETIC = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": divide}
COMPARISONS = {
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
}
LOGIC = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
BITS = {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}


def shapes(d):
    """Returns two shapes that can be broadcast to each other."""
    shape = d.shape()
    pair = [shape, d.broadcast(shape)]
    if d.chance(0.3):
        pair[0] = tuple(1 if d.chance(0.3) else size for size in pair[0])
    return pair[:: d.one_of([1, -1])]


def with_axis(d, function, make):
    """Returns a case of the versions that broadcast only the second input, by an attribute."""
    shape = d.shape(least=1)
    start = d.int(0, len(shape) - 1)
    other = shape[start : d.int(start + 1, len(shape))] if d.chance(0.6) else shape
    attributes = {}
    if other != shape or d.chance(0.3):
        attributes = {"broadcast": 1}
        at_the_end = shape[len(shape) - len(other) :] == other
        if other != shape and not (at_the_end and d.chance(0.4)):
            attributes["axis"] = start - (
                len(shape) if d.chance(0.3) and d.op not in COMPARISONS else 0
            )
        elif other != shape:
            start = len(shape) - len(other)
        else:
            start = 0

    def reference(a, b):
        after = a.ndim - start - b.ndim
        return function(a, b.reshape(b.shape + (1,) * (after if b.ndim < a.ndim else 0)))

    attributes |= d.attributes(consumed_inputs=d.maybe([0, 0]))
    return d.case([make(shape), make(other)], reference, attributes=attributes)


def pair(d, function, make):
    if "broadcast" in d.schema.attributes:
        return with_axis(d, function, make)
    return d.case([make(shape) for shape in shapes(d)], function)


@operator(*ARITHMETIC)
def arithmetic(d):
    dtype = d.type()

    def make(shape):
        x = d.tensor(dtype, shape, low=-6, high=6)
        # Integer division by zero is undefined.
        return (
            np.where(x == 0, x + 1, x).astype(dtype) if d.op == "Div" and dtype in INTEGERS else x
        )

    if d.op == "Div" and dtype in INTEGERS:
        return pair(
            d,
            divide,
            lambda shape: np.maximum(make(shape), -100 if np.dtype(dtype).kind == "i" else 0),
        )
    return pair(d, wide(ARITHMETIC[d.op]), make)


@operator(*COMPARISONS)
def comparison(d):
    dtype = d.type(d.schema.inputs[0].type_str)
    return pair(d, COMPARISONS[d.op], lambda shape: d.tensor(dtype, shape, low=-2, high=2))


@operator(*LOGIC)
def logic(d):
    return pair(d, LOGIC[d.op], lambda shape: d.tensor(BOOL, shape))


@operator(*BITS)
def bitwise(d):
    dtype = d.type()
    return pair(d, BITS[d.op], lambda shape: d.tensor(dtype, shape, low=-100, high=100))


@operator("BitShift")
def bit_shift(d):
    dtype = d.type()
    direction = d.one_of(["LEFT", "RIGHT"])
    bits = np.dtype(dtype).itemsize * 8
    a, b = shapes(d)
    inputs = [
        d.tensor(dtype, a, low=-100, high=200),
        d.tensor(dtype, b, low=0, high=bits - 1, extremes=0),
    ]
    function = np.left_shift if direction == "LEFT" else np.right_shift
    return d.case(inputs, function, attributes={"direction": direction})


@operator("Mod")
def modulo(d):
    dtype = d.type()
    fmod = d.int(0, 1) if dtype in INTEGERS else 1
    a, b = shapes(d)
    divisor = d.tensor(dtype, b, low=1, high=7, extremes=0)
    if np.dtype(dtype).kind != "u" and d.chance(0.4):
        divisor = (divisor * dtype.type(-1)).astype(dtype)
    inputs = [d.tensor(dtype, a, low=-50, high=50), divisor]
    return d.case(
        inputs,
        wide(np.fmod if fmod else np.mod),
        attributes={"fmod": fmod} if fmod or d.chance(0.5) else {},
    )


@operator("Pow")
def power(d):
    base = d.type("T")
    exponent = d.type("T1") if d.version > 7 else base
    low, high = (0, 3) if base in INTEGERS or exponent in INTEGERS else (-2, 3)
    # Fractional powers of negative numbers are undefined.
    least = -3 if exponent in INTEGERS else 0.25

    def reference(x, y):
        y = np.asarray(y, np.int64) if y.dtype.kind in "iu" else y.astype(np.float64)
        if x.dtype.kind in "iu" and y.dtype.kind == "f":
            x = x.astype(np.float64)
        return np.power(x, y)

    return pair_of(d, base, exponent, (least, 3), (low, high), wide(reference))


def pair_of(d, first, second, range_a, range_b, function):
    def values(dtype, shape, bounds):
        return d.tensor(dtype, shape, *bounds, extremes=0)

    if "broadcast" in d.schema.attributes:
        return with_axis(
            d, function, lambda shape: np.abs(values(first, shape, range_a)) + first.type(0.25)
        )
    a, b = shapes(d)
    return d.case([values(first, a, range_a), values(second, b, range_b)], function)


VARIADIC = {
    "Max": np.maximum,
    "Min": np.minimum,
    "Sum": np.add,
    "Mean": np.add,
}


@operator(*VARIADIC)
def variadic(d):
    dtype = d.type()
    shape = d.shape()
    count = d.int(1, 4)
    several = [shape if d.version < 8 else d.broadcast(shape) for _ in range(count)]
    inputs = [d.tensor(dtype, shape, low=-9, high=9) for shape in several]

    def reference(*inputs):
        result = inputs[0]
        for x in inputs[1:]:
            result = VARIADIC[d.op](result, x)
        return result / len(inputs) if d.op == "Mean" else result

    return d.case(
        inputs, wide(reference), attributes=d.attributes(consumed_inputs=d.maybe([0] * count))
    )


@operator("Where")
def where(d):
    shape = d.shape()
    dtype = d.type()
    values = [d.tensor(dtype, d.broadcast(shape)) for _ in range(2)]
    return d.case([d.tensor(BOOL, d.broadcast(shape)), *values], np.where)
