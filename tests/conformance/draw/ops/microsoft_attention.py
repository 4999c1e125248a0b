"""Attention operators of ONNX Runtime, compared with it."""

import numpy as np
from onnx import TensorProto, helper

from ..oracle import by_runtime
from ..types import F32, F64, I8, I32, I64, U8
from .microsoft import floats, ours, softmax


# The type of an output that the inputs do not determine.
TYPE_OF_SCORES = helper.make_tensor_type_proto(TensorProto.FLOAT, None)


def mask_of(d, kinds, batch, queries, keys):
    """A mask of one of the kinds that ONNX Runtime takes. Every query attends to some key."""
    kind = d.one_of(kinds)
    if kind == "lengths":
        return d.integers(I32, [batch], 1, keys)
    if kind == "ranges":
        starts = d.integers(I32, [batch], 0, keys - 1)
        ends = np.minimum(starts + d.integers(I32, [batch], 1, keys), keys).astype(I32)
        return np.concatenate([ends, starts])
    if kind == "offsets":
        # Lengths, and where the queries and the keys of each row start without padding.
        lengths = d.integers(I32, [batch], 1, keys)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return np.concatenate([lengths, starts, starts]).astype(I32)
    if kind == "one":
        return d.integers(I32, [d.one_of([1, batch]), 1], 0, 1)
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
    # Values of another size than queries and keys.
    values = heads * d.int(1, 4) if not quantized and d.chance(0.3) else hidden
    past = d.int(1, 3) if values == hidden and d.chance(0.3) else 0
    total = length + past
    mask = mask_of(
        d, [None, "lengths", "ranges", "offsets", "one", "keys", "queries"], batch, length, total
    )
    cache = floats(d, [2, batch, heads, past, size]) if past else None
    attributes = d.attributes(
        num_heads=heads,
        unidirectional=d.maybe(d.int(0, 1)),
        scale=d.maybe(d.one_of([0.0, d.float(0.2, 1)]), 0.3),
        mask_filter_value=d.maybe(-1000.0, 0.2),
        qkv_hidden_sizes=[hidden, hidden, values] if values != hidden else None,
        past_present_share_buffer=None if past else d.maybe(1, 0.2),
        # ONNX Runtime ignores it.
        do_rotary=d.maybe(d.int(0, 1), 0.3) if quantized else None,
    )
    bias = floats(d, [2 * hidden + values])
    outputs = 2 if past or values == hidden and d.chance(0.3) else 1
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
            floats(d, [width, 2 * hidden + values]),
            # Without it, ONNX Runtime crashes.
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
    form = d.one_of(["separate", "packed", "packed_kv", "cached", "shared", "cross"])
    if form in ("packed", "cached", "shared"):
        keys = queries
    past = d.int(1, 3) if form in ("cached", "shared") else 0
    total = keys + past
    query = floats(d, [batch, queries, hidden])
    # Values of another size than queries and keys.
    wide_size = d.int(1, 4) if form == "separate" else size
    key, value = floats(d, [batch, keys, hidden]), floats(d, [batch, keys, heads * wide_size])
    bias = d.maybe(floats(d, [2 * hidden + heads * wide_size]), 0.5)
    if form == "packed":
        query, key, value = floats(d, [batch, keys, heads, 3, size]), None, None
        bias = None
    if form == "packed_kv":
        key, value, bias = floats(d, [batch, keys, heads, 2, size]), None, None
    if form == "cross":
        key = floats(d, [batch, heads, keys, size])
        value = floats(d, [batch, heads, keys, size])
    runs = form not in ("packed", "packed_kv")
    # With masks of the other kinds, ONNX Runtime ignores beams.
    kinds = ["lengths", "offsets", "queries"] if runs and form != "shared" else []
    mask = mask_of(d, [None, "keys", *kinds], batch, queries, total)
    # With more keys than queries, ONNX Runtime lets the last query alone see all keys.
    unidirectional = runs and keys <= queries and d.chance(0.3)
    # Positions of the cache that are not used.
    unused = keys + d.int(0, 2) if form == "shared" else 0
    beams = d.one_of([size for size in (1, 2, 3) if batch % size == 0])
    beams = d.integers(I32, [batch // beams, beams, past + unused], 0, beams - 1)
    inputs = [
        query,
        key,
        value,
        bias,
        mask,
        # With beams, ONNX Runtime reads the first row for each row of the batch.
        d.maybe(scores_bias(d, 1 if unused else batch, heads, queries, total), 0.3),
        floats(d, [batch, heads, past + unused, size]) if past else None,
        floats(d, [batch, heads, past + unused, wide_size]) if past else None,
        d.ints([past], I32) if unused else None,
        d.maybe(beams) if unused else None,
    ]
    attributes = d.attributes(
        num_heads=heads,
        unidirectional=int(unidirectional),
        scale=d.maybe(d.float(0.2, 1), 0.3),
        mask_filter_value=d.maybe(-1000.0, 0.2) if runs else None,
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
        None if runs else reference,
        outputs=d.int(3 if past else 1, 4) if runs else 1,
        output_types={3: TYPE_OF_SCORES},
        attributes=attributes,
        tolerance=(1e-3, 1e-4),
        symbolic=False,
    )


@ours("RotaryEmbedding")
def rotary_embedding(d):
    batch, heads, length, longest = d.int(1, 2), d.int(1, 3), d.int(1, 4), 8
    size = 8 * d.int(1, 2)
    rotated = d.maybe(4 * d.int(1, size // 4), 0.3)
    x = floats(d, [batch, length, heads * size] if d.chance(0.5) else [batch, heads, length, size])
    positions = (
        d.integers(I64, [1], 0, longest - length)
        if d.chance(0.5)
        else d.integers(I64, [batch, length], 0, longest - 1)
    )
    angles = d.rng.uniform(-3, 3, (longest, (rotated or size) // 2))
    inputs = [x, positions, np.cos(angles).astype(F32), np.sin(angles).astype(F32)]
    attributes = d.attributes(
        interleaved=d.maybe(d.int(0, 1)),
        rotary_embedding_dim=rotated or d.maybe(0),
        num_heads=heads if rotated else d.maybe(heads),
        scale=d.maybe(1.0, 0.3),
        is_packed_batching=d.maybe(0),
    )
    return d.case(inputs, attributes=attributes, constant=[2, 3], symbolic=False)


@ours("GroupQueryAttention")
def group_query_attention(d):
    """A prompt, one more token of each batch, or more tokens of one batch; the cache holds
    more tokens than there are, or for those before the new ones only."""
    form = d.one_of(["prompt", "token", "tokens"])
    batch = 1 if form == "tokens" else d.int(1, 3)
    new = 1 if form == "token" else d.int(2, 5)
    before = 0 if form == "prompt" else d.int(1, 6)
    total = before + new
    kv_heads = d.int(1, 3)
    heads = kv_heads * d.int(1, 3)
    size = 16 * d.int(1, 2)
    lengths = np.full([batch], total, I32)
    if form == "token":
        lengths[1:] = d.integers(I32, [batch - 1], 1, total)
    shared = d.chance(0.4)
    capacity = total + d.int(0, 3) if shared else before
    rotary, packed = d.chance(0.5), d.chance(0.5)
    window = d.int(1, total + 1) if d.chance(0.3) else -1
    causal = window > 0 or form != "prompt" or d.chance(0.8)
    rows = lambda count: floats(d, [batch, new, count * size])
    angles = d.rng.uniform(-3, 3, (total + 2, d.one_of([8, size // 2]) if rotary else 1))
    given = (form == "token" or batch == 1) and d.chance(0.3)
    positions = lengths[:, None] - new + np.arange(new)

    def cache():
        """A cache. ONNX Runtime sets the rows after the tokens to 0, unless they share memory."""
        if kind:
            shape = [batch, kv_heads, capacity, size if bits == 8 else size // 2]
            rows = d.integers(I8, shape, -128, 127) if bits == 8 else d.integers(U8, shape, 0, 255)
        else:
            rows = floats(d, [batch, kv_heads, capacity, size])
        for row, length in zip(rows, lengths):
            row[:, length - new :] = 0
        return rows

    normal = lambda: d.tensor(F32, [size], 0.5, 2, extremes=0)
    sink = d.maybe(floats(d, [heads]), 0.3)
    norms = d.chance(0.2)
    # ONNX Runtime leaves scores after the last token of a shorter batch as they are in memory.
    scored = d.one_of([None, 0, 1, 2]) if (lengths == total).all() else None
    outputs = 4 if scored else 3
    kind = d.one_of([None, None, "PER_TENSOR", "PER_CHANNEL"]) if before else None
    bits = d.one_of([4, 8])
    scales = lambda: floats(d, [1, kv_heads, 1, size] if kind == "PER_CHANNEL" else [1], 0.02, 0.2)
    inputs = [
        rows(heads + 2 * kv_heads) if packed else rows(heads),
        None if packed else rows(kv_heads),
        None if packed else rows(kv_heads),
        cache() if capacity or d.chance(0.5) else None,
        None,
        lengths - 1,
        np.array(total, I32),
        np.cos(angles).astype(F32) if rotary else None,
        np.sin(angles).astype(F32) if rotary else None,
        positions.astype(I64) if rotary and given else None,
        d.maybe(scores_bias(d, batch, heads, new, total), 0.3),
        sink,
        scales() if kind else None,
        scales() if kind else None,
        normal() if norms else None,
        normal() if norms else None,
    ]
    if inputs[3] is not None:
        inputs[4] = cache()
    attributes = d.attributes(
        num_heads=heads,
        kv_num_heads=kv_heads,
        do_rotary=int(rotary),
        rotary_interleaved=d.maybe(d.int(0, 1)),
        local_window_size=window,
        causal=int(causal),
        softcap=d.maybe(d.float(1, 20), 0.3),
        scale=d.maybe(d.float(0.2, 1), 0.3),
        smooth_softmax=d.maybe(1, 0.3) if sink is None else None,
        k_quant_type=kind,
        v_quant_type=kind,
        kv_cache_bit_width=bits if kind else None,
        qk_output=scored,
        qk_norm_epsilon=d.maybe(d.float(1e-3, 1e-1)) if norms else None,
    )
    epsilon = attributes.get("qk_norm_epsilon", 1e-6)

    def reference(q, k, v, past_k, past_v, last, total, cos, sin, positions, *others):
        """With normalized queries and keys, which ONNX Runtime does not have on a CPU."""
        weights = others[-2:]
        if k is None:
            q, k, v = np.split(q, [heads * size, (heads + kv_heads) * size], axis=2)

        def normalize(x, weight):
            x = x.reshape(batch, new, -1, size).astype(F64)
            x = x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight
            return x.reshape(batch, new, -1).astype(F32)

        plain = [normalize(q, weights[0]), normalize(k, weights[1]), v, *inputs[3:14], None, None]
        case = d.case(plain, outputs=outputs, attributes=attributes, symbolic=False)
        return tuple(by_runtime(case, case.model()))

    return d.case(
        inputs,
        reference if norms else None,
        outputs=outputs,
        attributes=attributes,
        tolerance=(1e-3, 1e-4),
        symbolic=False,
        dynamic=True,
    )


def compress(masks):
    """Returns the compressed rows of masks of blocks: where rows start, and columns."""
    starts = [np.concatenate([[0], np.cumsum(mask.sum(1))]) for mask in masks]
    columns = [np.nonzero(mask)[1] for mask in masks]
    most = max(len(column) for column in columns)
    padded = [np.pad(column, (0, most - len(column)), constant_values=-1) for column in columns]
    return np.array(starts, I32), np.array(padded, I32)


@ours("SparseAttention")
def sparse_attention(d):
    """A prompt or more tokens. ONNX Runtime only runs it with caches that are overwritten, so it
    has a reference."""
    batch, new = d.int(1, 3), d.one_of([1, d.int(2, 20)])
    before = d.one_of([0, d.int(1, 40)])
    total, block, size = before + new, 16, 8 * d.int(1, 2)
    blocks = -(-total // block) + d.int(0, 1)
    layouts, kv_heads = d.int(1, 2), d.int(1, 2)
    heads = 2 * kv_heads
    # Every query attends to its own block.
    masks = [
        np.tril(d.rng.random((blocks, blocks)) < 0.5) | np.eye(blocks, dtype=bool)
        for _ in range(layouts)
    ]
    starts, columns = compress(masks)
    lengths = np.full([batch], total, I32)
    packed, rotary = d.chance(0.5), d.chance(0.5)
    rows = lambda count: floats(d, [batch, new, count * size])
    cache = lambda: floats(d, [batch, kv_heads, blocks * block, size])
    angles = d.rng.uniform(-3, 3, (total, size // 2))
    inputs = [
        rows(heads + 2 * kv_heads) if packed else rows(heads),
        None if packed else rows(kv_heads),
        None if packed else rows(kv_heads),
        cache(),
        cache(),
        starts,
        columns,
        np.array(total, I32),
        lengths,
        np.cos(angles).astype(F32) if rotary else None,
        np.sin(angles).astype(F32) if rotary else None,
    ]
    attributes = d.attributes(
        num_heads=heads,
        kv_num_heads=kv_heads,
        sparse_block_size=block,
        do_rotary=int(rotary),
        rotary_interleaved=d.maybe(d.int(0, 1)),
        scale=d.maybe(d.float(0.2, 1), 0.3),
    )
    alternates = bool(attributes.get("rotary_interleaved"))

    def reference(q, k, v, past_k, past_v, *_):
        if k is None:
            q, k, v = np.split(q, [heads * size, (heads + kv_heads) * size], axis=2)
        split = lambda x: x.reshape(batch, new, -1, size).transpose(0, 2, 1, 3).astype(F64)
        q, k, v = split(q), split(k), split(v)
        if rotary:
            cos, sin = np.cos(angles[before:]), np.sin(angles[before:])

            def halves(x):
                return (x[..., ::2], x[..., 1::2]) if alternates else np.split(x, 2, axis=-1)

            def turn(a, b):
                parts = [a * cos - b * sin, b * cos + a * sin]
                if alternates:
                    return np.stack(parts, -1).reshape(*a.shape[:-1], -1)
                return np.concatenate(parts, -1)

            q, k = turn(*halves(q)), turn(*halves(k))
        keys, values = past_k.copy(), past_v.copy()
        keys[:, :, before:total], values[:, :, before:total] = k, v
        places, all_places = np.arange(before, total), np.arange(blocks * block)
        y = np.zeros([batch, heads, new, size])
        for head in range(heads):
            mask = masks[head % layouts][places // block][:, all_places // block]
            seen = mask & (all_places <= places[:, None])
            group = head // (heads // kv_heads)
            scores = q[:, head] @ keys[:, group].transpose(0, 2, 1).astype(F64)
            scores *= attributes.get("scale", size**-0.5)
            y[:, head] = softmax(np.where(seen, scores, -np.inf)) @ values[:, group]
        y = y.transpose(0, 2, 1, 3).reshape(batch, new, -1)
        return y.astype(F32), keys, values

    constant = [5, 6] if d.chance(0.5) else []
    rest = dict(outputs=3, attributes=attributes, tolerance=(1e-3, 1e-4), symbolic=False)
    return d.case(inputs, reference, constant=constant, **rest)
