"""Quantization and dequantization."""

import numpy as np

from ..registry import operator
from ..types import (
    BF16,
    BY_NAME,
    F16,
    F32,
    F64,
    FLOATS,
    I32,
    INTEGERS,
    MINIFLOATS,
    NIBBLES,
    limits,
    onnx_type,
)
from .cast import narrowed


def layout(d, shape):
    """Returns the shape of the scales, the axis, the block size, and how scales are broadcast to
    the elements.
    """
    kinds = (
        ["tensor"]
        + (["axis"] if "axis" in d.schema.attributes else [])
        + (["block"] if "block_size" in d.schema.attributes else [])
    )
    kind = d.one_of(kinds)
    if kind == "tensor" or not shape:
        return d.one_of([(), (1,)]), {}, lambda scale: scale.reshape(())
    axis = d.axis(len(shape))
    attributes = {"axis": axis}
    if kind == "axis":
        stand = [1] * len(shape)
        stand[axis] = -1
        return (shape[axis],), attributes, lambda scale: scale.reshape(stand)
    block = d.int(1, shape[axis])
    scales = list(shape)
    scales[axis] = -(-shape[axis] // block)
    spread = lambda scale: np.take(np.repeat(scale, block, axis), range(shape[axis]), axis)
    return tuple(scales), attributes | {"block_size": block}, spread


def drawn_scale(d, dtype, shape):
    """Returns powers of two, so that quotients are exact."""
    exponents = d.rng.integers(0 if dtype == I32 else -3, 3, shape)
    return np.asarray(2.0**exponents).astype(dtype)


@operator("QuantizeLinear")
def quantize_linear(d):
    shape = d.shape(least=0, empty=0)
    dtype = d.type("T1", among=FLOATS)
    same = d.schema.inputs[1].type_str == "T1"
    scale_type = dtype if same else F32 if d.version < 23 else d.type("T2", among=FLOATS)
    to = d.type("T3" if d.version >= 23 else "T2")
    scales, attributes, stand = layout(d, shape)
    low, high = (
        (-40, 40)
        if to in INTEGERS
        else (-6, 6) if to in NIBBLES else d.one_of([(-6, 6), (-999, 999)])
    )
    x = d.tensor(dtype, shape, low, high, extremes=0)
    scale = drawn_scale(d, scale_type, scales)
    zero = d.tensor(to, scales, 0 if to in MINIFLOATS else -5, 0 if to in MINIFLOATS else 5, 0)
    if (to == BY_NAME["uint8"] or "output_dtype" in d.schema.attributes) and d.chance(0.4):
        zero = None
        if to != BY_NAME["uint8"] or ("output_dtype" in d.schema.attributes and d.chance(0.3)):
            attributes["output_dtype"] = onnx_type(to)
    precision = (
        d.maybe(d.one_of([F32, F16, BF16]), 0.3) if "precision" in d.schema.attributes else None
    )
    attributes |= d.attributes(precision=None if precision is None else onnx_type(precision))
    saturate = d.maybe(d.int(0, 1)) if to in MINIFLOATS else None
    attributes |= d.attributes(saturate=saturate)

    def reference(x, scale, zero=None):
        # The quotient is rounded to the type of the scale, or to the type of the attribute.
        inner = precision or scale.dtype
        quotient = (
            (x.astype(inner).astype(F64) / stand(scale).astype(inner).astype(F64))
            .astype(inner)
            .astype(F64)
        )
        if to in MINIFLOATS:
            return narrowed(quotient, to, saturate != 0)
        quotient = np.rint(quotient) + (0 if zero is None else stand(zero).astype(F64))
        return np.clip(quotient, *limits(to)).astype(to)

    return d.case([x, scale, zero], reference, attributes=attributes)


@operator("DequantizeLinear")
def dequantize_linear(d):
    shape = d.shape(least=0, empty=0)
    dtype = d.type("T1" if d.version >= 19 else "T")
    to = d.type("T2", among=FLOATS) if d.version >= 19 else F32
    result = d.type("T3") if d.version >= 23 and d.chance(0.3) else None
    scales, attributes, stand = layout(d, shape)
    x = (
        d.tensor(dtype, shape, -100, 100, 0)
        if dtype in INTEGERS + NIBBLES
        else d.tensor(dtype, shape, -6, 6, 0)
    )
    scale = drawn_scale(d, to, scales)
    with_zero = dtype not in (I32,) + MINIFLOATS and d.chance(0.6)
    zero = d.tensor(dtype, scales, -5, 5, 0) if with_zero else None
    if result is not None:
        attributes["output_dtype"] = onnx_type(result)
    result = result or to

    def reference(x, scale, zero=None):
        x = x.astype(F32).astype(F64) - (0 if zero is None else stand(zero).astype(F32).astype(F64))
        return (x * stand(scale).astype(F64)).astype(result)

    return d.case([x, scale, zero], reference, attributes=attributes)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(d):
    x = d.tensor(F32, d.shape(empty=0), extremes=0)
    if d.chance(0.5):
        x = np.abs(x) * d.one_of([np.float32(1), np.float32(-1)])

    def reference(x):
        low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
        scale = np.float32((high - low) / np.float32(255))
        if scale == 0:
            scale = np.float32(1)
        zero = np.uint8(np.clip(np.rint(np.float32(0 - low) / scale), 0, 255))
        y = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)
        return y, scale, zero

    return d.case([x], reference, outputs=3)
