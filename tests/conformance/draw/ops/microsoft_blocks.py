"""Operators of ONNX Runtime with block-quantized weights, compared with it."""

import numpy as np

from ..oracle import by_runtime
from ..types import F16, F32, F64, I32, U8, is_minifloat
from .microsoft import floats, ours


def bytes_of(d, shape):
    return d.integers(U8, shape, 0, 255)


def unpack(codes, bits):
    """Returns the codes of bytes, along the last axis."""
    shifts = np.arange(0, 8, bits)
    return (codes[..., None] >> shifts & (1 << bits) - 1).reshape(*codes.shape[:-1], -1)


def product(attributes):
    """Returns a reference of MatMulNBits."""
    k, n, bits, block = (attributes[name] for name in ("K", "N", "bits", "block_size"))

    def reference(a, codes, scales, zeros=None, groups=None, bias=None):
        blocks = scales.shape[1]
        weights = unpack(codes.reshape(n, -1), bits)[:, :k].astype(F64)
        groups = np.arange(k) // block if groups is None else groups[:k]
        if zeros is None:
            zeros = np.full([n, blocks], 1 << bits - 1)
        elif zeros.dtype == U8:
            zeros = unpack(zeros, bits)[:, :blocks]
        b = (weights - zeros[:, groups]) * scales[:, groups]
        return (a @ b.T + (0 if bias is None else bias)).astype(F32)

    return reference


@ours("MatMulNBits")
def matmul_nbits(d):
    bits, block = d.one_of([2, 4, 4, 8]), d.one_of([16, 32, 64, 128])
    # The number of rows of a matrix with `bits` = 2 is a multiple of the block in ONNX Runtime.
    k = block * d.int(1, 3) if bits == 2 or d.chance(0.5) else d.int(1, 3 * block)
    n, blocks = d.int(1, 40), -(-k // block)
    rows = d.one_of([[], [1], [d.int(2, 9)], [d.int(1, 3), d.int(1, 20)]]) or [1]
    kind = d.one_of(["none", "codes", "numbers"])
    zeros = {
        "none": None,
        "codes": bytes_of(d, [n, -(-blocks * bits // 8)]),
        "numbers": floats(d, [n, blocks], 0, 1 << bits),
    }[kind]
    is_grouped = d.chance(0.2)
    # The block of each row, or of each row of whole blocks.
    grouped = d.one_of([k, blocks * block])
    inputs = [
        floats(d, [*rows, k]),
        bytes_of(d, [n, blocks, block * bits // 8]),
        floats(d, [n, blocks], -0.2, 0.2),
        zeros,
        d.integers(I32, [grouped], 0, blocks - 1) if is_grouped else None,
        d.maybe(floats(d, [n])),
    ]
    level = d.one_of([None, 0, 1, 4])
    attributes = dict(K=k, N=n, bits=bits, block_size=block, accuracy_level=level)
    size = 2.0 * 0.2 * (1 << bits) * np.sqrt(k)
    constant = [1, 2, 3] if d.chance(0.7) else []
    # ONNX Runtime does not run all of these.
    reference = None
    if is_grouped or bits == 8 and (kind == "numbers" or not constant):
        reference = product(attributes)
    # It wants the size of the bias in the model.
    rest = dict(tolerance=(1e-3, 1e-5 * size), attributes=attributes)
    return d.case(inputs, reference, constant=constant, symbolic=inputs[5] is None, **rest)


@ours("MatMulBnb4")
def matmul_bnb4(d):
    block, n, k = d.one_of([16, 32, 64]), d.int(1, 20), d.int(1, 100)
    if d.chance(0.5):
        k = block * d.int(1, 3)
    transposed = d.chance(0.7)
    inputs = [
        floats(d, [d.int(1, 9), k if transposed else n]),
        bytes_of(d, [(n * k + 1) // 2]),
        floats(d, [-(-n * k // block)], 0.1, 2),
    ]
    attributes = dict(K=k, N=n, block_size=block, quant_type=d.int(0, 1), transB=int(transposed))
    constant = [1, 2] if d.chance(0.7) else []

    def reference(a, b, scales):
        """Without a transposition, ONNX Runtime reads memory that nothing wrote."""
        rows = d.case([np.eye(k, dtype=F32), b, scales], attributes=attributes | {"transB": 1})
        (weights,) = by_runtime(rows, rows.model())
        return a @ weights.T

    return d.case(
        inputs,
        None if transposed else reference,
        constant=constant,
        tolerance=(1e-3, 1e-3),
        attributes=attributes,
    )


@ours("GatherBlockQuantized")
def gather_block_quantized(d):
    dtype = d.type("T1")
    real = d.one_of([F32, F16])
    bits, block = d.one_of([2, 4, 8]), d.one_of([16, 32])
    packs = 8 // bits if dtype == U8 else 1
    shape = [d.int(2, 6), block * d.int(1, 3)]
    if d.chance(0.3):
        shape.insert(1, d.int(1, 3))
    if packs == 1 and d.chance(0.5):
        shape[-1] = d.int(1, 50)
    quantize, gather = len(shape) - 1, 0
    if dtype != U8 and d.chance(0.3):
        quantize = gather
    scales = list(shape)
    scales[quantize] = -(-scales[quantize] // block)
    if dtype == U8:
        data = bytes_of(d, [*shape[:-1], shape[-1] // packs])
    elif is_minifloat(dtype):
        data = d.tensor(dtype, shape, -4, 4, extremes=0)
    else:
        data = d.integers(dtype, shape, -8, 15)
    zeros = None
    if dtype == U8:
        zeros = d.maybe(bytes_of(d, [*scales[:-1], -(-scales[-1] // packs)]))
    elif not is_minifloat(dtype):
        zeros = d.maybe(d.integers(dtype, scales, -8, 15))
    size = shape[gather]
    # An index out of range gives zeros.
    low, high = (-size - 2, size + 2) if d.chance(0.3) else (-size, size - 1)
    indices = d.integers(d.type("Tind"), d.shape(least=0, most=2, empty=0), low, high)
    axes = d.one_of([1, -1]), d.one_of([0, -len(shape)])
    attributes = dict(
        bits=None if packs == 1 and dtype != U8 else bits,
        block_size=block,
        quantize_axis=quantize if axes[0] == 1 else quantize - len(shape),
        gather_axis=axes[1],
    )
    inputs = [data, indices, d.tensor(real, scales, -1, 1, extremes=0), zeros]
    # The operator's data are constants.
    return d.case(inputs, constant=[0, 2, 3], attributes=attributes)
