"""Sequences of tensors, which the compiler removes if their tensors are known one by one."""

import numpy as np

from .steps import step


@step(0.8)
def parts(g):
    """Splits a value, selects some of the parts, and concatenates them."""
    x = g.pick(wanted=lambda x: x.rank and min(x.shape) > 0)
    axis = g.axis(x.rank)
    size = x.shape[axis]
    lengths = g.one_of([None, g.constant(np.array(g.int(1, size), np.int64))])
    keep = None if lengths else g.one_of([None, 0])
    parts = g.add("SplitToSequence", [x, lengths], axis=axis, keepdims=keep)
    if g.chance(0.4):
        g.add("SequenceAt", [parts, g.constant(np.array(g.one_of([0, -1]), np.int64))])
        return
    if g.chance(0.4):
        first = g.add("SequenceAt", [parts, g.constant(np.array(0, np.int64))])
        parts = g.add("SequenceInsert", [parts, first])
    g.add("SequenceLength", [parts])
    new = 1 if keep == 0 else None
    g.add("ConcatFromSequence", [parts], axis=axis, new_axis=new)


@step(0.4)
def gathered(g):
    x = g.pick(least=1)
    y = g.pick(wanted=lambda y: y.shape == x.shape)
    made = g.add("SequenceConstruct", [x, y, x])
    made = (
        g.add("SequenceErase", [made, g.constant(np.array(1, np.int64))]) if g.chance(0.3) else made
    )
    g.add("ConcatFromSequence", [made], axis=g.axis(x.rank), new_axis=g.one_of([None, 1]))
