"""Optimizers."""

import numpy as np
from onnx import helper

from ..registry import operator
from ..types import F32, F64, I64

TRAINING = "ai.onnx.preview.training"


def operands(d, states, count):
    """Returns the learning rate, the number of the step, and tensors with gradients and states."""
    dtype = d.type("T3")
    shapes = [d.shape(most=2) for _ in range(count)]
    rate = np.array(d.float(0.01, 0.5), d.type("T1"))
    step = np.array(d.int(0, 5), I64)
    tensors = [
        [d.tensor(dtype, shape, *(0, 2) if i > 1 else (-3, 3), 0) for shape in shapes]
        for i in range(2 + states)
    ]
    return rate, step, tensors


def flat(lists):
    return [x for tensors in lists for x in tensors]


def grouped(values, count):
    return [values[i : i + count] for i in range(0, len(values), count)]


@operator("Adagrad", domain=TRAINING)
def adagrad(d):
    count = d.int(1, 2)
    rate, step, tensors = operands(d, 1, count)
    attributes = d.attributes(
        decay_factor=d.maybe(d.float(0, 0.2)),
        epsilon=d.maybe(d.float(1e-4, 1e-2)),
        norm_coefficient=d.maybe(d.float(0, 0.2)),
    )
    decay, epsilon, norm = (
        d.value(attributes, name) for name in ("decay_factor", "epsilon", "norm_coefficient")
    )

    def reference(rate, step, *rest):
        rate = float(rate) / (1 + int(step) * decay)
        new = []
        for x, gradient, squares in zip(*grouped([a.astype(F64) for a in rest], count)):
            gradient = norm * x + gradient
            squares = squares + gradient * gradient
            new.append((x - rate * gradient / (np.sqrt(squares) + epsilon), squares))
        return tuple(a.astype(rest[0].dtype) for a in flat(zip(*new)))

    return d.case([rate, step, *flat(tensors)], reference, outputs=2 * count, attributes=attributes)


@operator("Adam", domain=TRAINING)
def adam(d):
    count = d.int(1, 2)
    rate, step, tensors = operands(d, 2, count)
    names = {
        "alpha": (0.5, 0.95),
        "beta": (0.5, 0.99),
        "epsilon": (1e-4, 1e-2),
        "norm_coefficient": (0, 0.2),
        "norm_coefficient_post": (0, 0.2),
    }
    attributes = {name: d.float(*span) for name, span in names.items() if d.chance(0.5)}
    alpha, beta, epsilon, norm, post = (d.value(attributes, name) for name in names)

    def reference(rate, step, *rest):
        step = int(step)
        factor = float(rate) * (np.sqrt(1 - beta**step) / (1 - alpha**step) if step else 1)
        new = []
        for x, gradient, mean, squares in zip(*grouped([a.astype(F64) for a in rest], count)):
            gradient = norm * x + gradient
            mean = alpha * mean + (1 - alpha) * gradient
            squares = beta * squares + (1 - beta) * gradient * gradient
            x = x - factor * mean / (np.sqrt(squares) + epsilon)
            new.append(((1 - post) * x, mean, squares))
        return tuple(a.astype(rest[0].dtype) for a in flat(zip(*new)))

    return d.case([rate, step, *flat(tensors)], reference, outputs=3 * count, attributes=attributes)


@operator("Momentum", domain=TRAINING)
def momentum(d):
    count = d.int(1, 2)
    rate, step, tensors = operands(d, 1, count)
    mode = d.one_of(["standard", "nesterov"])
    alpha, beta, norm = d.float(0.5, 0.95), d.float(0.5, 0.95), d.float(0, 0.2)

    def reference(rate, step, *rest):
        new = []
        for x, gradient, speed in zip(*grouped([a.astype(F64) for a in rest], count)):
            gradient = norm * x + gradient
            speed = alpha * speed + (beta if int(step) > 0 else 1) * gradient
            along = speed if mode == "standard" else gradient + alpha * speed
            new.append((x - float(rate) * along, speed))
        return tuple(a.astype(rest[0].dtype) for a in flat(zip(*new)))

    attributes = {"mode": mode, "alpha": alpha, "beta": beta, "norm_coefficient": norm}
    return d.case([rate, step, *flat(tensors)], reference, outputs=2 * count, attributes=attributes)


# Functions of two tensors, and their gradients.
FORMULAS = (
    ([("Mul", ["x0", "x1"], "z")], lambda a, b: (b, a)),
    ([("Div", ["x0", "x1"], "z")], lambda a, b: (1 / b, -a / b**2)),
    ([("Sin", ["x0"], "s"), ("Mul", ["s", "x1"], "z")], lambda a, b: (np.cos(a) * b, np.sin(a))),
    ([("Exp", ["x0"], "s"), ("Sub", ["s", "x1"], "z")], lambda a, b: (np.exp(a), -np.ones_like(b))),
    (
        [("Mul", ["x0", "x0"], "s"), ("Add", ["s", "x1"], "z")],
        lambda a, b: (2 * a, np.ones_like(b)),
    ),
    (
        [("Tanh", ["x0"], "s"), ("Mul", ["s", "x1"], "z")],
        lambda a, b: (b / np.cosh(a) ** 2, np.tanh(a)),
    ),
)


@operator("Gradient", domain=TRAINING)
def gradient(d):
    nodes, function = d.one_of(FORMULAS)
    dtype, shape = d.one_of([F32, F64]), d.shape(empty=0)
    inputs = [d.tensor(dtype, shape, 0.5, 2, 0) for _ in range(2)]
    which = d.one_of([(0, 1), (0,), (1,)])
    attributes = {"xs": [f"x{i}" for i in which], "y": "y"}
    if len(which) == 1:
        attributes["zs"] = [f"x{1 - which[0]}"]
    order = [*which, *(i for i in (0, 1) if i not in which)]
    reference = lambda a, b: tuple(function(a, b)[i] for i in which)
    opsets = {TRAINING: 1, "": d.int(13, 17)}
    case = d.case(
        inputs, reference, outputs=len(which), attributes=attributes, opsets=opsets, running=(0, 1)
    )
    case.before = [helper.make_node(op, names, [out]) for op, names, out in nodes]
    case.before.append(helper.make_node("ReduceSum", ["z"], ["y"], keepdims=0))
    case.names = [f"x{i}" for i in order]
    return case
