"""Normalizations."""

import numpy as np

from ..registry import operator
from ..types import BOOL, F32, F64, onnx_type, wide


def along_channels(x, rank):
    """Reshapes a tensor of one number per channel so that it can be broadcast to that rank."""
    return x.reshape(-1, *[1] * (rank - 2))


@operator("BatchNormalization")
def batch_normalization(d):
    dtype = d.type()
    pair = lambda name: (
        d.type(name) if any(c.type_param_str == name for c in d.schema.type_constraints) else dtype
    )
    flat = d.version in (1, 6) or d.chance(0.7)
    shape = d.shape(least=2, empty=0)
    spatial = d.maybe(1) if flat or "spatial" not in d.schema.attributes else 0
    channels = shape[1:2] if spatial != 0 else shape[1:]
    scale_type = pair("T1")
    kinds = [scale_type, scale_type, *[pair("T2") if d.version >= 14 else scale_type] * 2]
    inputs = [d.tensor(dtype, shape, extremes=0)]
    inputs += [d.tensor(kind, channels, 0.5, 2, extremes=0) for kind in kinds]
    attributes = d.attributes(
        epsilon=d.maybe(d.float(1e-3, 1e-1)), momentum=d.maybe(d.float(0.5, 1)), spatial=spatial
    )
    training = d.version >= 14 and d.chance(0.4)
    if training:
        attributes["training_mode"] = 1
    elif d.version < 7:
        attributes["is_test"] = 1
        attributes |= d.attributes(consumed_inputs=[0, 0, 0, 1, 1])
    epsilon, momentum = (d.value(attributes, name) for name in ("epsilon", "momentum"))

    def reference(x, scale, bias, mean, variance):
        kinds = [x.dtype, mean.dtype, variance.dtype]
        x, scale, bias, mean, variance = (a.astype(F64) for a in (x, scale, bias, mean, variance))
        running = ()
        if training:
            others = (0, *range(2, x.ndim))
            now = x.mean(others), x.var(others)
            running = tuple(
                old * momentum + new * (1 - momentum) for old, new in zip((mean, variance), now)
            )
            mean, variance = now
        shaped = (lambda a: along_channels(a, x.ndim)) if spatial != 0 else (lambda a: a)
        y = shaped(scale) * (x - shaped(mean)) / np.sqrt(shaped(variance) + epsilon) + shaped(bias)
        return tuple(a.astype(kind) for a, kind in zip((y, *running), kinds))

    return d.case(inputs, reference, outputs=3 if training else 1, attributes=attributes)


@operator("InstanceNormalization")
def instance_normalization(d):
    shape = d.shape(least=3, empty=0)
    dtype = d.type()
    inputs = [
        d.tensor(dtype, shape, extremes=0),
        *(d.tensor(dtype, shape[1:2], extremes=0) for _ in range(2)),
    ]
    attributes = d.attributes(
        epsilon=d.maybe(d.float(1e-3, 1e-1), 0.8), consumed_inputs=d.maybe([0, 0, 0])
    )

    def reference(x, scale, bias):
        inner = tuple(range(2, x.ndim))
        y = (x - x.mean(inner, keepdims=True)) / np.sqrt(
            x.var(inner, keepdims=True) + attributes.get("epsilon", 1e-5)
        )
        return along_channels(scale, x.ndim) * y + along_channels(bias, x.ndim)

    return d.case(inputs, wide(reference), attributes=attributes)


@operator("GroupNormalization")
def group_normalization(d):
    groups, each = d.int(1, 3), d.int(1, 3)
    shape = (d.int(1, 3), groups * each, *d.shape(least=1, most=2, size=(2, 4), empty=0))
    dtype = d.type()
    # Before version 21, there was a scale for each group.
    count = groups if d.version < 21 else groups * each
    inputs = [
        d.tensor(dtype, shape, extremes=0),
        *(d.tensor(dtype, [count], extremes=0) for _ in range(2)),
    ]
    attributes = d.attributes(num_groups=groups, epsilon=d.maybe(d.float(1e-3, 1e-1)))

    def reference(x, scale, bias):
        rows = x.reshape(shape[0], groups, -1)
        rows = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(
            rows.var(-1, keepdims=True) + attributes.get("epsilon", 1e-5)
        )
        if d.version < 21:
            return (rows * scale[:, None] + bias[:, None]).reshape(shape)
        return rows.reshape(shape) * along_channels(scale, len(shape)) + along_channels(
            bias, len(shape)
        )

    return d.case(inputs, wide(reference), attributes=attributes)


@operator("LayerNormalization", "RMSNormalization")
def layer_normalization(d):
    shape = d.shape(least=1, empty=0)
    axis = d.axis(len(shape))
    mean_of = d.op == "LayerNormalization"
    stash = d.type("U") if mean_of and d.chance(0.5) else F32
    attributes = d.attributes(
        axis=d.maybe(axis),
        epsilon=d.maybe(d.float(1e-3, 1e-1)),
        stash_type=d.maybe(1) if stash == F32 else onnx_type(stash),
    )
    axis = attributes.get("axis", -1)
    first = axis % len(shape)
    dtype = d.type("T")
    scale_type = d.type("V") if d.op == "RMSNormalization" else dtype
    inputs = [d.tensor(dtype, shape, extremes=0), d.tensor(scale_type, shape[first:], extremes=0)]
    if mean_of:
        inputs.append(d.maybe(d.tensor(dtype, shape[first:], extremes=0)))
    outputs = d.one_of([1, 1, 3]) if mean_of else 1

    def reference(x, scale, bias=None):
        rows = x.astype(F64)
        inner = tuple(range(first, x.ndim))
        mean = rows.mean(inner, keepdims=True) if mean_of else 0
        deviation = 1 / np.sqrt(
            ((rows - mean) ** 2).mean(inner, keepdims=True) + attributes.get("epsilon", 1e-5)
        )
        y = (rows - mean) * deviation * scale.astype(F64) + (
            0 if bias is None else bias.astype(F64)
        )
        results = y.astype(scale.dtype), np.asarray(mean).astype(stash), deviation.astype(stash)
        return results[:outputs]

    return d.case(inputs, reference, outputs=outputs, attributes=attributes)


@operator("LpNormalization")
def lp_normalization(d):
    x = d.tensor(d.type(), d.shape(least=1, empty=0), extremes=0)
    axis = d.axis(x.ndim)
    attributes = d.attributes(axis=d.maybe(axis), p=d.one_of([None, 1, 2]))
    axis = attributes.get("axis", -1)

    def reference(x):
        norm = (
            np.abs(x).sum(axis, keepdims=True)
            if attributes.get("p") == 1
            else np.sqrt(np.square(x).sum(axis, keepdims=True))
        )
        return np.where(norm == 0, 0, x / norm)

    return d.case([x], wide(reference), attributes=attributes)


@operator("LRN")
def lrn(d):
    x = d.tensor(d.type(), d.shape(least=3, empty=0), extremes=0)
    names = ("alpha", "beta", "bias")
    attributes = {"size": d.int(1, 5)} | {
        name: d.float(0.1, 1.5) for name in names if d.chance(0.6)
    }
    size = attributes["size"]
    alpha, beta, bias = (d.value(attributes, name) for name in names)

    def reference(x):
        sums = np.zeros_like(x)
        for c in range(x.shape[1]):
            low, high = max(0, c - (size - 1) // 2), min(x.shape[1], c + size // 2 + 1)
            sums[:, c] = np.square(x[:, low:high]).sum(1)
        return x / (bias + alpha / size * sums) ** beta

    return d.case([x], wide(reference), attributes=attributes)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(d):
    x = d.tensor(d.type(), d.shape(least=4, most=4, empty=0, size=(2, 4)), extremes=0)
    if d.version < 9:
        return old_mean_variance(d, x)
    axes = d.maybe(d.some(range(4), least=1))
    inner = tuple(axes or (0, 2, 3))
    reference = lambda x: (x - x.mean(inner, keepdims=True)) / (x.std(inner, keepdims=True) + 1e-9)
    return d.case([x], wide(reference), attributes=d.attributes(axes=axes))


def old_mean_variance(d, x):
    """The version of ONNX Runtime, which normalizes each channel, or all together."""
    across, normalize = d.maybe(d.int(0, 1)), d.maybe(d.int(0, 1))
    inner = (0, 1, 2, 3) if across else (0, 2, 3)

    def reference(x):
        y = x - x.mean(inner, keepdims=True)
        return y if normalize == 0 else y / (x.std(inner, keepdims=True) + 1e-9)

    attributes = d.attributes(across_channels=across, normalize_variance=normalize)
    return d.case([x], wide(reference), attributes=attributes)


@operator("Dropout")
def dropout(d):
    x = d.tensor(d.type(), extremes=0)
    mask_type = BOOL if d.version >= 10 else x.dtype
    outputs = d.int(1, 2)
    reference = lambda x, *_: (x, np.ones(x.shape, mask_type))[:outputs]
    if d.version >= 12:
        ratio = d.maybe(np.array(d.float(0, 0.9), d.type("T1")))
        training = d.maybe(np.array(False)) if ratio is not None and d.chance(0.7) else None
        if d.chance(0.3):
            ratio, training = np.array(0, F32 if ratio is None else ratio.dtype), np.array(True)
        return d.case(
            [x, ratio, training],
            reference,
            outputs=outputs,
            attributes=d.attributes(seed=d.maybe(3)),
        )
    attributes = d.attributes(
        ratio=d.maybe(d.float(0, 0.9)), is_test=1, consumed_inputs=d.maybe([0])
    )
    return d.case([x], reference, outputs=outputs, attributes=attributes)
