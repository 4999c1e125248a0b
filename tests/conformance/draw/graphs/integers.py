"""Integers: arithmetic that wraps around, and indices of nonzero elements."""

import numpy as np

from ..types import BOOL, I8, I32, I64, U8
from .steps import step


@step(1.2)
def arithmetic(g):
    """Integer arithmetic with a random operand."""
    dtype = g.one_of([I64, I32, U8, I8])
    x = g.pick(dtype=dtype)
    y = g.constant(g.integers(dtype, g.broadcast(x.shape), -3, 3, 0.2), 0.3)
    op = g.one_of(
        ["Add", "Sub", "Mul", "Max", "Min", "BitwiseAnd", "Neg", "Abs", "Equal", "Less", "Mod"]
    )
    if op in ("Neg", "Abs"):
        g.add(op if dtype not in (U8,) else "BitwiseNot", [x])
    elif op == "Mod":
        g.add("Mod", [x, g.constant(np.array(g.int(1, 5), dtype))])
    else:
        g.add(op, [x, y] if g.chance(0.5) else [y, x])


@step(0.5)
def nonzero(g):
    """Indices of true elements: a data-dependent number."""
    x = g.pick(dtype=BOOL, wanted=lambda x: x.rank)
    g.add(g.one_of(["NonZero", "Not"]), [x])
