"""Attention of one query of ONNX Runtime, compared with it."""

import numpy as np

from ..types import F32, F64, I32
from .microsoft import floats, ours, softmax
from .microsoft_attention import TYPE_OF_SCORES


@ours("DecoderMaskedMultiHeadAttention")
def decoder_masked_multi_head_attention(d):
    batch, heads, size = d.int(1, 3), d.int(1, 3), d.int(1, 4)
    width, kind = heads * size, d.one_of(["packed", "self", "cross"])
    attributes = d.attributes(
        num_heads=heads,
        scale=d.maybe(d.float(0.2, 1), 0.3),
        mask_filter_value=d.maybe(-1000.0, 0.2),
    )
    bias = d.maybe(floats(d, [3 * width]))

    def mask(keys):
        kept = d.integers(I32, [batch, keys], 0, 1)
        kept[:, 0] = 1
        return d.maybe(kept)

    row = lambda: floats(d, [batch, 1, width])
    if kind == "cross":
        keys = d.int(1, 5)
        cache = lambda: floats(d, [batch, heads, keys, size])
        inputs = [row(), cache(), cache(), mask(keys), None, None, None, None, None, None, bias]
        return d.case(inputs, attributes=attributes)
    past, unused = d.int(0, 4), d.int(1, 3)
    cache = lambda: floats(d, [batch, heads, past + unused, size])
    query = (
        [floats(d, [batch, 1, 3 * width]), None, None]
        if kind == "packed"
        else [row(), row(), row()]
    )
    # With beams, ONNX Runtime reads the first row of scores for each row of the batch.
    scores = d.maybe(floats(d, [1, d.one_of([1, heads]), 1, past + 1]))
    inputs = [*query, mask(past + 1), scores, cache(), cache(), np.array([past], I32)]
    beams = d.one_of([size for size in (1, 2, 3) if batch % size == 0])
    shape = [batch // beams, beams, past + unused]
    indirection = d.integers(I32, shape, 0, beams - 1)
    indirection = d.maybe(indirection) if beams == 1 else indirection
    inputs += [np.array([beams], I32), indirection, bias]
    outputs = d.int(3, 4)
    attributes |= {"past_present_share_buffer": 1, "output_qk": outputs - 3}

    def reference(query, _key, _value, given, scores, past_k, past_v, *rest):
        """ONNX Runtime fails on a packed query."""
        _, _, indirection, bias = rest
        bias = 0 if bias is None else bias
        parts = np.split(query.astype(F64) + bias, 3, axis=-1)
        q, k, v = (part.reshape(batch, heads, 1, size) for part in parts)
        present_k, present_v = past_k.astype(F64), past_v.astype(F64)
        present_k[:, :, past], present_v[:, :, past] = k[:, :, 0], v[:, :, 0]
        k, v = present_k[:, :, : past + 1].copy(), present_v[:, :, : past + 1].copy()
        if indirection is not None:
            rows = np.arange(batch).reshape(-1, beams, 1) // beams * beams + indirection
            rows = rows.reshape(batch, -1)[:, :past]
            for (one, at), row in np.ndenumerate(rows):
                k[one, :, at], v[one, :, at] = past_k[row, :, at], past_v[row, :, at]
        scale = attributes.get("scale", size**-0.5)
        sums = scale * (q @ k.swapaxes(-1, -2)) + (0 if scores is None else scores)
        if given is not None:
            masked = attributes.get("mask_filter_value", -10000.0)
            sums = sums + np.where(given == 1, 0, masked)[:, None, None]
        y = (softmax(sums) @ v).reshape(batch, 1, width)
        return tuple(x.astype(F32) for x in (y, present_k, present_v, sums))[:outputs]

    judge = reference if kind == "packed" else None
    return d.case(
        inputs,
        judge,
        outputs=outputs,
        attributes=attributes,
        symbolic=False,
        output_types={3: TYPE_OF_SCORES},
    )
