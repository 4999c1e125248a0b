"""Operators between DequantizeLinear and QuantizeLinear, and integer operators."""

import numpy as np

from ..types import F32, I8, U8
from .evaluate import Unfit
from .steps import step


def quantization(g, size, dtype):
    """Returns a scale and a zero point for numbers of that magnitude."""
    scale = g.constant(np.array(max(size, 0.1) / g.float(90, 130), np.float32), 0.05)
    zero = g.constant(np.array(g.int(100, 150) if dtype == U8 else g.int(-9, 9), dtype))
    return scale, zero


def quantize(g, x):
    """Quantizes a value. Returns it with its scale and zero point."""
    if g.dtype != F32 or x.dtype != F32 or not x.array.size or not np.isfinite(x.array).all():
        raise Unfit("no finite floats")
    scale, zero = quantization(g, float(np.abs(x.array).max()), g.one_of([U8, I8]))
    return g.add("QuantizeLinear", [x, scale, zero]), scale, zero


def quantize_and_dequantize(g, x):
    """Quantizes and dequantizes a value."""
    return g.add("DequantizeLinear", quantize(g, x))


def weights(g, *shape, axis):
    """Returns dequantized weights, per tensor or per channel."""
    numbers = g.constant(g.integers(I8, shape, -100, 100))
    count = shape[axis] if g.chance(0.5) else 1
    scale = (g.rng.uniform(0.5, 1.5, count) / 100 / np.sqrt(np.prod(shape) / shape[axis])).astype(
        F32
    )
    if count == 1 and g.chance(0.5):
        scale = scale.reshape(())
    zero = g.maybe(g.constant(np.zeros(scale.shape, I8)))
    inputs = [numbers, g.constant(scale), *([zero] if zero else [])]
    return g.add("DequantizeLinear", inputs, axis=axis if scale.ndim and count > 1 else None)


def small(g, **wanted):
    return g.pick(dtype=F32, most=150, wanted=lambda x: x.array.size > 0, **wanted)


@step(1.5)
def layer(g):
    x = quantize_and_dequantize(g, small(g, least=2))
    kind = g.int(0, 8)
    if kind <= 2 and x.rank in (3, 4):
        filters = g.one_of([1, 4, 8, 16])
        group = 1
        if g.chance(0.3):
            group, filters = x.shape[1], x.shape[1]
        w = weights(g, filters, x.shape[1] // group, *[1] * (x.rank - 2), axis=0)
        bias = [g.weights(filters, scale=0.3)] if g.chance(0.5) else []
        y = g.add("Conv", [x, w, *bias], group=group)
    elif kind <= 4:
        y = g.add("MatMul", [x, weights(g, x.shape[-1], g.int(1, 8), axis=1)])
        if g.chance(0.5):
            y = g.add("Add", [y, g.weights(y.shape[-1], scale=0.3)])
    elif kind == 5:
        other = quantize_and_dequantize(g, g.pick(dtype=F32, wanted=has_shape_of(x)))
        y = g.add(g.one_of(["Add", "Mul"]), [x, other])
    elif kind == 6:
        other = quantize_and_dequantize(g, g.pick(dtype=F32, wanted=has_shape_of(x)))
        y = g.add("Concat", [x, other], axis=g.axis(x.rank))
    elif kind == 7:
        y = g.add(g.one_of(["Sigmoid", "Tanh", "LeakyRelu", "HardSwish"]), [x])
    else:
        y = move(g, x)
    if g.chance(0.4):
        bounds = [g.constant(np.array(bound, F32)) for bound in (0, 6)]
        y = g.add("Relu", [y]) if g.chance(0.6) else g.add("Clip", [y, *bounds])
    if g.chance(0.2):
        y = move(g, y)
    y = quantize_and_dequantize(g, y)
    if g.chance(0.3):
        move(g, y)


def has_shape_of(x):
    return lambda y: y.shape == x.shape


def move(g, x):
    kind = g.int(0, 4)
    if kind == 0:
        return g.add("Transpose", [x])
    if kind == 1:
        return g.add("Reshape", [x, g.shape_of([-1, x.shape[-1]])])
    if kind == 2 and x.rank == 4:
        return g.add("MaxPool", [x], kernel_shape=[min(2, *x.shape[2:])] * 2)
    if kind == 3 and x.rank == 4:
        return g.add("GlobalAveragePool", [x])
    return g.add("Slice", [x, g.shape_of([0]), g.shape_of([99]), g.shape_of([0])])


@step(0.7)
def integer_matmul(g):
    """A product by an integer operator."""
    x = small(g, least=2)
    b, scale, zero = quantize(g, x)
    n = g.int(1, 8)
    w = g.constant(g.integers(I8, (x.shape[-1], n), -100, 100))
    if g.chance(0.5):
        y = g.add("MatMulInteger", [b, w, zero])
        y = g.add("Cast", [y], to=1)
        g.add("Mul", [y, g.add("Mul", [scale, g.constant(np.array(0.01, F32))])])
        return
    out = g.constant(np.array(0.5, F32)), g.constant(np.array(3, b.dtype))
    ws = g.constant(np.array(0.01, F32)), g.constant(np.array(0, I8))
    y = g.add("QLinearMatMul", [b, scale, zero, w, *ws, *out])
    g.add("DequantizeLinear", [y, *out])


@step(0.7)
def dynamic_quantization(g):
    """Dynamic quantization."""
    x = small(g, least=2)
    if not np.isfinite(x.array).all():
        raise Unfit("no finite floats")
    y, scale, zero = g.add("DynamicQuantizeLinear", [x], outputs=3)
    if g.chance(0.3):
        g.add("DequantizeLinear", [y, scale, zero])
        return
    w = g.constant(g.integers(I8, (x.shape[-1], g.int(1, 8)), -100, 100))
    y = g.add("Cast", [g.add("MatMulInteger", [y, w, zero])], to=1)
    shape = g.one_of([(), (1,), y.shape[-1:], (y.shape[-2], 1)])
    scales = g.constant(g.rng.uniform(0.005, 0.015, shape).astype(F32))
    y = g.add("Mul", [y, g.add("Mul", [scale, scales])])
    if g.chance(0.5):
        g.add("Add", [y, g.weights(y.shape[-1], scale=0.3)])


@step(0.8)
def chain(g):
    """A chain of quantize convolutions."""
    x = g.pick(dtype=F32, rank=4, most=400, wanted=lambda x: min(x.shape) > 0)
    x = quantize_and_dequantize(g, x)
    for _ in range(g.int(1, 3)):
        c = x.shape[1]
        filters, group = g.one_of([1, 4, 8, 16]), 1
        if g.chance(0.3):
            filters = group = c
        kernel = g.one_of([1, 1, 3])
        w = weights(g, filters, c // group, kernel, kernel, axis=0)
        bias = [g.weights(filters, scale=0.3)] if g.chance(0.5) else []
        y = g.add("Conv", [x, w, *bias], group=group, pads=[kernel // 2] * 4)
        y = g.add(g.one_of(["Relu", "Identity"]), [y])
        y = quantize_and_dequantize(g, y)
        if y.shape == x.shape and g.chance(0.5):
            y = quantize_and_dequantize(g, g.add("Add", [x, y]))
        if g.chance(0.2):
            y = g.add("Concat", [y, x], axis=1)
            y = quantize_and_dequantize(g, y) if g.chance(0.5) else y
        x = y
    if g.chance(0.3):
        g.add("GlobalAveragePool", [x])
