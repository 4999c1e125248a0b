"""Operators of ONNX Runtime that carry a state from step to step."""

import numpy as np

from ..types import F32, I8, I32, U8
from .microsoft import floats, ours


@ours("CausalConvWithState")
def causal_conv_with_state(d):
    batch, length, kernel = d.int(1, 3), d.int(1, 6), d.int(1, 4)
    last, dilation = d.chance(0.4), d.one_of([1, 1, 2, 3])
    sizes = [d.int(1, 3) for _ in range(d.int(1, 2) if last else 1)]
    channels, state = int(np.prod(sizes)), (kernel - 1) * dilation
    order = lambda steps: [batch, steps, *sizes] if last else [batch, channels, steps]
    inputs = [
        floats(d, order(length)),
        floats(d, [channels, 1, kernel]),
        d.maybe(floats(d, [channels])),
        d.maybe(floats(d, order(state))) if state else None,
    ]
    attributes = d.attributes(
        activation=d.maybe(d.one_of(["none", "silu", "swish"])),
        channels_last=1 if last else None,
        dilation=dilation if dilation > 1 else None,
        ndim=d.maybe(1),
    )
    return d.case(inputs, outputs=2, attributes=attributes, fixed=[1])


@ours("LinearAttention")
def linear_attention(d):
    batch, length, key, value = d.int(1, 2), d.int(1, 5), d.int(1, 4), d.int(1, 4)
    queries, keys = d.one_of([(1, 1), (2, 2), (4, 2), (3, 1), (1, 2), (2, 4)])
    rule = d.one_of(["linear", "gated", "delta", "gated_delta"])
    decays = keys * (key if d.chance(0.5) else 1)
    rates = d.one_of([keys, 1])
    inputs = [
        floats(d, [batch, length, queries * key], -1, 1),
        floats(d, [batch, length, keys * key], -1, 1),
        floats(d, [batch, length, keys * value]),
        d.maybe(floats(d, [batch, keys, key, value])),
        floats(d, [batch, length, decays], -1, 0) if "gated" in rule else None,
        floats(d, [batch, length, rates], 0, 1) if "delta" in rule else None,
    ]
    attributes = d.attributes(
        q_num_heads=queries,
        kv_num_heads=keys,
        update_rule=rule,
        scale=d.maybe(d.float(0.2, 1)),
        chunk_size=d.maybe(32),
    )
    return d.case(inputs, outputs=2, attributes=attributes, symbolic=False)


# Activations that are bounded, with their parameters: rounding errors do not grow.
BOUNDED = {"HardSigmoid": 2, "ScaledTanh": 2, "Sigmoid": 0, "Softsign": 0, "Tanh": 0}


def activations(d, ways):
    """The activations of each direction, with parameters for those that have some."""
    if d.chance(0.5):
        return {}
    names = [d.one_of(list(BOUNDED)) for _ in range(3 * ways)]
    count = sum(BOUNDED[name] == 2 for name in names)
    # Without parameters, ONNX Runtime multiplies by 0 in `ScaledTanh`.
    given = count if "ScaledTanh" in names or d.chance(0.5) else 0
    numbers = lambda: [d.float(0.25, 1) for _ in range(given)] or None
    return {"activations": names, "activation_alpha": numbers(), "activation_beta": numbers()}


@ours("DynamicQuantizeLSTM")
def dynamic_quantize_lstm(d):
    steps, batch, width, hidden = d.int(1, 5), d.int(1, 3), d.int(1, 5), d.int(1, 5)
    direction = d.one_of([None, "forward", "reverse", "bidirectional"])
    ways, dtype = 2 if direction == "bidirectional" else 1, d.one_of([I8, U8])
    scales = [ways, 4 * hidden] if d.chance(0.5) else [ways]
    middle = 128 if dtype == U8 else 0

    def weights(rows):
        # Small enough for ONNX Runtime to be exact without VNNI, as in `DynamicQuantizeMatMul`.
        numbers = d.integers(I32, [ways, rows, 4 * hidden], -64, 64) + middle
        # ONNX Runtime takes no zero points that differ between the channels.
        return numbers.astype(dtype), [
            d.tensor(F32, scales, 0.002, 0.008, extremes=0),
            np.full(scales, middle, dtype),
        ]

    w, quantized_w = weights(width)
    r, quantized_r = weights(hidden)
    inputs = [
        floats(d, [steps, batch, width]),
        w,
        r,
        d.maybe(floats(d, [ways, 8 * hidden])),
        d.maybe(d.integers(I32, [batch], 1, steps)),
        d.maybe(floats(d, [ways, batch, hidden], -1, 1)),
        d.maybe(floats(d, [ways, batch, hidden], -1, 1)),
        d.maybe(floats(d, [ways, 3 * hidden], -1, 1)),
        *quantized_w,
        *quantized_r,
    ]
    attributes = d.attributes(
        hidden_size=hidden,
        direction=direction,
        clip=d.maybe(3.0),
        input_forget=d.maybe(1),
    )
    attributes |= activations(d, ways)
    constant = [1, 2, 8, 9, 10, 11]
    # A rounding error may change a quantized state by one step.
    tolerance = (1e-3, 5e-3)
    return d.case(inputs, outputs=3, attributes=attributes, constant=constant, tolerance=tolerance)
