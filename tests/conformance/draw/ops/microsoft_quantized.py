"""Operators of ONNX Runtime on quantized tensors, compared with it."""

import numpy as np

from ..oracle import by_runtime
from ..types import BOOL, F32, F64, I8, I32, U8
from .microsoft import floats, ours, window


def scale(d):
    return np.array(d.float(0.05, 0.5), F32)


def quantized(d, dtype, shape, needs_zero=True):
    """A tensor, its scale and its zero point."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    zero = d.integers(dtype, [], low // 4, high // 4)
    zero = zero if needs_zero else d.maybe(zero, 0.8)
    return [d.integers(dtype, shape, low, high), scale(d), zero]


def omit_zeros(d, case, places):
    """Sometimes omits zero points that are 0, without which ONNX Runtime does not run the case."""
    omitted = [place for place in places if d.chance(0.1)]
    if omitted:
        for place in omitted:
            case.inputs[place] = np.zeros_like(case.inputs[place])
        expected = tuple(by_runtime(case, case.model()))
        for place in omitted:
            case.inputs[place] = None
        case.reference = lambda *_: expected
    return case


def byte(d):
    return d.one_of([I8, U8])


# A result may round to the number next to that of ONNX Runtime, which rounds after another product.
ONE_OFF = (0, 1)


@ours("QLinearAdd", "QLinearMul")
def quantized_binary(d):
    dtype, shape = byte(d), d.shape(least=1, empty=0)
    inputs = quantized(d, dtype, shape) + quantized(d, dtype, d.broadcast(shape))
    inputs += quantized(d, dtype, [])[1:]
    return omit_zeros(d, d.case(inputs, tolerance=ONE_OFF), [2, 5, 7])


@ours("QLinearSigmoid", "QLinearLeakyRelu")
def quantized_unary(d):
    dtype = byte(d)
    inputs = quantized(d, dtype, d.shape(least=1, empty=0)) + quantized(d, dtype, [])[1:]
    attributes = d.attributes(alpha=d.maybe(d.float(0.01, 0.5)))
    case = d.case(inputs, tolerance=ONE_OFF, constant=[1, 2, 3, 4], attributes=attributes)
    return omit_zeros(d, case, [2, 4])


@ours("QLinearSoftmax")
def quantized_softmax(d):
    # ONNX Runtime's result of a single element, 256 steps of the scale, wraps around.
    dtype, shape = byte(d), d.shape(least=1, size=(2, 5), empty=0)
    opset = d.one_of([12, 13])
    axis = d.axis(len(shape)) if opset == 13 else d.int(0, len(shape) - 1)
    zero = np.array(-128 if dtype == I8 else 0, dtype)
    inputs = [
        *quantized(d, dtype, shape, False),
        np.array(d.one_of([1 / 256, 0.003921569, 0.0051]), F32),
        zero,
    ]
    attributes = {"opset": opset, "axis": axis}
    return d.case(inputs, tolerance=ONE_OFF, constant=[1, 2, 3, 4], attributes=attributes)


@ours("QLinearConcat")
def quantized_concat(d):
    dtype, shape = byte(d), list(d.shape(least=1, empty=0))
    axis = d.axis(len(shape))
    inputs = quantized(d, dtype, [])[1:]
    for _ in range(d.int(1, 3)):
        shape[axis] = d.int(1, 3)
        inputs += quantized(d, dtype, shape)
    scales = [i for i in range(len(inputs)) if i < 2 or i % 3 != 2]
    return d.case(inputs, tolerance=ONE_OFF, constant=scales, attributes={"axis": axis})


@ours("QLinearWhere")
def quantized_where(d):
    dtype, shape = byte(d), d.shape(least=1, empty=0)
    inputs = [d.tensor(BOOL, d.broadcast(shape))]
    inputs += quantized(d, dtype, shape) + quantized(d, dtype, d.broadcast(shape))
    inputs += quantized(d, dtype, [])[1:]
    return d.case(inputs, tolerance=ONE_OFF, constant=[2, 3, 5, 6, 7, 8])


@ours("QLinearAveragePool")
def quantized_average_pool(d):
    dtype, size, last = byte(d), [d.int(3, 6), d.int(3, 6)], d.chance(0.4)
    _, attributes = window(d, size)
    shape = [d.int(1, 2), *size, d.int(1, 3)] if last else [d.int(1, 2), d.int(1, 3), *size]
    inputs = quantized(d, dtype, shape) + quantized(d, dtype, [])[1:]
    attributes |= {"channels_last": int(last), "count_include_pad": d.int(0, 1)}
    if attributes.get("auto_pad") != "VALID":
        attributes |= d.attributes(ceil_mode=d.maybe(1))
    case = d.case(inputs, tolerance=ONE_OFF, constant=[1, 2, 3, 4], attributes=attributes)
    return omit_zeros(d, case, [2, 4])


@ours("QLinearGlobalAveragePool")
def quantized_global_average_pool(d):
    dtype, last = byte(d), d.int(0, 1)
    inputs = quantized(d, dtype, [d.int(1, 2), d.int(1, 4), d.int(1, 4), d.int(1, 4)])
    inputs += quantized(d, dtype, [])[1:]
    return d.case(
        inputs, tolerance=ONE_OFF, constant=[1, 2, 3, 4], attributes={"channels_last": last}
    )


@ours("QLinearReduceMean")
def quantized_reduce_mean(d):
    dtype, shape = byte(d), d.shape(least=1, empty=0)
    axes, keep = sorted(d.some(range(len(shape)), 1)), d.int(0, 1)
    inputs = quantized(d, dtype, shape, False) + quantized(d, dtype, [], False)[1:]

    def reference(x, x_scale, x_zero, y_scale, y_zero=None):
        x_zero, y_zero = (0 if zero is None else zero for zero in (x_zero, y_zero))
        real = (x.astype(F64) - x_zero) * x_scale
        mean = real.mean(axis=tuple(axes), keepdims=bool(keep))
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        return np.clip(np.rint(mean / y_scale) + y_zero, least, most).astype(dtype)

    attributes = {"axes": axes, "keepdims": keep}
    return d.case(inputs, reference, tolerance=ONE_OFF, attributes=attributes)


@ours("QLinearConv")
def quantized_conv(d):
    size, last = [d.int(3, 6), d.int(3, 6)], d.int(0, 1)
    kernel, attributes = window(d, size)
    group = d.one_of([1, 1, 2])
    channels, filters = group * d.int(1, 4), group * d.int(1, 4)
    shape = [d.int(1, 2), *size, channels] if last else [d.int(1, 2), channels, *size]
    scales = d.tensor(F32, [filters] if d.chance(0.4) else [], 0.05, 0.5, extremes=0)
    dtype = byte(d)
    w_type = I8 if dtype == I8 else byte(d)
    # Small enough for ONNX Runtime to be exact without VNNI.
    middle = 128 if w_type == U8 else 0
    w = [
        (d.integers(I32, [filters, channels // group, *kernel], -64, 64) + middle).astype(w_type),
        scales,
        np.full(scales.shape, middle, w_type),
    ]
    inputs = quantized(d, dtype, shape) + w
    inputs += quantized(d, dtype, [])[1:] + [d.maybe(d.integers(I32, [filters], -999, 999))]
    attributes |= {"channels_last": last, "group": group}
    constant = [1, 2, 3, 4, 5, 6, 7]
    return d.case(inputs, tolerance=ONE_OFF, constant=constant, attributes=attributes)


@ours("QuantizeLinear", "DequantizeLinear")
def linear(d):
    dtype, shape = byte(d), d.shape(least=2, empty=0)
    axis = d.axis(len(shape)) if d.chance(0.5) else None
    length = [] if axis is None else [shape[axis]]
    if axis is None and d.chance(0.3):
        length = [1]
    scales = d.tensor(F32, length, 0.05, 0.5, extremes=0)
    zeros = d.integers(dtype, length, -9, 9)
    if d.op == "QuantizeLinear":
        x = floats(d, shape, -9, 9)
    else:
        x = d.integers(dtype, shape, np.iinfo(dtype).min, np.iinfo(dtype).max)
    if dtype == U8 or d.op == "DequantizeLinear":
        zeros = d.maybe(zeros, 0.8)
    return d.case([x, scales, zeros], attributes=d.attributes(axis=axis))


def factors(d, a_type, b_type):
    m, k, n = d.int(1, 5), d.int(1, 5), d.int(1, 5)
    a = d.integers(a_type, [m, k], -99, 99)
    b = d.integers(b_type, [k, n], -99, 99)
    return a, b, n


@ours("QGemm")
def quantized_gemm(d):
    dtype = byte(d)
    b_type = I8 if dtype == I8 else byte(d)
    m, k, n = d.int(1, 5), d.int(1, 5), d.int(1, 5)
    trans_a, trans_b = d.int(0, 1), d.int(0, 1)
    columns = [n] if d.chance(0.4) else []
    inputs = [
        d.integers(dtype, [k, m] if trans_a else [m, k], -99, 99),
        scale(d),
        d.integers(dtype, [], -9, 9),
        d.integers(b_type, [n, k] if trans_b else [k, n], -99, 99),
        d.tensor(F32, columns, 0.05, 0.5, extremes=0),
        d.integers(b_type, columns, -9, 9),
        d.maybe(d.integers(I32, d.broadcast([m, n]), -999, 999)),
    ]
    tolerance = None
    if d.chance(0.6):
        inputs += [np.array(d.float(2, 9), F32), d.integers(dtype, [], -9, 9)]
        tolerance = ONE_OFF
    attributes = d.attributes(transA=trans_a, transB=trans_b, alpha=d.maybe(d.float(0.5, 2)))
    return d.case(inputs, tolerance=tolerance, attributes=attributes)


@ours("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(d):
    b_type, k, n = byte(d), d.int(1, 5), d.int(1, 5)
    # On processors without VNNI, ONNX Runtime saturates the sum of two products to 16 bits, which
    # 255 times these weights cannot exceed.
    b = d.integers(b_type, [k, n], -64, 64)
    columns = [n] if d.chance(0.4) else []
    inputs = [
        floats(d, [d.int(1, 4), k]),
        b,
        d.tensor(F32, columns, 0.05, 0.5, extremes=0),
        d.maybe(d.integers(b_type, columns, -9, 9)),
        d.maybe(floats(d, [n])),
    ]
    return d.case(inputs, tolerance=(1e-4, 1e-3))


@ours("MatMulIntegerToFloat")
def matmul_integer_to_float(d):
    a_type = byte(d)
    b_type = I8 if a_type == I8 else byte(d)
    a, b, n = factors(d, a_type, b_type)
    columns = [n] if d.chance(0.4) else []
    inputs = [
        a,
        b,
        scale(d),
        d.tensor(F32, columns, 0.05, 0.5, extremes=0),
        d.maybe(d.integers(a_type, [], -9, 9)),
        d.maybe(d.integers(b_type, columns, -9, 9)),
        d.maybe(floats(d, [n])),
    ]
    return d.case(inputs)
