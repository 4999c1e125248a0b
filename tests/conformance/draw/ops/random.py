"""Random numbers. Their type, shape and range are checked, and that a seed repeats them."""

import numpy as np
from onnx import helper

from ..case import attribute
from ..registry import operator
from ..types import BOOL, F32, F64, FLOATS, I32, I64, INTEGERS, onnx_type


def judged(d, inputs, dtype, shape, bounds, attributes, seeded=True):
    """Returns a case whose outputs are checks. A second node with the seed of the first must give
    the same.
    """
    # The checks use newer operators.
    d.opset = max(d.opset, 13)
    names = [f"x{i}" for i in range(len(inputs))]
    low, high = (
        helper.make_tensor(name, 11, [], [bound]) for name, bound in zip(("low", "high"), bounds)
    )
    whole = {"to": onnx_type(F64)}
    again = helper.make_node(d.op, names, ["again"])
    again.attribute.extend(attribute(name, value) for name, value in attributes.items())
    after = [
        helper.make_node("Shape", ["y0"], ["shape"]),
        helper.make_node("Cast", ["y0"], ["wide"], **whole),
        helper.make_node("Constant", [], ["low"], value=low),
        helper.make_node("Constant", [], ["high"], value=high),
        helper.make_node("Less", ["wide", "low"], ["below"]),
        helper.make_node("Greater", ["wide", "high"], ["above"]),
        helper.make_node("Or", ["below", "above"], ["outside"]),
        again,
        helper.make_node("Cast", ["again"], ["wide_again"], **whole),
        helper.make_node("Sub", ["wide", "wide_again"], ["change"]),
        # The type is checked by a product with a tensor of that type.
        (
            helper.make_node("CastLike", ["shape", "y0"], ["like"])
            if d.opset >= 15
            else helper.make_node("Shape", ["again"], ["like"])
        ),
    ]
    expected = [np.array(shape, I64), np.zeros(shape, bool)]
    results = ["shape", "outside"]
    if seeded:
        results.append("change")
        expected.append(np.zeros(shape))
    if d.opset >= 15:
        results.append("like")
        expected.append(np.array(shape).astype(dtype))
    case = d.case(inputs, lambda *_: tuple(expected), attributes=attributes, symbolic=False)
    case.after, case.results = after, results
    return case


@operator("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike")
def random(d):
    like = d.op.endswith("Like")
    dtype = d.type("T2" if like else "T", among=FLOATS)
    shape = d.shape()
    attributes = {"seed": d.float(0, 100)}
    bounds = (-50.0, 50.0)
    if "Uniform" in d.op:
        low = d.maybe(float(d.int(-5, 0)))
        high = d.maybe(float(d.int(1, 5)))
        attributes |= d.attributes(low=low, high=high)
        bounds = low or 0.0, 1.0 if high is None else high
    else:
        attributes |= d.attributes(
            mean=d.maybe(float(d.int(-5, 5))), scale=d.maybe(d.float(0.5, 2))
        )
    inputs = []
    if like:
        x_type = d.type("T1", among=FLOATS + INTEGERS)
        inputs = [d.tensor(x_type, shape)]
        named = x_type not in FLOATS or d.chance(0.5)
        dtype = dtype if named else x_type
    else:
        named = d.chance(0.7)
        dtype = dtype if named else F32
        attributes["shape"] = list(shape)
    if named:
        attributes["dtype"] = onnx_type(dtype)
    return judged(d, inputs, dtype, shape, bounds, attributes)


@operator("Bernoulli")
def bernoulli(d):
    dtype = d.type("T1")
    certain = d.chance(0.5)
    shape = d.shape()
    p = d.tensor(dtype, shape, 0, 1, 0)
    p = np.rint(p.astype(F64)).astype(dtype) if certain else p
    to = d.maybe(d.type("T2", among=FLOATS + INTEGERS + (BOOL,)))
    attributes = d.attributes(dtype=None if to is None else onnx_type(to), seed=d.float(0, 9))
    if certain:
        return d.case([p], lambda p: p.astype(to or dtype), attributes=attributes)
    return judged(d, [p], to or dtype, shape, (0.0, 1.0), attributes)


@operator("Multinomial")
def multinomial(d):
    rows, classes, samples = d.int(1, 3), d.int(1, 4), d.maybe(d.int(1, 5))
    dtype = d.type("T1")
    to = d.maybe(d.one_of([I32, I64]))
    attributes = d.attributes(
        dtype=None if to is None else onnx_type(to), sample_size=samples, seed=d.float(0, 9)
    )
    x = d.tensor(dtype, [rows, classes], -3, 3, 0)
    return judged(d, [x], to or I32, (rows, samples or 1), (0.0, classes - 1.0), attributes)
