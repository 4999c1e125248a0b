"""Element-wise operators of one or several values."""

import numpy as np
from onnx import helper

from ..types import BOOL, F16, F32, F64, I32, I64, U8, is_float
from .evaluate import Unfit
from .steps import step

UNARY = (
    """Relu Sigmoid Tanh Neg Abs Exp Erf Softplus Softsign HardSwish Mish Floor Ceil Sqrt Reciprocal
Sign Round Identity Sin Cos""".split()
)
ACTIVATIONS = """Relu Sigmoid Tanh Clip HardSigmoid LeakyRelu Elu HardSwish Softplus Gelu Mish Selu
ThresholdedRelu Celu""".split()


@step(2)
def unary(g):
    g.add(g.one_of(UNARY), [g.pick()])


def activate(g, x):
    """Adds an activation."""
    op = g.one_of(ACTIVATIONS)
    if op == "Clip":
        return clip(g, x)
    attributes = {}
    if op in ("LeakyRelu", "Elu", "HardSigmoid", "Celu"):
        attributes["alpha"] = g.one_of([None, 0.1, float(np.float32(1 / 6)), 0.5])
    if op == "HardSigmoid":
        attributes["beta"] = g.one_of([None, 0.5])
    if op == "Gelu":
        attributes["approximate"] = g.one_of([None, "tanh"])
    return g.add(op, [x], **attributes)


@step(2)
def activation(g):
    activate(g, g.pick())


def clip(g, x):
    low, high = g.one_of(
        [(0, 6), (0, None), (None, 1), (-1, 1), (None, None), (2, -2), (-0.3, 0.1)]
    )
    bound = lambda b: None if b is None else g.constant(np.array(b, x.dtype), 0.1)
    bounds = [bound(low), bound(high)]
    while bounds and bounds[-1] is None:
        bounds.pop()
    return g.add("Clip", [x, *bounds])


def partner(g, x):
    """Returns another operand for arithmetic on `x`, where either may be broadcast."""
    kind = g.int(0, 6)
    if kind == 0:
        return x
    if kind == 1:
        return g.number(g.one_of([0.0, 1.0, -1.0, 2.0, 0.5, -0.0]), x.dtype)
    if kind <= 3:
        fits = lambda y: can_broadcast(x.shape, y.shape)
        return g.pick(dtype=x.dtype, wanted=fits)
    shape = g.broadcast(x.shape)
    if kind == 4 and g.chance(0.3):
        shape = (1,) * g.int(1, max(1, 5 - x.rank)) + x.shape
    if kind == 5 and x.rank > 1:
        # One number per channel.
        axis = g.one_of([1, x.rank - 1])
        shape = tuple(n if i == axis else 1 for i, n in enumerate(x.shape))[g.one_of([0, axis]) :]
    if g.chance(0.2):
        return g.constant(np.full(shape, g.one_of([0, 1, 2]), x.dtype), 0.1)
    return g.constant(g.tensor(x.dtype, shape, -2, 2, extremes=0), 0.3)


def can_broadcast(a, b):
    try:
        return len(np.broadcast_shapes(a, b)) <= 5
    except ValueError:
        return False


@step(5)
def arithmetic(g):
    x = g.pick(dtype=g.one_of([g.dtype] * 6 + [I64, I32]))
    y = partner(g, x)
    op = g.one_of("Add Add Mul Mul Sub Sub Div Pow PRelu".split())
    if not is_float(x.dtype) and op in ("Div", "Pow", "PRelu"):
        op = "Mul"
    if op == "Pow":
        y = g.number(g.one_of([2.0, 3.0, 1.0, 0.0, -1.0]), x.dtype)
    elif op == "PRelu":
        if y.rank > x.rank or np.broadcast_shapes(x.shape, y.shape) != x.shape:
            raise Unfit("the slope does not broadcast to the input")
        if not np.isfinite(y.array).all():
            raise Unfit("the evaluator multiplies positive numbers by the slope")
    elif g.chance(0.5):
        x, y = y, x
    g.add(op, [x, y])


@step()
def variadic(g):
    x = g.pick()
    others = [partner(g, x) for _ in range(g.int(0, 2))]
    inputs = [x, *others]
    g.add(
        g.one_of(["Max", "Min", "Sum", "Mean"]), [inputs[i] for i in g.rng.permutation(len(inputs))]
    )


@step()
def comparison(g):
    x = g.pick()
    y = g.number(g.one_of([0.0, 0.5]), x.dtype) if g.chance(0.5) else partner(g, x)
    g.add(g.one_of(["Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"]), [x, y])


@step(1.5)
def where(g):
    condition = g.pick(dtype=BOOL)
    if g.chance(0.2):
        condition = g.add("Not", [condition])
    x = g.pick(wanted=lambda x: can_broadcast(x.shape, condition.shape))
    other = partner(g, x)
    g.add("Where", [condition, *([x, other] if g.chance(0.5) else [other, x])])


@step()
def logic(g):
    x = g.pick(dtype=BOOL)
    y = g.pick(dtype=BOOL, wanted=lambda y: can_broadcast(x.shape, y.shape))
    g.add(g.one_of(["And", "Or", "Xor"]), [x, y])


@step(1.2)
def cast(g):
    x = g.pick(dtype=g.one_of([g.dtype, BOOL, I64, I32, U8]))
    to = g.one_of([g.dtype, g.dtype, F32, F64, F16, I64, I32, U8, BOOL])
    if is_float(x.dtype) and to.kind in "iu":
        with np.errstate(all="ignore"):
            size = np.abs(x.array.astype(np.float64))
            if not np.all(size < 100) or to == U8 and np.any(x.array < 0):
                raise Unfit("the conversion is undefined")
    made = g.add("Cast", [x], to=helper.np_dtype_to_tensor_dtype(to))
    if g.chance(0.5):
        g.add("Cast", [made], to=helper.np_dtype_to_tensor_dtype(g.dtype))


@step(1.5)
def gate(g):
    """`x · f(x)`, which is one operator."""
    x = g.pick()
    op = g.one_of(["Sigmoid", "HardSigmoid", "Softplus", "Sigmoid"])
    attributes = {"alpha": float(np.float32(1 / 6)), "beta": 0.5} if op == "HardSigmoid" else {}
    y = g.add(op, [x], **attributes)
    y = g.add("Tanh", [y]) if op == "Softplus" else y
    g.add("Mul", [x, y] if g.chance(0.5) else [y, x])


@step(1.5)
def gelu(g):
    """Gelu as exporters write it, sometimes with a constant of another function."""
    x = g.pick()
    odd = g.chance(0.2)
    if g.chance(0.6):
        half = g.add("Div", [x, g.number(np.sqrt(2))])
        s = g.add("Erf", [half])
    else:
        cube = (
            g.add("Pow", [x, g.number(3)])
            if g.chance(0.5)
            else g.add("Mul", [g.add("Mul", [x, x]), x])
        )
        inner = g.add("Add", [x, g.add("Mul", [cube, g.number(0.044715)])])
        s = g.add("Tanh", [g.add("Mul", [inner, g.number(np.sqrt(2 / np.pi))])])
    gate = g.add("Add", [s, g.number(0.9 if odd else 1)])
    if g.chance(0.5):
        g.add("Mul", [g.add("Mul", [x, gate]), g.number(0.5)])
    else:
        g.add("Mul", [g.add("Mul", [x, g.number(0.5)]), gate])
