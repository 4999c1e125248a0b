"""Operators that ONNX Runtime runs on other processors than a CPU, compared with a reference."""

import numpy as np

from ..types import BOOL, F32, F64, I64, U32, wide
from .microsoft import activation, floats, ours, softmax

ACTIVATIONS = {
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "LeakyRelu": lambda x, alpha: np.where(x < 0, alpha * x, x),
    "HardSigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "Clip": lambda x, low, high: np.clip(x, low, high),
}


@ours("BitmaskDropout", "BitmaskBiasDropout")
def bitmask_dropout(d):
    shape = d.shape(least=1, size=(1, 9), empty=0)
    biased = d.op == "BitmaskBiasDropout"
    inputs = [floats(d, shape)]
    if biased:
        inputs += [floats(d, shape[-1:]), d.maybe(floats(d, shape))]
    inputs += [d.maybe(np.array(0.3, F32)), d.maybe(np.array(False))]
    outputs = d.int(1, 2)

    def reference(x, *others):
        others = others[: 2 if biased else 0]
        mask = np.full(-(-x.size // 32), 2**32 - 1, U32)
        return (sum((y for y in others if y is not None), x).astype(F32), mask)[:outputs]

    return d.case(inputs, reference, outputs=outputs, attributes=d.attributes(seed=d.maybe(3)))


@ours("FusedMatMulActivation")
def fused_matmul_activation(d):
    batch, m, k, n = d.maybe([d.int(1, 3)]) or [], d.int(1, 5), d.int(1, 5), d.int(1, 5)
    trans_a, trans_b = d.int(0, 1), d.int(0, 1)
    inputs = [
        floats(d, [*batch, k, m] if trans_a else [*batch, m, k]),
        floats(d, [*batch, n, k] if trans_b else [*batch, k, n]),
    ]
    chosen = activation(d, listed=False)
    parameters = [value for name, value in chosen.items() if name != "activation"]
    function = ACTIVATIONS[chosen["activation"]]
    if d.chance(0.2):
        axis = d.axis(len(batch) + 2)
        chosen, parameters = {"activation": "Softmax", "activation_axis": axis}, []
        function = lambda x: softmax(x, axis)
    moved_a, moved_b = (int(bool(batch) and d.chance(0.3)) for _ in range(2))
    # The batch is between rows and columns.
    inputs = [np.moveaxis(x, 0, 1) if m else x for x, m in zip(inputs, (moved_a, moved_b))]
    attributes = d.attributes(
        transA=trans_a,
        transB=trans_b,
        transBatchA=moved_a or d.maybe(0),
        transBatchB=moved_b or d.maybe(0),
        alpha=d.maybe(d.float(0.5, 2)),
    )

    def reference(a, b):
        a = np.moveaxis(a, 1, 0) if moved_a else a
        b = np.moveaxis(b, 1, 0) if moved_b else b
        a = np.swapaxes(a, -1, -2) if trans_a else a
        b = np.swapaxes(b, -1, -2) if trans_b else b
        return function(attributes.get("alpha", 1.0) * (a @ b), *parameters)

    return d.case(inputs, wide(reference), attributes=attributes | chosen)


@ours("RelativePositionBias")
def relative_position_bias(d):
    buckets, heads, length, both = d.one_of([8, 16, 32]), d.int(1, 4), d.int(1, 40), d.int(0, 1)
    farthest = d.one_of([20, 33, 128])
    table = d.tensor(d.type(), [buckets, heads], extremes=0)

    def reference(table, rows, columns):
        distance = np.arange(columns.item())[None, :] - np.arange(rows.item())[:, None]
        count = buckets // 2 if both else buckets
        first = np.where(distance > 0, count, 0) if both else 0
        size, near = abs(distance), count // 2
        share = np.log(np.maximum(size, near).astype(F32) / np.float32(near)) / np.log(
            np.float32(farthest / near)
        )
        far = np.minimum(near + (share * np.float32(count - near)).astype(I64), count - 1)
        bucket = first + np.where(size < near, size, far)
        return table.reshape(heads, buckets)[:, bucket][None]

    lengths = [np.array(length, I64).reshape(d.one_of([[], [1]])) for _ in range(2)]
    attributes = {"max_distance": farthest, "is_bidirectional": both}
    return d.case([table, *lengths], reference, attributes=attributes, symbolic=False, dynamic=True)


@ours("GatedRelativePositionBias")
def gated_relative_position_bias(d):
    batch, heads, length, size, gates = (
        d.int(1, 3),
        d.int(1, 3),
        d.int(1, 5),
        d.int(1, 4),
        d.int(1, 4),
    )
    inputs = [
        floats(d, [batch, length, heads * size]),
        floats(d, [heads * size]),
        floats(d, [1, heads, length, length]),
        floats(d, [size, 2 * gates]),
        floats(d, [2 * gates]),
        floats(d, [1, heads, 1, 1]),
    ]

    def reference(query, query_bias, rel_pos, weight, bias, eco_a):
        rows = (query + query_bias).reshape(batch, length, heads, size).transpose(0, 2, 1, 3)
        sums = (rows @ weight + bias).reshape(batch, heads, length, 2, gates).sum(-1)
        u, r = np.split(1 / (1 + np.exp(-sums)), 2, axis=-1)
        return (u * (r * eco_a - 1) + 2) * rel_pos

    return d.case(inputs, wide(reference), attributes={"num_heads": heads})


@ours("Rfft", "Irfft")
def real_transform(d):
    shape = list(d.shape(least=1, most=3, empty=0))
    shape[-1] = 2 * d.int(1, 6)
    axes = d.int(1, len(shape))
    axis = list(range(-axes, 0))
    signal = d.tensor(F32, shape, extremes=0)
    parts = lambda y: np.stack([y.real, y.imag], -1)
    attributes = {"signal_ndim": axes, "onesided": 1, "normalized": 0}
    if d.op == "Rfft":
        return d.case(
            [signal], wide(lambda x: parts(np.fft.rfftn(x, axes=axis))), attributes=attributes
        )
    spectrum = parts(np.fft.rfftn(signal.astype(F64), axes=axis)).astype(F32)

    def reference(x):
        return np.fft.irfftn(x[..., 0] + 1j * x[..., 1], axes=axis)

    return d.case([spectrum], wide(reference), attributes=attributes)
