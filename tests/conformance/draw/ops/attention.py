"""Attention; all but the rotary embedding are compared with onnx's reference evaluator."""

import numpy as np

from ..registry import operator
from ..types import BF16, BOOL, F16, F32, F64, I64, onnx_type, wide
from .control import graph


def heads(d):
    """Returns the number of heads of the queries, and of keys and values, which may share them."""
    shared = d.int(1, 2)
    return shared * d.int(1, 2), shared


@operator("Attention")
def attention(d):
    key_type, value_type = d.type("T1"), d.type("T2")
    value_type = key_type if d.chance(0.8) else value_type
    q_heads, kv_heads = heads(d)
    batch, queries, keys, size, value_size = (
        d.int(1, 2),
        d.int(1, 3),
        d.int(1, 4),
        2 * d.int(1, 2),
        d.int(1, 3),
    )
    flat = d.chance(0.4)

    def tensor(dtype, count, length, width):
        shape = [batch, length, count * width] if flat else [batch, count, length, width]
        return d.tensor(dtype, shape, -2, 2, 0)

    inputs = [
        tensor(key_type, q_heads, queries, size),
        tensor(key_type, kv_heads, keys, size),
        tensor(value_type, kv_heads, keys, value_size),
    ]
    attributes = d.attributes(
        scale=d.maybe(d.float(0.2, 1), 0.3),
        is_causal=d.maybe(d.int(0, 1)),
        softcap=d.maybe(d.float(1, 3), 0.3),
        softmax_precision=d.maybe(onnx_type(d.one_of([F32, F64])), 0.2),
        left_window_size=d.maybe(d.int(-1, 3), 0.3),
        right_window_size=d.maybe(d.int(-1, 3), 0.3),
    )
    if flat:
        attributes |= {"q_num_heads": q_heads, "kv_num_heads": kv_heads}
    past = 0
    nonpad = None
    if d.chance(0.3):
        past = d.int(0, 3)
    elif d.version >= 24 and d.chance(0.3):
        nonpad = d.ints([d.int(min(queries, keys), keys) for _ in range(batch)])
    cached = past > 0
    total = keys + past
    mask = None
    if d.chance(0.5):
        shape = [d.one_of([1, batch]), d.one_of([1, q_heads]), queries, total]
        mask_type = BOOL if d.chance(0.5) else key_type
        mask = d.tensor(mask_type, shape[d.int(0, 2) :], -2, 2, 0)
        if mask_type != BOOL and d.chance(0.5):
            mask[d.rng.random(mask.shape) < 0.4] = -np.inf
        # Some queries may have no keys.
        if d.chance(0.7):
            mask[..., 0] = True if mask_type == BOOL else 0
    cache = lambda dtype, width: d.tensor(dtype, [batch, kv_heads, past, width], -2, 2, 0)
    inputs += [
        mask,
        *([cache(key_type, size), cache(value_type, value_size)] if cached else [None, None]),
    ]
    if d.version >= 24:
        inputs.append(nonpad)
    outputs = [True, cached, cached, d.chance(0.3)]
    if outputs[3]:
        # The evaluator's product before `softcap` is wrong.
        attributes |= d.attributes(qk_matmul_output_mode=d.int("softcap" in attributes, 3))
    while not outputs[-1]:
        outputs.pop()
    return d.case(
        inputs,
        outputs=outputs,
        attributes=attributes,
        symbolic=d.chance(0.3),
        tolerance=coarse(key_type, value_type),
    )


def coarse(*dtypes):
    """The tolerance if sums are accumulated in the type itself."""
    if BF16 in dtypes:
        return 5e-2, 5e-2
    return (1e-2, 1e-2) if F16 in dtypes else (1e-4, 1e-5)


@operator("RotaryEmbedding")
def rotary_embedding(d):
    dtype = d.type("T")
    batch, count, length, half = d.int(1, 2), d.int(1, 2), d.int(1, 3), d.int(1, 3)
    partial = d.chance(0.4)
    size = 2 * half + (2 * d.int(0, 2) if partial else 0)
    flat = d.chance(0.5)
    x = d.tensor(
        dtype, [batch, length, count * size] if flat else [batch, count, length, size], extremes=0
    )
    positions = d.maybe(d.integers(I64, [batch, length], 0, 4))
    shape = [batch, length, half] if positions is None else [5, half]
    caches = [d.tensor(dtype, shape, -1, 1, 0) for _ in range(2)]
    attributes = d.attributes(
        interleaved=d.maybe(d.int(0, 1)),
        num_heads=count if flat else d.maybe(count),
        rotary_embedding_dim=2 * half if partial else d.maybe(0),
    )

    def reference(x, cos, sin, at=None):
        rows = x.reshape(batch, length, count, size) if flat else x.transpose(0, 2, 1, 3)
        cos, sin = (cache if at is None else cache[at] for cache in (cos, sin))
        cos, sin = cos[:, :, None], sin[:, :, None]
        y = rows.copy()
        even = slice(0, 2 * half, 2) if attributes.get("interleaved") else slice(0, half)
        odd = slice(1, 2 * half, 2) if attributes.get("interleaved") else slice(half, 2 * half)
        y[..., even] = cos * rows[..., even] - sin * rows[..., odd]
        y[..., odd] = sin * rows[..., even] + cos * rows[..., odd]
        return y.reshape(x.shape) if flat else y.transpose(0, 2, 1, 3)

    return d.case(
        [x, *caches, positions], wide(reference), attributes=attributes, symbolic=d.chance(0.3)
    )


@operator("LinearAttention")
def linear_attention(d):
    dtype = d.type("T")
    q_heads, kv_heads = heads(d)
    batch, length, size, value_size = d.int(1, 2), d.int(1, 4), d.int(1, 3), d.int(1, 3)
    rule = d.one_of([None, "linear", "gated", "delta", "gated_delta"])
    tensor = lambda width, low=-1, high=1: d.tensor(dtype, [batch, length, width], low, high, 0)
    past = d.maybe(d.tensor(d.type("S"), [batch, kv_heads, size, value_size], -1, 1, 0))
    decay = (
        tensor(d.one_of([kv_heads, kv_heads * size]), -1, 0)
        if rule in (None, "gated", "gated_delta")
        else None
    )
    beta = tensor(d.one_of([1, kv_heads]), 0, 1) if rule in (None, "delta", "gated_delta") else None
    inputs = [
        tensor(q_heads * size),
        tensor(kv_heads * size),
        tensor(kv_heads * value_size),
        past,
        decay,
        beta,
    ]
    attributes = d.attributes(
        update_rule=rule, scale=d.maybe(d.float(0.2, 1)), chunk_size=d.maybe(d.int(1, 3))
    )
    attributes |= {"q_num_heads": q_heads, "kv_num_heads": kv_heads}
    kinds = [dtype] if past is None else [dtype, past.dtype]
    return d.case(
        inputs, outputs=2, attributes=attributes, symbolic=d.chance(0.3), tolerance=coarse(*kinds)
    )


@operator("FlexAttention", domain="ai.onnx.preview")
def flex_attention(d):
    dtype = d.type("T1")
    q_heads, kv_heads = heads(d)
    batch, queries, keys, size = d.int(1, 2), d.int(1, 3), d.int(1, 3), d.int(1, 4)
    shapes = [q_heads, queries, size], [kv_heads, keys, size], [kv_heads, keys, d.int(1, 3)]
    inputs = [d.tensor(dtype, [batch, *shape], -1, 1, 0) for shape in shapes]
    inner = F64 if dtype == F64 else F32
    mod = lambda name: graph(
        d,
        name,
        [("Mul", ["x", "x"], "y")],
        {"x": inner},
        {"y": inner},
        dict.fromkeys("xy", (batch, q_heads, queries, keys)),
    )
    attributes = d.attributes(
        scale=d.maybe(d.float(0.2, 1)),
        score_mod=d.maybe(mod("score"), 0.4),
        prob_mod=d.maybe(mod("prob"), 0.4),
    )
    opsets = {"ai.onnx.preview": 1, "": 26}
    return d.case(
        inputs, attributes=attributes, opsets=opsets, symbolic=False, tolerance=coarse(dtype)
    )
