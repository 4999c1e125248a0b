"""Attention operators of ONNX Runtime, compared with it."""

import numpy as np

from ..types import F32, F64, I8, I32, I64, U8
from .microsoft import floats, ours, softmax


def mask_of(d, kinds, batch, queries, keys):
    """A mask of one of the kinds that ONNX Runtime takes. Every query attends to some key."""
    kind = d.one_of(kinds)
    if kind == "lengths":
        return d.integers(I32, [batch], 1, keys)
    if kind == "ranges":
        starts = d.integers(I32, [batch], 0, keys - 1)
        ends = np.minimum(starts + d.integers(I32, [batch], 1, keys), keys).astype(I32)
        return np.concatenate([ends, starts])
    if kind is None:
        return None
    mask = d.integers(I32, [batch, keys] if kind == "keys" else [batch, queries, keys], 0, 1)
    mask[..., 0] = 1
    return mask


def scores_bias(d, batch, heads, queries, keys):
    """What is added to the scores."""
    return floats(d, [d.one_of([1, batch]), d.one_of([1, heads]), queries, keys])


@ours("Attention", "QAttention")
def attention(d):
    batch, length, width = d.int(1, 3), d.int(1, 5), d.int(1, 6)
    heads, size = d.int(1, 3), d.int(1, 4)
    hidden = heads * size
    quantized = d.op == "QAttention"
    unidirectional = d.chance(0.3)
    past = d.int(1, 3) if d.chance(0.3) else 0
    total = length + past
    kinds = ["lengths", "ranges"] if quantized else ["lengths", "ranges", "keys", "queries"]
    # With a cache, the places of the keys are not those that lengths count.
    kinds = [None, "keys"] if past else [None, *kinds]
    mask = None if unidirectional else mask_of(d, kinds, batch, length, total)
    cache = floats(d, [2, batch, heads, past, size]) if past else None
    attributes = d.attributes(
        num_heads=heads,
        unidirectional=int(unidirectional),
        scale=d.maybe(d.float(0.2, 1), 0.3),
        mask_filter_value=d.maybe(-1000.0, 0.2),
    )
    bias = floats(d, [3 * hidden])
    outputs = 2 if past else 1
    if quantized:
        weight = d.integers(d.one_of([I8, U8]), [width, 3 * hidden], -60, 60)
        inputs = [
            d.integers(U8, [batch, length, width], 0, 255),
            weight,
            bias,
            np.array(d.float(0.005, 0.02), F32),
            np.array(d.float(0.005, 0.02), F32),
            mask,
            d.integers(U8, [], 100, 150),
            d.integers(weight.dtype, [], 0, 9),
            cache,
        ]
        constant = [1, 2, 3, 4, 6, 7]
    else:
        inputs = [
            floats(d, [batch, length, width]),
            floats(d, [width, 3 * hidden]),
            bias,
            mask,
            cache,
            None if past else d.maybe(scores_bias(d, batch, heads, length, total), 0.3),
        ]
        constant = [1, 2]
    return d.case(
        inputs,
        outputs=outputs,
        attributes=attributes,
        constant=constant,
        tolerance=(1e-3, 1e-4),
        symbolic=False,
    )


@ours("MultiHeadAttention")
def multi_head_attention(d):
    batch, queries, keys = d.int(1, 3), d.int(1, 4), d.int(1, 5)
    heads, size = d.int(1, 3), d.int(1, 4)
    hidden = heads * size
    form = d.one_of(["separate", "packed", "packed_kv", "cached", "cross"])
    if form in ("packed", "cached"):
        keys = queries
    past = d.int(1, 3) if form == "cached" else 0
    total = keys + past
    query = floats(d, [batch, queries, hidden])
    key, value = floats(d, [batch, keys, hidden]), floats(d, [batch, keys, hidden])
    bias = d.maybe(floats(d, [3 * hidden]), 0.5)
    if form == "packed":
        query, key, value = floats(d, [batch, keys, heads, 3, size]), None, None
        bias = None
    if form == "packed_kv":
        key, value, bias = floats(d, [batch, keys, heads, 2, size]), None, None
    if form == "cross":
        key = floats(d, [batch, heads, keys, size])
        value = floats(d, [batch, heads, keys, size])
    kinds = [None, "keys", "queries"] if form in ("separate", "cached") else [None, "keys"]
    unidirectional = form in ("separate", "cached") and keys == queries and d.chance(0.3)
    mask = None if unidirectional else mask_of(d, kinds, batch, queries, total)
    inputs = [
        query,
        key,
        value,
        bias,
        mask,
        d.maybe(scores_bias(d, batch, heads, queries, total), 0.3),
        floats(d, [batch, heads, past, size]) if past else None,
        floats(d, [batch, heads, past, size]) if past else None,
    ]
    attributes = d.attributes(
        num_heads=heads,
        unidirectional=int(unidirectional),
        scale=d.maybe(d.float(0.2, 1), 0.3),
    )
    scale = attributes.get("scale", size**-0.5)

    def reference(query, key, value, bias, mask, added, *_):
        """The packed forms, which ONNX Runtime does not run on a CPU."""
        if key is None:
            q, k, v = (np.moveaxis(query[:, :, :, i], 2, 1) for i in range(3))
        else:
            q = np.moveaxis(query.reshape(batch, queries, heads, size), 2, 1)
            k, v = (np.moveaxis(key[:, :, :, i], 2, 1) for i in range(2))
        scores = (q.astype(F64) @ np.swapaxes(k, -1, -2)) * scale
        if mask is not None:
            scores = scores + np.where(mask[:, None, None], 0, -10000)
        if added is not None:
            scores = scores + added
        y = softmax(scores) @ v
        return np.moveaxis(y, 1, 2).reshape(batch, queries, hidden).astype(F32)

    return d.case(
        inputs,
        reference if form in ("packed", "packed_kv") else None,
        outputs=3 if past else 1,
        attributes=attributes,
        tolerance=(1e-3, 1e-4),
        symbolic=False,
    )


@ours("RotaryEmbedding")
def rotary_embedding(d):
    batch, heads, length, longest = d.int(1, 2), d.int(1, 3), d.int(1, 4), 8
    size = 8 * d.int(1, 2)
    rows = d.chance(0.5)
    x = floats(d, [batch, length, heads * size] if rows else [batch, heads, length, size])
    positions = (
        d.integers(I64, [1], 0, longest - length)
        if d.chance(0.5)
        else d.integers(I64, [batch, length], 0, longest - 1)
    )
    angles = d.rng.uniform(-3, 3, (longest, size // 2))
    inputs = [x, positions, np.cos(angles).astype(F32), np.sin(angles).astype(F32)]
    attributes = d.attributes(interleaved=d.maybe(d.int(0, 1)))
    return d.case(inputs, attributes=attributes, constant=[2, 3], symbolic=False)
