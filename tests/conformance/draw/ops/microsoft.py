"""Operators of ONNX Runtime, compared with it. Operators that it runs on other processors only have
a reference."""

import numpy as np

from ..oracle import by_runtime
from ..registry import operator
from ..types import BOOL, F32, F64, I8, I32, I64, U8, U16, U32, wide

DOMAIN = "com.microsoft"


def ours(*names):
    return operator(*names, domain=DOMAIN)


def floats(d, shape, low=-2, high=2):
    """Numbers in the type that ONNX Runtime computes in on a CPU."""
    return d.tensor(F32, shape, low, high, extremes=0)


def gelu(x):
    from math import erf

    return x * 0.5 * (1 + np.vectorize(erf, otypes=[F64])(x / np.sqrt(2)))


def softmax(x, axis=-1):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


# Activations.


@ours("BiasGelu")
def bias_gelu(d):
    shape = d.shape(least=1, empty=0)
    return d.case([floats(d, shape), floats(d, shape[-1:])])


@ours("BiasAdd")
def bias_add(d):
    shape = d.shape(least=3, most=3, empty=0)
    inputs = [floats(d, shape), floats(d, shape[-1:]), floats(d, shape)]
    return d.case(inputs, wide(lambda x, bias, skip: x + bias + skip))


@ours("BiasDropout")
def bias_dropout(d):
    shape = d.shape(least=1, empty=0)
    inputs = [floats(d, shape), floats(d, shape[-1:])]
    inputs += [d.maybe(floats(d, shape)), d.maybe(np.array(0.3, F32)), d.maybe(np.array(False))]

    def reference(x, bias, residual, *_):
        y = x + bias + (0 if residual is None else residual)
        return y.astype(F32), np.ones(x.shape, BOOL)

    outputs = d.int(1, 2)
    first = lambda *inputs: reference(*inputs)[:outputs]
    return d.case(inputs, first, outputs=outputs, attributes=d.attributes(seed=d.maybe(3)))


@ours("BiasSoftmax")
def bias_softmax(d):
    shape = d.shape(least=2, empty=0)
    axis = d.int(1, len(shape) - 1)
    inner = d.chance(0.5)
    bias = [1 if inner and 0 < i < axis else size for i, size in enumerate(shape)]
    attributes = {"axis": axis, "is_inner_broadcast": int(inner)}

    def reference(x, bias):
        sums = x + bias
        return softmax(sums.reshape(*sums.shape[:axis], -1)).reshape(sums.shape)

    return d.case([floats(d, shape), floats(d, bias)], wide(reference), attributes=attributes)


@ours("BiasSplitGelu")
def bias_split_gelu(d):
    shape = [d.int(1, 2), d.int(1, 4), 2 * d.int(1, 5)]

    def reference(x, bias):
        left, right = np.split(x + bias, 2, axis=-1)
        return left * gelu(right)

    return d.case([floats(d, shape), floats(d, shape[-1:])], wide(reference))


@ours("FastGelu")
def fast_gelu(d):
    shape = d.shape(least=1, empty=0)
    return d.case([floats(d, shape), d.maybe(floats(d, shape[-1:]))])


@ours("Gelu", "QuickGelu")
def gelus(d):
    attributes = d.attributes(alpha=d.maybe(d.float(0.5, 2)))
    return d.case([floats(d, d.shape(empty=0))], attributes=attributes)


# Normalizations.


@operator("SimplifiedLayerNormalization")
def simplified_layer_normalization(d):
    shape = d.shape(least=1, empty=0)
    axis = d.axis(len(shape))
    attributes = d.attributes(axis=axis, epsilon=d.maybe(d.float(1e-5, 1e-2)))
    epsilon = attributes.get("epsilon", 1e-5)
    outputs = d.int(1, 2)
    axes = tuple(range(axis % len(shape), len(shape)))

    def reference(x, scale):
        x64 = x.astype(F64)
        inverse = 1 / np.sqrt((x64 * x64).mean(axis=axes, keepdims=True) + epsilon)
        return ((x64 * inverse * scale).astype(F32), inverse.astype(F32))[:outputs]

    inputs = [floats(d, shape), floats(d, shape[axes[0] :])]
    return d.case(inputs, reference, outputs=outputs, attributes=attributes)


@ours("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skip_layer_normalization(d):
    simple = d.op == "SkipSimplifiedLayerNormalization"
    shape = [d.int(1, 3), d.int(1, 4), 4 * d.int(1, 3)]
    skip = shape if simple else d.one_of([shape, [1, *shape[1:]], shape[1:]])
    width = shape[-1:]
    inputs = [floats(d, shape), floats(d, skip), floats(d, width, 0.5, 2)]
    if not simple:
        inputs.append(d.maybe(floats(d, width)))
    inputs.append(d.maybe(floats(d, width)))
    attributes = d.attributes(epsilon=d.maybe(d.float(1e-5, 1e-2)))
    # ONNX Runtime does not write the mean without centering.
    outputs = d.one_of([1, [True, False, False, True], [True, not simple, True, True]])
    return d.case(inputs, outputs=outputs, attributes=attributes)


@ours("EmbedLayerNormalization")
def embed_layer_normalization(d):
    batch, length, width, words = d.int(1, 3), d.int(1, 5), 4 * d.int(1, 3), d.int(2, 9)
    ids = d.integers(I32, [batch, length], 0, words - 1)
    segments = d.chance(0.5)
    mask = d.maybe(d.integers(I32, [batch, length], 0, 1))
    positions = d.maybe(d.integers(I32, [d.one_of([1, batch]), length], 0, 7))
    inputs = [
        ids,
        d.integers(I32, [batch, length], 0, 1) if segments else None,
        floats(d, [words, width]),
        floats(d, [8, width]),
        floats(d, [2, width]) if segments else None,
        floats(d, [width]),
        floats(d, [width]),
        mask,
        positions,
    ]
    attributes = d.attributes(
        epsilon=d.maybe(d.float(1e-5, 1e-2)), mask_index_type=d.maybe(d.int(0, 1), 0.3)
    )
    # ONNX Runtime wants the sizes of the tables, and a second output.
    return d.case(inputs, outputs=d.int(2, 3), constant=[2, 3, 4, 5, 6], attributes=attributes)


@ours("GroupNorm", "SkipGroupNorm")
def group_norm(d):
    groups, last = d.int(1, 3), d.chance(0.6)
    channels = groups * d.int(1, 3)
    n, h, w = d.int(1, 2), d.int(1, 4), d.int(1, 4)
    shape = [n, h, w, channels] if last else [n, channels, h, w]
    inputs = [floats(d, shape), floats(d, [channels]), floats(d, [channels])]
    skipped = d.op == "SkipGroupNorm"
    if skipped:
        narrow = [n, 1, 1, channels] if last else [n, channels, 1, 1]
        inputs += [
            floats(d, d.one_of([shape, narrow, [n, channels]])),
            d.maybe(floats(d, [channels])),
        ]
    activation = d.int(0, 1)
    attributes = d.attributes(
        groups=groups, activation=activation, channels_last=int(last), epsilon=d.maybe(1e-3)
    )
    epsilon = attributes.get("epsilon", 1e-5)
    outputs = d.int(1, 2) if skipped else 1

    def reference(x, gamma, beta, skip=None, bias=None):
        first = (lambda a: np.moveaxis(a, -1, 1)) if last else (lambda a: a)
        back = (lambda a: np.moveaxis(a, 1, -1)) if last else (lambda a: a)
        of_channels = lambda a: a.reshape(*a.shape, 1, 1)
        x = first(x.astype(F64))
        if skip is not None:
            x = x + (of_channels(skip) if skip.ndim == 2 else first(skip))
        if bias is not None:
            x = x + of_channels(bias)
        parts = x.reshape(n, groups, -1)
        mean, variance = parts.mean(-1, keepdims=True), parts.var(-1, keepdims=True)
        y = ((parts - mean) / np.sqrt(variance + epsilon)).reshape(x.shape)
        y = y * of_channels(gamma) + of_channels(beta)
        y = y / (1 + np.exp(-y)) if activation else y
        return (back(y).astype(F32), back(x).astype(F32))[:outputs]

    return d.case(inputs, reference, outputs=outputs, attributes=attributes)


# Products and convolutions.


@ours("FusedMatMul", "TransposeMatMul")
def fused_matmul(d):
    batch = [d.int(1, 3) for _ in range(d.int(0, 2))]
    m, k, n = d.int(1, 5), d.int(1, 5), d.int(1, 5)

    def factor(rows, columns):
        matrix = d.chance(0.5)
        moved = d.op == "FusedMatMul" and bool(batch) and d.chance(0.3)
        size = [columns, rows] if matrix else [rows, columns]
        shape = [*batch, *size]
        # The rows come first, the batch between rows and columns.
        if moved:
            shape = [size[0], *batch, size[1]] if not matrix else [size[0], *batch, size[1]]
        return floats(d, shape), int(matrix), int(moved)

    (a, trans_a, batch_a), (b, trans_b, batch_b) = factor(m, k), factor(k, n)
    attributes = d.attributes(
        transA=trans_a,
        transB=trans_b,
        transBatchA=batch_a,
        transBatchB=batch_b,
        alpha=d.maybe(d.float(0.5, 2)),
    )
    return d.case([a, b], attributes=attributes)


# The activations and their parameters.
ACTIVATIONS = {
    "Relu": [],
    "Sigmoid": [],
    "Tanh": [],
    "LeakyRelu": [0.1],
    "HardSigmoid": [0.3, 0.4],
    "Clip": [-0.5, 0.75],
    "Celu": [0.7],
    "Elu": [0.7],
    "ParametricSoftplus": [0.7, 1.3],
    "ScaledTanh": [0.7, 1.3],
    "Selu": [1.7, None, 1.1],
    "Softplus": [],
    "Softsign": [],
    "ThresholdedRelu": [0.4],
}
COMMON_ACTIVATIONS = ["Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Clip"]
ACTIVATIONS_OF_GEMM = [name for name in ACTIVATIONS if name != "Clip"]


def activation(d, listed, names=COMMON_ACTIVATIONS):
    """An activation with its parameters."""
    name = d.one_of(names)
    parameters = ACTIVATIONS[name]
    if listed:
        return {"activation": name} | ({"activation_params": parameters} if parameters else {})
    attributes = ["activation_alpha", "activation_beta", "activation_gamma"]
    given = {key: value for key, value in zip(attributes, parameters) if value is not None}
    return {"activation": name} | given


@ours("FusedGemm")
def fused_gemm(d):
    m, k, n = d.int(1, 5), d.int(1, 5), d.int(1, 5)
    trans_a, trans_b = d.int(0, 1), d.int(0, 1)
    inputs = [
        floats(d, [k, m] if trans_a else [m, k]),
        floats(d, [n, k] if trans_b else [k, n]),
        d.maybe(floats(d, d.broadcast([m, n]))),
    ]
    chosen = activation(d, listed=False, names=ACTIVATIONS_OF_GEMM)
    attributes = d.attributes(
        transA=trans_a,
        transB=trans_b,
        alpha=d.maybe(d.float(0.5, 2)),
        beta=d.maybe(d.float(0.5, 2)),
    )
    return d.case(inputs, attributes=attributes | chosen)


@ours("MatMulInteger16")
def matmul_integer_16(d):
    m, k, n = d.int(1, 5), d.int(1, 5), d.int(1, 5)
    inputs = [d.integers(d.type("T1"), [m, k], -99, 99), d.integers(d.type("T2"), [k, n], -99, 99)]
    result = U32 if all(x.dtype == U16 for x in inputs) else I32
    return d.case(inputs, lambda a, b: (a.astype(I64) @ b.astype(I64)).astype(result))


def window(d, size):
    """A kernel with its attributes, over images of this size."""
    kernel = [d.int(1, min(3, side)) for side in size]
    attributes = {"kernel_shape": kernel}
    if d.chance(0.5):
        attributes["strides"] = [d.int(1, 2) for _ in kernel]
    kind = d.one_of(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
    # ONNX Runtime refuses convolutions with both, and computes other sizes of pools.
    if d.chance(0.3) and not kind.startswith("SAME"):
        attributes |= d.attributes(
            dilations=[d.int(1, 2) if 2 * (k - 1) < side else 1 for k, side in zip(kernel, size)]
        )
    attributes |= d.attributes(auto_pad=d.maybe(kind) if kind == "NOTSET" else kind)
    if kind == "NOTSET" and d.chance(0.5):
        attributes["pads"] = [d.int(0, side - 1) for side in kernel * 2]
    return kernel, attributes


@ours("FusedConv")
def fused_conv(d):
    group, size = d.int(1, 2), [d.int(3, 6), d.int(3, 6)]
    kernel, attributes = window(d, size)
    channels, filters = group * d.int(1, 3), group * d.int(1, 3)
    inputs = [
        floats(d, [d.int(1, 2), channels, *size]),
        floats(d, [filters, channels // group, *kernel]),
        d.maybe(floats(d, [filters])),
    ]
    attributes |= {"group": group} | activation(d, listed=True)
    case = d.case(inputs, attributes=attributes)
    if d.chance(0.4):
        # What is added has the shape of the result.
        case.inputs = inputs + [None] * (3 - len(inputs))
        case.inputs.append(floats(d, by_runtime(case, case.model())[0].shape))
    return case


@ours("NhwcMaxPool")
def nhwc_max_pool(d):
    size = [d.int(3, 6), d.int(3, 6)]
    _, attributes = window(d, size)
    dtype = d.one_of([I8, U8])
    x = d.integers(dtype, [d.int(1, 2), *size, d.int(1, 4)], -128, 255)
    if attributes.get("auto_pad") != "VALID":
        attributes |= d.attributes(ceil_mode=d.maybe(d.int(0, 1)))
    return d.case([x], attributes=attributes)


@ours("NhwcConv")
def nhwc_conv(d):
    """Compared with ONNX Runtime's convolution of channels that come first."""
    group, size = d.one_of([1, 1, 2]), [d.int(3, 6) for _ in range(d.int(1, 3))]
    kernel, attributes = window(d, size)
    channels, filters = group * d.int(1, 3), group * d.int(1, 3)
    attributes |= d.attributes(group=group if group > 1 else d.maybe(1))
    inputs = [
        floats(d, [d.int(1, 2), *size, channels]),
        floats(d, [filters, channels // group, *kernel]),
        d.maybe(floats(d, [filters])),
    ]

    def reference(x, *others):
        first = d.case([np.moveaxis(x, -1, 1), *others], attributes=attributes, symbolic=False)
        first.domain, first.op, first.opsets = "", "Conv", {"": 22}
        return np.moveaxis(by_runtime(first, first.model())[0], 1, -1)

    return d.case(inputs, reference, attributes=attributes)


@ours("ConvTransposeWithDynamicPads")
def conv_transpose_with_dynamic_pads(d):
    group = d.one_of([1, 1, 2])
    channels, filters, kernel = group * d.int(1, 3), d.int(1, 3), [d.int(2, 3), d.int(2, 3)]
    strides = d.maybe([d.int(1, 2), d.int(1, 2)])
    auto = d.maybe(d.one_of(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]), 0.3)
    inputs = [
        floats(d, [d.int(1, 2), channels, d.int(2, 4), d.int(2, 4)]),
        floats(d, [channels, filters, *kernel]),
        d.ints([d.int(0, 1) for _ in range(4)]),
        d.maybe(floats(d, [group * filters])),
    ]
    attributes = d.attributes(
        strides=strides,
        group=group if group > 1 else d.maybe(1),
        # ONNX Runtime refuses both.
        dilations=d.maybe([d.int(1, 2), d.int(1, 2)], 0.3) if auto in (None, "NOTSET") else None,
        kernel_shape=d.maybe(kernel),
        output_padding=d.maybe([d.int(0, stride - 1) for stride in strides]) if strides else None,
        auto_pad=auto,
    )
    return d.case(inputs, constant=[2], attributes=attributes)


@ours("MaxpoolWithMask")
def max_pool_with_mask(d):
    size = [d.int(3, 6) for _ in range(d.int(1, 3))]
    _, attributes = window(d, size)
    attributes |= d.attributes(storage_order=d.maybe(0))
    images, channels = d.int(1, 2), d.int(1, 3)
    mask = (d.tensor(F32, [1, 1, *size], 0, 1, extremes=0) > 0.3).astype(I32)
    # The pads follow from the sizes.
    symbolic = not attributes.get("auto_pad", "").startswith("SAME")
    inputs = [floats(d, [images, channels, *size]), mask]
    return d.case(inputs, attributes=attributes, symbolic=symbolic)


# Indexing, padding and sampling.


@ours("CDist")
def cdist(d):
    width = d.int(1, 5)
    inputs = [floats(d, [d.int(1, 4), width]), floats(d, [d.int(1, 4), width])]
    metric = d.one_of(["euclidean", "sqeuclidean"])
    return d.case(inputs, tolerance=(1e-3, 1e-3), attributes={"metric": metric})


@ours("CropAndResize")
def crop_and_resize(d):
    n, boxes = d.int(1, 3), d.int(1, 3)
    mode = d.maybe(d.one_of(["bilinear", "nearest"]))
    corners = d.tensor(F32, [boxes, 4], -0.2, 1.2, extremes=0)
    sizes = [d.int(1, 5), d.int(1, 5)]
    if d.chance(0.3):
        # Positions halfway between pixels.
        corners, sizes = d.integers(I32, [boxes, 4], 0, 4).astype(F32) / 4, [3, 3]
    inputs = [
        floats(d, [n, d.int(1, 3), *sizes]),
        corners,
        d.integers(I32, [boxes], 0, n - 1),
        d.integers(I32, [2], 1, 4),
    ]
    attributes = d.attributes(mode=mode, extrapolation_value=d.maybe(d.float(-1, 1)))
    return d.case(inputs, constant=[3], attributes=attributes)


@ours("ExpandDims")
def expand_dims(d):
    shape = d.shape(empty=0)
    axis = d.int(-len(shape) - 1, len(shape))
    return d.case([floats(d, shape), np.array(axis, I32)], constant=[1])


@ours("GatherND")
def gather_nd(d):
    shape = d.shape(least=1, empty=0)
    depth = d.int(1, len(shape))
    rows = [d.int(1, 4) for _ in range(d.int(0, 2))]
    indices = np.stack([d.integers(I64, rows, 0, side - 1) for side in shape[:depth]], -1)
    return d.case([floats(d, shape), indices.astype(d.one_of([I32, I64]))], fixed=(1,))


@ours("GridSample")
def grid_sample(d):
    n = d.int(1, 2)
    inputs = [
        floats(d, [n, d.int(1, 3), d.int(2, 5), d.int(2, 5)]),
        d.tensor(F32, [n, d.int(1, 4), d.int(1, 4), 2], -1.2, 1.2, extremes=0),
    ]
    mode = d.maybe(d.one_of(["bilinear", "nearest", "bicubic"]))
    paddings = ["zeros", "border", "reflection"]
    attributes = d.attributes(
        mode=mode, padding_mode=d.maybe(d.one_of(paddings)), align_corners=d.maybe(d.int(0, 1))
    )
    return d.case(inputs, attributes=attributes)


@ours("Pad")
def pad(d):
    shape = d.shape(least=1, empty=0)
    mode = d.maybe(d.one_of(["constant", "reflect", "edge"]))
    most = 3 if mode != "reflect" else 0
    sides = [d.int(0, most or side - 1) for side in (*shape, *shape)]
    pads = np.array(sides, I64)
    pads = pads.reshape(1, -1) if d.chance(0.3) else pads
    value = d.maybe(floats(d, d.one_of([[], [1]])))
    return d.case([floats(d, shape), pads, value], constant=[1], attributes=d.attributes(mode=mode))


@ours("Range")
def range_(d):
    dtype, shape = d.type("T", [I32, I64, F32]), d.one_of([[], [1]])
    start, count, step = d.int(-4, 4), d.int(0, 5), d.int(1, 3)
    number = lambda value: np.full(shape, value, dtype)
    delta = number(step) if step > 1 or d.chance(0.5) else None
    inputs = [number(start), number(start + count * step), delta]
    return d.case(
        inputs, symbolic=False, constant=[i for i, x in enumerate(inputs) if x is not None]
    )


@ours("SampleOp")
def sample(d):
    return d.case([d.tensor(d.type(), d.shape())], lambda x: x)


@ours("Trilu")
def trilu(d):
    shape = d.shape(least=2, empty=0)
    k = d.maybe(np.array(d.int(-3, 3), I64))
    return d.case([floats(d, shape), k], attributes=d.attributes(upper=d.maybe(d.int(0, 1))))


@ours("UnfoldTensor")
def unfold_tensor(d):
    shape = d.shape(least=1, empty=0)
    dim = d.axis(len(shape))
    attributes = d.attributes(dim=dim, size=d.int(1, shape[dim]), step=d.maybe(d.int(1, 2)))
    return d.case([floats(d, shape)], attributes=attributes)


@ours("Unique")
def unique(d):
    x = d.integers(I32, [d.int(1, 9)], 0, 4).astype(F32)
    return d.case([x], outputs=3, dynamic=True)
