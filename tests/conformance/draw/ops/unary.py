"""Unary functions and activations."""

import math

import numpy as np

from ..registry import operator
from ..types import BOOL, F32, F64, INTEGERS, wide

erf = np.vectorize(math.erf, otypes=[F64])

FUNCTIONS = {
    "Abs": np.abs,
    "Acos": np.arccos,
    "Acosh": np.arccosh,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atanh": np.arctanh,
    "BitwiseNot": np.invert,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Cosh": np.cosh,
    "Erf": erf,
    "Exp": np.exp,
    "Floor": np.floor,
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "Log": np.log,
    "Mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "Neg": np.negative,
    "Reciprocal": lambda x: 1 / x,
    "Relu": lambda x: np.maximum(x, 0),
    "Round": np.rint,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Sign": np.sign,
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Softplus": lambda x: np.logaddexp(x, 0),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Sqrt": np.sqrt,
    "Tan": np.tan,
    "Tanh": np.tanh,
}


# Functions whose value at infinity depends on how they are computed.
NO_LIMITS = ("HardSwish", "Mish", "Softsign")


@operator(*FUNCTIONS)
def unary(d):
    dtype = d.type(d.schema.inputs[0].type_str)
    high = 1.25 if d.op in ("Acos", "Asin", "Atanh") else 6
    x = d.tensor(dtype, low=-high, high=high, extremes=0 if d.op in NO_LIMITS else 0.15)
    attributes = d.attributes(consumed_inputs=d.maybe([0]))
    function = FUNCTIONS[d.op]
    if d.op == "Erf" and dtype in INTEGERS:
        # The results for integers are truncated.
        function = lambda x: erf(x).astype(F32)
    return d.case([x], wide(function), attributes=attributes)


# Functions of a number and of attributes.
ACTIVATIONS = {
    "Celu": lambda x, alpha: np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha)),
    "Elu": lambda x, alpha: np.where(x < 0, alpha * np.expm1(x), x),
    "HardSigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "LeakyRelu": lambda x, alpha: np.where(x < 0, alpha * x, x),
    "Selu": lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * np.expm1(x)),
    "Shrink": lambda x, lambd, bias: np.where(
        x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)
    ),
    "Swish": lambda x, alpha: x / (1 + np.exp(-alpha * x)),
    "ThresholdedRelu": lambda x, alpha: np.where(x > alpha, x, 0),
}


@operator(*ACTIVATIONS)
def activation(d):
    x = d.tensor(d.type(d.schema.inputs[0].type_str), extremes=0)
    names = [
        name for name in ("alpha", "beta", "gamma", "lambd", "bias") if name in d.schema.attributes
    ]
    attributes = {name: d.float(0.25, 2) for name in names if d.chance(0.6)}
    values = [
        d.value(attributes, name) for name in (("lambd", "bias") if d.op == "Shrink" else names)
    ]
    attributes |= d.attributes(consumed_inputs=d.maybe([0]))
    return d.case([x], wide(lambda x: ACTIVATIONS[d.op](x, *values)), attributes=attributes)


@operator("Gelu")
def gelu(d):
    attributes = d.attributes(approximate=d.one_of([None, "none", "tanh"]))

    def reference(x):
        if attributes.get("approximate") == "tanh":
            return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        return x / 2 * (1 + erf(x / math.sqrt(2)))

    return d.case([d.tensor(d.type(), extremes=0)], wide(reference), attributes=attributes)


@operator("SwiGLU")
def swiglu(d):
    dtype, shape = d.type(), d.shape()
    attributes = d.attributes(alpha=d.maybe(d.float(0.5, 2)))
    alpha = attributes.get("alpha", 1)
    inputs = [d.tensor(dtype, shape, extremes=0) for _ in range(2)]
    return d.case(
        inputs, wide(lambda a, b: a / (1 + np.exp(-alpha * a)) * b), attributes=attributes
    )


@operator("PRelu")
def prelu(d):
    shape = d.shape(least=2) if d.version < 7 else d.shape()
    slope = d.broadcast(shape)
    if d.version < 7:
        slope = d.one_of([(1,), (shape[1],)])
    dtype = d.type()

    def reference(x, slope):
        if d.version < 7 and slope.size != 1:
            slope = slope.reshape(-1, *[1] * (x.ndim - 2))
        return np.where(x < 0, slope * x, x)

    inputs = [d.tensor(dtype, shape, extremes=0), d.tensor(dtype, slope, extremes=0)]
    return d.case(inputs, wide(reference), attributes=d.attributes(consumed_inputs=d.maybe([0])))


@operator("Clip")
def clip(d):
    dtype = d.type()
    x = d.tensor(dtype, low=-8, high=8, extremes=0.3)
    low, high = (d.maybe(d.int(0, 3) - 2, 0.7), d.maybe(d.int(-1, 5), 0.7))
    if np.dtype(dtype).kind == "u":
        low, high = (value if value is None else abs(value) for value in (low, high))

    def reference(x, low=None, high=None):
        x = x if low is None else np.where(np.isnan(x), x, np.maximum(x, low))
        return x if high is None else np.where(np.isnan(x), x, np.minimum(x, high))

    if d.version < 11:
        attributes = d.attributes(min=low, max=high, consumed_inputs=d.maybe([0]))
        attributes |= {
            name: float(attributes[name]) for name in ("min", "max") if name in attributes
        }
        low, high = (d.value(attributes, name) for name in ("min", "max"))
        return d.case([x], wide(lambda x: reference(x, low, high)), attributes=attributes)
    bounds = [value if value is None else np.array(value, dtype) for value in (low, high)]
    return d.case([x, *bounds], wide(reference))


@operator("IsNaN", "IsInf")
def is_special(d):
    x = d.tensor(d.type("T1"), extremes=0.9)
    if d.op == "IsNaN":
        return d.case([x], lambda x: np.isnan(x.astype(F32)))
    attributes = d.attributes(
        detect_positive=d.maybe(d.int(0, 1)), detect_negative=d.maybe(d.int(0, 1))
    )
    wanted = [
        sign
        for sign, name in ((1, "detect_positive"), (-1, "detect_negative"))
        if attributes.get(name, 1)
    ]
    values = np.array(wanted, F32) * np.float32(np.inf)
    return d.case([x], lambda x: np.isin(x.astype(F64), values), attributes=attributes)


@operator("Not")
def logical_not(d):
    return d.case([d.tensor(BOOL)], np.logical_not)
