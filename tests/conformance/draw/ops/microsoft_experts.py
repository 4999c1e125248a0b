"""Mixtures of experts of ONNX Runtime, compared with it."""

import numpy as np

from ..oracle import by_runtime
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


def choose_third(d, attributes, parts):
    """Sometimes puts the linear parts, which ONNX Runtime wants in the first weights, in the third.
    Returns whether it does, and the rows of the first weights per hidden row.
    """
    if attributes["activation_type"] not in ("silu", "swiglu") or d.chance(0.6):
        return False, parts
    attributes["swiglu_fusion"] = None
    return True, 1


def alternating(a, b):
    """Returns the rows of both in turn; missing ones are zeros."""
    if a is None and b is None:
        return None
    a, b = (np.zeros_like(y) if x is None else x for x, y in ((a, b), (b, a)))
    return np.stack([a, b], 2).reshape(len(a), 2 * a.shape[1], *a.shape[2:])


def with_first(d, attributes, inputs, constant):
    """Returns what ONNX Runtime computes of parts that alternate in the first weights."""
    fused = attributes | {"activation_type": "swiglu", "swiglu_fusion": 1}
    if attributes["activation_type"] == "silu":
        fused |= {"activation_alpha": 1.0, "activation_beta": 0.0}
    attributes, running = d.attributes(**fused), range(len(inputs))
    case = d.case(
        inputs, attributes=attributes, constant=constant, running=running, symbolic=False
    )
    return by_runtime(case, case.model())[0]


def tokens(d, width):
    """Returns rows of tokens of two or three axes, and their number."""
    shape = d.one_of([[d.int(1, 9)], [d.int(1, 3), d.int(1, 4)]])
    return floats(d, [*shape, width], -1, 1), int(np.prod(shape))


@ours("MoE")
def moe(d):
    experts, width, inner = d.int(1, 6), d.int(1, 20), d.int(1, 20)
    attributes, parts = routing(d, experts)
    has_third, parts = choose_third(d, attributes, parts)
    x, count = tokens(d, width)
    inputs = [
        x,
        floats(d, [count, experts]),
        floats(d, [experts, parts * inner, width], -0.5, 0.5),
        d.maybe(floats(d, [experts, parts * inner])),
        floats(d, [experts, width, inner], -0.5, 0.5),
        d.maybe(floats(d, [experts, width])),
    ]
    if has_third:
        inputs += [
            floats(d, [experts, inner, width], -0.5, 0.5),
            d.maybe(floats(d, [experts, inner])),
        ]
    constant = [2, 4] if d.chance(0.5) else []

    def reference(x, logits, w1, b1, w2, b2, w3, b3):
        pairs = alternating(w1, w3), alternating(b1, b3)
        return with_first(d, attributes, [x, logits, *pairs, w2, b2], constant)

    return d.case(
        inputs,
        reference if has_third else None,
        constant=constant,
        attributes=d.attributes(**attributes),
        tolerance=(1e-3, 1e-4),
        symbolic=False,
    )


@ours("QMoE")
def qmoe(d):
    """Codes with a scale for each block or each column."""
    experts, bits, block = d.int(1, 4), d.one_of([2, 4, 8]), d.one_of([None, 16, 32, 64])
    width, inner = (unit := block or 4) * d.int(1, 2), unit * d.int(1, 2)
    attributes, parts = routing(d, experts)
    has_third, parts = choose_third(d, attributes, parts)
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

    # Zero points of columns share bytes, which the rows of the third weights would not.
    has_zeros = has_zeros and not (has_third and block is None)
    (w1, s1, b1, z1), (w2, s2, b2, z2) = weights(parts * inner, width), weights(width, inner)
    w3, s3, b3, z3 = weights(inner, width) if has_third else [None] * 4
    router = d.maybe(floats(d, [count, experts], 0.1, 1), 0.3)
    logits = floats(d, [count, experts])
    inputs = [x, logits, w1, s1, b1, w2, s2, b2, w3, s3, b3, z1, z2, z3, router]
    level = d.one_of([None, 0, 4])
    attributes |= dict(expert_weight_bits=bits, block_size=block, accuracy_level=level)
    constant = [i for i in (2, 3, 5, 6, 8, 9, 11, 12, 13) if inputs[i] is not None]
    constant = constant if d.chance(0.5) else []
    # Products of blocks quantize the tokens, where level 4 or the number of bits asks for it. With
    # 2 bits, only ONNX Runtime does.
    quantizes = bits == 2 or constant and (bits == 8 or level == 4)
    rough = block is not None and quantizes
    rest = dict(attributes=d.attributes(**attributes), symbolic=False)
    rest["tolerance"] = (1e-2, max(2e-2, 2e-3 * (1 << bits))) if rough else (1e-3, 1e-3)

    def reference(*_):
        w, s, b, z = (alternating(*pair) for pair in ((w1, w3), (s1, s3), (b1, b3), (z1, z3)))
        first = [x, logits, w, s, b, w2, s2, b2, None, None, None, z, z2, None, router]
        places = [i for i in constant if first[i] is not None]
        return with_first(d, attributes, first, places)

    return d.case(inputs, reference if has_third else None, constant=constant, **rest)
