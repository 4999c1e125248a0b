"""Image networks: convolutions with the layers around them, pooling, channels."""

import numpy as np

from ..types import F32
from .evaluate import Unfit
from .pointwise import activate, partner
from .steps import step


def image(g):
    """Returns a value with a batch, channels and pixels."""
    return g.pick(least=3, most=2500, wanted=lambda x: x.rank <= 5 and min(x.shape) > 0)


def conv(g, x, filters=None, same=None):
    """A convolution; `same` keeps the size of the image."""
    c, axes = x.shape[1], x.rank - 2
    same = g.chance(0.5) if same is None else same
    kernel = g.one_of([1, 1, 3, 3, 2]) if not same else g.one_of([1, 3])
    kernel = min(kernel, *(n if not same else 3 for n in x.shape[2:]))
    attributes = {}
    group = 1
    filters = filters or g.one_of([1, 2, 4, 8, 8, 12, 16, 16, 20, 24, 32, 40])
    if g.chance(0.25) and c > 1:
        group = g.one_of([d for d in range(2, c + 1) if c % d == 0])
        filters = group * g.one_of([1, 1, 2, 4]) if filters is None or filters % group else filters
        attributes["group"] = group
    if same and kernel > 1:
        attributes |= (
            {"auto_pad": "SAME_UPPER"} if g.chance(0.3) else {"pads": [kernel // 2] * 2 * axes}
        )
    elif kernel > 1 and g.chance(0.5):
        attributes["pads"] = [g.int(0, kernel - 1) for _ in range(2 * axes)]
    if not same and g.chance(0.3):
        attributes["strides"] = [g.int(1, 2) for _ in range(axes)]
    w = g.weights(filters, c // group, *[kernel] * axes)
    bias = [g.weights(filters, scale=0.3)] if g.chance(0.6) else []
    return g.add("Conv", [x, w, *bias], **attributes)


def batch_norm(g, x):
    c = x.shape[1]
    scale, bias, mean = (g.weights(c, scale=1) for _ in range(3))
    variance = g.constant(np.abs(g.rng.normal(1, 0.3, c)).astype(x.dtype) + x.dtype.type(0.1), 0.1)
    return g.add("BatchNormalization", [x, scale, bias, mean, variance])


@step(4)
def layers(g):
    """A convolution and common layers after it, in any order."""
    x = image(g)
    y = conv(g, x)
    for _ in range(g.int(0, 3)):
        kind = g.int(0, 5)
        if kind == 0:
            y = batch_norm(g, y)
        elif kind <= 2:
            y = activate(g, y)
        elif kind == 3:
            y = g.add(g.one_of(["Add", "Mul", "Sub", "Div"]), in_any_order(g, y, partner(g, y)))
        elif kind == 4:
            other = g.pick(wanted=lambda v: v.shape == y.shape)
            y = g.add("Add", in_any_order(g, y, other))
        else:
            y = conv(g, y)


def in_any_order(g, a, b):
    return [a, b] if g.chance(0.5) else [b, a]


@step(2)
def residual(g):
    x = image(g)
    y = conv(g, x, same=True) if g.chance(0.5) else x
    y = activate(g, batch_norm(g, y) if g.chance(0.5) else y)
    y = conv(g, y, x.shape[1], same=True)
    y = batch_norm(g, y) if g.chance(0.4) else y
    y = g.add("Add", in_any_order(g, x, y))
    if g.chance(0.6):
        activate(g, y)


@step(1.5)
def squeeze_and_excite(g):
    """Squeeze and excitation: scales channels by a function of their means."""
    x = image(g)
    pooled = g.add("GlobalAveragePool", [x])
    y = conv(g, pooled, x.shape[1])
    y = g.add(g.one_of(["Sigmoid", "HardSigmoid"]), [y])
    if y.rank == x.rank:
        g.add("Mul", in_any_order(g, x, y))


@step(2)
def pool(g):
    x = image(g)
    axes = x.rank - 2
    op = g.one_of(["MaxPool", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"])
    if not np.isfinite(x.array).all() or x.rank != 4 and op == "GlobalMaxPool":
        raise Unfit("implementations differ, or the evaluator is wrong")
    if op.startswith("Global"):
        g.add(op, [x])
        return
    kernel = min(g.int(2, 3), *x.shape[2:])
    attributes = {"kernel_shape": [kernel] * axes, "strides": g.maybe([g.int(1, 2)] * axes)}
    if kernel > 1 and g.chance(0.5):
        # The evaluator is wrong if they are not equal.
        attributes["pads"] = [g.int(0, kernel - 1)] * 2 * axes
    if op == "AveragePool":
        attributes["count_include_pad"] = g.one_of([None, 1])
    g.add(op, [x], **attributes)


@step(1.5)
def inception(g):
    """Parallel convolutions of one image, concatenated along the channels."""
    x = image(g)
    parts = [
        conv(g, x, same=True, filters=g.one_of([4, 8, 16, 16, 32])) for _ in range(g.int(1, 3))
    ]
    parts = [activate(g, y) if g.chance(0.5) else y for y in parts]
    parts += [x] if g.chance(0.4) else []
    parts += [parts[0]] if g.chance(0.2) else []
    y = g.add("Concat", parts, axis=g.one_of([1, 1 - x.rank]))
    if g.chance(0.5):
        conv(g, y)


@step(1.5)
def dense(g):
    """Dense blocks: each layer reads the outputs of all layers before it."""
    x = image(g)
    for _ in range(g.int(1, 3)):
        y = conv(g, x, g.one_of([8, 16, 16, 32]), same=True)
        y = activate(g, batch_norm(g, y) if g.chance(0.4) else y)
        x = g.add("Concat", in_any_order(g, x, y), axis=1)
    if g.chance(0.5):
        x = batch_norm(g, x)
    if g.chance(0.5):
        g.add("Relu", [x])


@step(1.2)
def channel_shuffle(g):
    """A channel_shuffle of channels between groups."""
    x = image(g)
    if x.rank != 4:
        raise Unfit("only images")
    n, c, h, w = x.shape
    groups = g.one_of([d for d in range(1, c + 1) if c % d == 0])
    y = g.add("Reshape", [x, g.shape_of([n, groups, c // groups, h, w])])
    y = g.add("Transpose", [y], perm=[0, 2, 1, 3, 4])
    y = g.add("Reshape", [y, g.shape_of([n, c, h, w])])
    if g.chance(0.6):
        conv(g, y)


@step()
def resize(g):
    x = image(g)
    if x.rank != 4 or not np.isfinite(x.array).all():
        raise Unfit("only images")
    if g.chance(0.5):
        scales = g.constant(np.array([1, 1, 2, g.one_of([1, 2])], np.float32))
        y = g.add("Resize", [x, None, scales], mode="nearest", **nearest(g))
    else:
        sizes = g.shape_of([*x.shape[:2], g.int(1, 6), g.int(1, 6)])
        y = g.add("Resize", [x, None, None, sizes], mode="linear")
    if g.chance(0.5):
        conv(g, y)


def nearest(g):
    return (
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        if g.chance(0.7)
        else {}
    )


@step()
def transposed_conv(g):
    """A transposed convolution."""
    x = image(g)
    if x.rank != 4 or x.dtype != F32:
        raise Unfit("only images")
    group = 2 if x.shape[1] % 2 == 0 and g.chance(0.3) else 1
    filters = g.one_of([1, 4, 8])
    w = g.weights(x.shape[1], filters, 2, 2)
    # The evaluator adds the bias of the first group to all groups.
    bias = [g.weights(filters, scale=0.3)] if group == 1 and g.chance(0.5) else []
    y = g.add("ConvTranspose", [x, w, *bias], strides=[2, 2], group=group)
    for _ in range(g.int(0, 2)):
        y = g.one_of([activate, batch_norm, lambda g, y: g.add("Add", [y, partner(g, y)])])(g, y)


@step()
def classifier(g):
    """The end of a classifier: flattening and a dense layer."""
    x = image(g)
    y = g.add("GlobalAveragePool", [x]) if g.chance(0.5) else x
    y = (
        g.add("Flatten", [y])
        if g.chance(0.7)
        else g.add("Reshape", [y, g.shape_of([x.shape[0], -1])])
    )
    if y.shape[1] <= 256:
        g.add("Gemm", [y, g.weights(5, y.shape[1]), g.weights(5, scale=0.3)], transB=1)


@step(0.7)
def nhwc_layers(g):
    """A transposition to NHWC and back, with operators in between."""
    x = image(g)
    last = [0, *range(2, x.rank), 1]
    y = g.add("Transpose", [x], perm=last)
    kind = g.int(0, 2)
    if kind == 0:
        y = activate(g, y)
    elif kind == 1:
        y = g.add("MatMul", [y, g.weights(y.shape[-1], g.one_of([1, 8, 16]))])
    else:
        y = g.add("Add", [y, g.weights(y.shape[-1], scale=0.3)])
    y = g.add("Transpose", [y], perm=[0, x.rank - 1, *range(1, x.rank - 1)])
    if g.chance(0.5):
        conv(g, y)
