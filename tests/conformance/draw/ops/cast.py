"""Conversions of element types, and constants."""

import ml_dtypes
import numpy as np
from onnx import helper, numpy_helper

from ..registry import operator
from ..types import (
    BOOL,
    BY_NAME,
    COMPLEX,
    F32,
    F64,
    FLOATS,
    I64,
    INTEGERS,
    MINIFLOATS,
    NIBBLES,
    STRING,
    limits,
    onnx_type,
)

EXPONENTS = BY_NAME["float8e8m0"]
NUMERALS = ("1", "-2.5", "0.125", "1e3", "3")


def values(d, dtype, shape, to):
    """Returns values whose conversion to the other type is defined."""
    if dtype == STRING:
        texts = ("1", "23", "4") if to in INTEGERS + NIBBLES else NUMERALS
        if to in FLOATS and d.chance(0.3):
            texts = (*texts, "NaN", "INF", "-INF", "inf", "-inf", "nan")
        return np.array([d.one_of(texts) for _ in range(int(np.prod(shape)))], object).reshape(
            shape
        )
    low, high = (
        (-4, 4)
        if to not in INTEGERS + NIBBLES
        else (max(limits(to)[0], -100), min(limits(to)[1], 100))
    )
    extremes = 0.2 if to in FLOATS or dtype in INTEGERS and to in INTEGERS else 0
    return d.tensor(dtype, shape, low, high, extremes)


def convert(x, to):
    """Converts the elements; numbers are converted through the widest type."""
    if to == STRING:
        return np.vectorize(text, otypes=[object])(x)
    if x.dtype == STRING:
        x = np.vectorize(float, otypes=[F64])(x)
    if to == BOOL:
        return x.astype(F64 if x.dtype in MINIFLOATS else x.dtype) != 0
    if to in NIBBLES:
        low, high = limits(to)
        whole = np.trunc(x.astype(F64)).astype(I64)
        return ((whole - low) % (high - low + 1) + low).astype(to)
    with np.errstate(all="ignore"):
        return (
            x.astype(F32).astype(to)
            if x.dtype in MINIFLOATS or x.dtype in NIBBLES
            else x.astype(to)
        )


def narrowed(x, to, saturate=True):
    """Converts to a float of a byte or less; values beyond its range become its largest value if
    `saturate`.
    """
    x = x.astype(F64)
    if to == EXPONENTS:
        exponents = np.ceil(np.log2(x))
        return (2.0**exponents).astype(to)
    most = float(ml_dtypes.finfo(to).max)
    beyond = saturate or not str(to).startswith("float8")
    return (np.clip(x, -most, most) if beyond else x).astype(F32).astype(to)


def text(x):
    """Formats a number as text."""
    if isinstance(x, str):
        return x
    return str(int(x)) if isinstance(x, (np.bool_, bool)) else str(x)


def pair(d, first, second):
    """Returns two types between which elements can be converted."""
    plain = FLOATS + INTEGERS + (BOOL,) + NIBBLES
    while True:
        a, b = d.type(first), d.type(second)
        # Conversions to types of less than a byte have cases of their own, which define the
        # rounding.
        if a in plain + (STRING,) and b in plain and not (a == STRING and b in (BOOL, *NIBBLES)):
            return a, b
        if b == STRING and (a in INTEGERS or a == STRING):
            return a, b


def minifloat(d, first, second):
    """Returns two types, one of which is a float of a byte or less."""
    while True:
        a, b = d.type(first), d.type(second)
        if (
            (a in MINIFLOATS) + (b in MINIFLOATS)
            and a not in (STRING, BOOL)
            and b not in (STRING, BOOL) + COMPLEX
        ):
            return a, b


def before_narrowing(d, a, b):
    """Returns values to convert from `a` to `b`."""
    if EXPONENTS in (a, b):
        # Powers of two, up to the largest that both types have.
        integers = [dtype for dtype in (a, b) if dtype in INTEGERS + NIBBLES]
        top = min((limits(dtype)[1].bit_length() - 1 for dtype in integers), default=2)
        return np.asarray(2.0 ** d.rng.integers(0, min(top, 5) + 1, d.shape())).astype(a)
    if b not in MINIFLOATS or a in MINIFLOATS:
        return d.tensor(a, low=1 if str(b)[0] == "u" else -3, high=3, extremes=0)
    most = d.one_of([3, 500])
    return d.tensor(a, low=-most, high=most, extremes=0)


def narrow(x, to, saturate):
    """A conversion from or to a float of a byte or less."""
    return narrowed(x, to, saturate != 0) if to in MINIFLOATS else convert(x, to)


def has_minifloats(d, parameter):
    return any(
        "float8" in text
        for c in d.schema.type_constraints
        for text in c.allowed_type_strs
        if c.type_param_str == parameter
    )


@operator("Cast")
def cast(d):
    if has_minifloats(d, "T2") and d.chance(0.4):
        a, b = minifloat(d, "T1", "T2")
        x, saturate = before_narrowing(d, a, b), d.maybe(d.int(0, 1))
        attributes = d.attributes(saturate=saturate) | {"to": onnx_type(b)}
        return d.case([x], lambda x: narrow(x, b, saturate), attributes=attributes)
    a, b = pair(d, "T1", "T2")
    x = values(d, a, d.shape(), b)
    to = (
        next(name for name, dtype in BY_NAME.items() if dtype == b).upper()
        if d.version < 6
        else onnx_type(b)
    )
    return d.case([x], lambda x: convert(x, b), attributes={"to": to})


@operator("CastLike")
def cast_like(d):
    if has_minifloats(d, "T2") and d.chance(0.4):
        a, b = minifloat(d, "T1", "T2")
        x, saturate = before_narrowing(d, a, b), d.maybe(d.int(0, 1))
        inputs = [x, d.tensor(b, [1], 1, 2, 0)]
        return d.case(
            inputs,
            lambda x, like: narrow(x, b, saturate),
            attributes=d.attributes(saturate=saturate),
        )
    a, b = pair(d, "T1", "T2")
    return d.case(
        [values(d, a, d.shape(), b), d.tensor(b, d.shape(most=1))], lambda x, like: convert(x, b)
    )


@operator("BitCast")
def bit_cast(d):
    a = d.type("T1")
    same = [
        dtype
        for dtype in BY_NAME.values()
        if size(dtype) == size(a) and BOOL not in (a, dtype) and dtype != STRING
    ]
    b = d.one_of(
        [
            dtype
            for dtype in same
            if any(
                f"({name})" in text
                for name, d2 in BY_NAME.items()
                if d2 == dtype
                for c in d.schema.type_constraints
                for text in c.allowed_type_strs
            )
        ]
        or [a]
    )
    x = d.tensor(a, d.shape(least=1))
    return d.case([x], lambda x: x if a == b else x.view(b), attributes={"to": onnx_type(b)})


def size(dtype):
    """Returns the number of bits of an element."""
    if dtype in NIBBLES:
        return int(str(dtype)[-1])
    return {"float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}.get(
        str(dtype), dtype.itemsize * 8
    )


@operator("Constant")
def constant(d):
    dtype = d.type("T")
    x = d.tensor(dtype)
    forms = {
        "value": lambda: (numpy_helper.from_array(x), x),
        "sparse_value": lambda: sparse(d),
        "value_float": lambda: scalar(d.float(-3, 3), F32),
        "value_floats": lambda: scalar([d.float(-3, 3) for _ in range(d.int(1, 4))], F32),
        "value_int": lambda: scalar(d.int(-9, 9), I64),
        "value_ints": lambda: scalar([d.int(-9, 9) for _ in range(d.int(1, 4))], I64),
        "value_string": lambda: scalar("Zürich", STRING),
        "value_strings": lambda: scalar(["a", "", "日本"], STRING),
    }
    name = d.one_of(["value", *(name for name in forms if name in d.schema.attributes)])
    attribute, result = forms[name]()
    return d.case([], lambda: result, attributes={name: attribute})


def scalar(value, dtype):
    return value, np.array(value, dtype)


def sparse(d):
    """Returns a sparse tensor and its dense form."""
    shape = d.shape(least=1, most=3, empty=0)
    dense = np.where(d.rng.random(shape) < 0.3, d.tensor(F32, shape, 1, 5, 0), 0).astype(F32)
    places = np.flatnonzero(dense)
    linear = d.chance(0.5)
    indices = places if linear else np.stack(np.unravel_index(places, shape), -1)
    values = helper.make_tensor("values", 1, [len(places)], dense.reshape(-1)[places])
    indices = helper.make_tensor("indices", 7, indices.shape, indices.reshape(-1).astype(I64))
    return helper.make_sparse_tensor(values, indices, shape), dense


@operator("ConstantOfShape")
def constant_of_shape(d):
    shape = d.shape()
    dtype = d.type("T2")
    value = d.maybe(d.tensor(dtype, [1]), 0.8)
    attributes = {} if value is None else {"value": numpy_helper.from_array(value)}
    reference = lambda shape: np.full(
        shape, np.float32(0) if value is None else value[0], F32 if value is None else dtype
    )
    return d.case([d.ints(shape)], reference, attributes=attributes, dynamic=True, symbolic=False)
