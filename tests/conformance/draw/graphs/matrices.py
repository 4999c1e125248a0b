"""Matrix products and the parts of transformers."""

import numpy as np

from .evaluate import Unfit
from .pointwise import activate, partner
from .steps import step


def rows(g, **wanted):
    return g.pick(least=2, most=2500, wanted=lambda x: min(x.shape) > 0 and x.rank <= 4, **wanted)


def linear(g, x, n=None):
    """A product with weights."""
    n = n or g.int(1, 12)
    k = x.shape[-1]
    if x.rank == 2 and g.chance(0.4):
        is_transposed = g.chance(0.5)
        w = g.weights(n, k) if is_transposed else g.weights(k, n)
        c = g.one_of(
            [None, g.weights(n, scale=0.3), g.number(0.5), g.weights(x.shape[0], 1, scale=0.3)]
        )
        scale = {"alpha": g.one_of([None, 0.5]), "beta": g.one_of([None, 2.0])}
        return g.add("Gemm", [x, w, *([c] if c else [])], transB=int(is_transposed), **scale)
    return g.add("MatMul", [x, g.weights(k, n)])


@step(3)
def dense(g):
    x = rows(g)
    y = linear(g, x)
    for _ in range(g.int(0, 3)):
        kind = g.int(0, 4)
        if kind == 0:
            y = activate(g, y)
        elif kind == 1:
            y = g.add("Add", in_any_order(g, y, g.weights(y.shape[-1], scale=0.3)))
        elif kind == 2:
            y = g.add(g.one_of(["Add", "Mul", "Sub", "Div"]), in_any_order(g, y, partner(g, y)))
        elif kind == 3:
            y = g.add("Add", in_any_order(g, y, g.pick(wanted=lambda v: v.shape == y.shape)))
        else:
            y = linear(g, y)


def in_any_order(g, a, b):
    return [a, b] if g.chance(0.5) else [b, a]


@step(2)
def product(g):
    """A product of two values, one of them transposed if needed."""
    a = rows(g)
    b = rows(g)
    if a.shape[-1] == b.shape[-1] and g.chance(0.8):
        if g.chance(0.3) and a.rank == b.rank == 2:
            g.add("Gemm", [a, b], transB=1)
            return
        b = transpose(g, b)
    elif a.shape[-2] == b.shape[-2]:
        if g.chance(0.3) and a.rank == b.rank == 2:
            g.add("Gemm", [a, b], transA=1, alpha=g.one_of([None, 0.5]))
            return
        a = transpose(g, a)
    if a.shape[-1] != b.shape[-2]:
        raise Unfit("the sizes differ")
    if g.chance(0.3):
        k = a.shape[-1]
        a = g.add("Div", [a, g.number(np.sqrt(k))])
    g.add("MatMul", [a, b])


def transpose(g, x):
    return g.add("Transpose", [x], perm=[*range(x.rank - 2), x.rank - 1, x.rank - 2])


@step(2)
def attention(g):
    """Self-attention in basic operators."""
    x = rows(g, rank=3)
    n, rows_, size = x.shape
    heads = g.one_of([1, 2])
    each = g.one_of([2, 4])
    if rows_ > 8:
        raise Unfit("too many rows")

    def split_heads(value, last=False):
        y = g.add("MatMul", [value, g.weights(size, heads * each)])
        if g.chance(0.4):
            y = g.add("Add", [y, g.weights(heads * each, scale=0.3)])
        y = g.add("Reshape", [y, g.shape_of([n, rows_, heads, each])])
        return g.add("Transpose", [y], perm=[0, 2, 3, 1] if last else [0, 2, 1, 3])

    q, v = split_heads(x), split_heads(x)
    if g.chance(0.3):
        q = rotary(g, q)
    if g.chance(0.4):
        k = g.add("Transpose", [split_heads(x)], perm=[0, 1, 3, 2])
    else:
        k = split_heads(x, True)
    scale = g.number(np.sqrt(each))
    before = g.chance(0.3)
    q = g.add("Div", [q, scale]) if before else q
    scores = g.add("MatMul", [q, k])
    if not before and g.chance(0.8):
        scores = (
            g.add("Div", [scores, scale])
            if g.chance(0.5)
            else g.add("Mul", [scores, g.number(0.5)])
        )
    if g.chance(0.4):
        mask = np.where(g.rng.random((rows_, rows_)) < 0.3, -100.0, 0.0).astype(x.dtype)
        mask = mask.reshape(g.one_of([(1, 1), (1,), ()]) + mask.shape)
        scores = g.add("Add", in_any_order(g, scores, g.constant(mask, 0.3)))
    weights = g.add("Softmax", [scores], axis=g.one_of([-1, -1, 3, 2]))
    y = g.add("MatMul", [weights, v])
    y = g.add("Transpose", [y], perm=[0, 2, 1, 3])
    g.add(
        "Reshape",
        [y, g.shape_of(g.one_of([[n, rows_, heads * each], [0, 0, -1], [n, -1, heads * each]]))],
    )


def rotary(g, x):
    """A rotary embedding."""
    half = x.shape[-1] // 2
    a, b = g.add("Split", [x, g.shape_of([half, x.shape[-1] - half])], outputs=2, axis=-1)
    rotated = g.add("Concat", [g.add("Neg", [b]), a], axis=-1)
    angles = g.rng.uniform(-3, 3, x.shape[-2:]).astype(x.dtype)
    cos, sin = g.constant(np.cos(angles)), g.constant(np.sin(angles))
    return g.add("Add", [g.add("Mul", [x, cos]), g.add("Mul", [rotated, sin])])


@step(0.7)
def rotary_embedding(g):
    rotary(g, g.pick(least=2, wanted=lambda x: x.shape[-1] % 2 == 0 and min(x.shape) > 0))


@step()
def equation(g):
    x = rows(g)
    letters = "abcdef"[: x.rank]
    kind = g.int(0, 2)
    if kind == 0:
        y = g.weights(x.shape[-1], g.int(1, 6))
        g.add("Einsum", [x, y], equation=f"{letters},{letters[-1]}z->{letters[:-1]}z")
    elif kind == 1:
        g.add("Einsum", [x, x], equation=f"{letters},{letters}->{letters[:-1]}")
    else:
        g.add("Einsum", [x, x], equation=f"{letters},{letters[:-1]}z->{letters[:-2]}{letters[-1]}z")


@step(0.5)
def embedding(g):
    """An embedding: rows of a table by the indices of an input."""
    table = g.weights(7, g.int(2, 8), scale=1)
    g.add("Gather", [table, g.constant(g.integers(np.dtype("int64"), (2, 3), -7, 6), 0.8)], axis=0)
