"""Mixtures of experts of ONNX Runtime, compared with it."""

import numpy as np

from .microsoft import floats, ours
from .microsoft_blocks import bytes_of


def routing(d, experts):
    """Returns attributes of both operators, and the rows of the first weights per hidden row."""
    kind = d.one_of(["relu", "gelu", "silu", "identity", "swiglu"])
    gated = kind == "swiglu"
    attributes = dict(
        activation_type=kind,
        k=d.int(1, experts),
        normalize_routing_weights=d.maybe(d.int(0, 1)),
        swiglu_fusion=1 if gated else None,
        activation_alpha=d.maybe(d.float(0.5, 2)) if gated else None,
        activation_beta=d.maybe(d.float(-1, 1)) if gated else None,
        swiglu_limit=d.maybe(d.float(0.5, 3)) if gated else None,
    )
    return attributes, 2 if gated else 1


def tokens(d, width):
    """Returns rows of tokens of two or three axes, and their number."""
    shape = d.one_of([[d.int(1, 9)], [d.int(1, 3), d.int(1, 4)]])
    return floats(d, [*shape, width], -1, 1), int(np.prod(shape))


@ours("MoE")
def moe(d):
    experts, width, inner = d.int(1, 6), d.int(1, 20), d.int(1, 20)
    attributes, parts = routing(d, experts)
    x, count = tokens(d, width)
    inputs = [
        x,
        floats(d, [count, experts]),
        floats(d, [experts, parts * inner, width], -0.5, 0.5),
        d.maybe(floats(d, [experts, parts * inner])),
        floats(d, [experts, width, inner], -0.5, 0.5),
        d.maybe(floats(d, [experts, width])),
    ]
    constant = [2, 4] if d.chance(0.5) else []
    rest = dict(attributes=d.attributes(**attributes), tolerance=(1e-3, 1e-4), symbolic=False)
    return d.case(inputs, constant=constant, **rest)


@ours("QMoE")
def qmoe(d):
    """Codes with a scale for each block or each column."""
    experts, bits, block = d.int(1, 4), d.one_of([2, 4, 8]), d.one_of([None, 16, 32, 64])
    width, inner = (unit := block or 4) * d.int(1, 2), unit * d.int(1, 2)
    attributes, parts = routing(d, experts)
    has_zeros, has_bias = d.chance(0.5), d.chance(0.5)
    x, count = tokens(d, width)

    def weights(n, k):
        blocks = [] if block is None else [k // block]
        zeros = [-(-n * bits // 8)] if block is None else [n, -(-blocks[0] * bits // 8)]
        return (
            bytes_of(d, [experts, n, k * bits // 8]),
            floats(d, [experts, n, *blocks], 0.01, 0.05),
            floats(d, [experts, n]) if has_bias else None,
            bytes_of(d, [experts, *zeros]) if has_zeros else None,
        )

    (w1, s1, b1, z1), (w2, s2, b2, z2) = weights(parts * inner, width), weights(width, inner)
    router = d.maybe(floats(d, [count, experts], 0.1, 1), 0.3)
    logits = floats(d, [count, experts])
    inputs = [x, logits, w1, s1, b1, w2, s2, b2, None, None, None, z1, z2, None, router]
    level = d.one_of([None, 0, 4])
    attributes |= dict(expert_weight_bits=bits, block_size=block, accuracy_level=level)
    constant = [i for i in (2, 3, 5, 6, 11, 12) if inputs[i] is not None]
    constant = constant if d.chance(0.5) else []
    # Products of blocks quantize the tokens, where level 4 or the number of bits asks for it. With
    # 2 bits, only ONNX Runtime does.
    quantizes = bits == 2 or constant and (bits == 8 or level == 4)
    rough = block is not None and quantizes
    rest = dict(attributes=d.attributes(**attributes), symbolic=False)
    rest["tolerance"] = (1e-2, 2e-3 * (1 << bits)) if rough else (1e-3, 1e-3)
    return d.case(inputs, constant=constant, **rest)
