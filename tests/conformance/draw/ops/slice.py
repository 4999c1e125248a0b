"""Slicing and padding."""

import numpy as np

from ..registry import operator
from ..types import I64, STRING
from .reshape import signed


@operator("Slice")
def slicing(d):
    x = d.tensor(d.type(d.schema.inputs[0].type_str), d.shape(least=1))
    axes = d.some(range(x.ndim), least=1)
    by_input = d.version >= 10
    steps = [d.one_of([1, 1, 2, -1, -2, 3]) if by_input else 1 for _ in axes]
    bounds = [
        (d.int(-size - 2, size + 2), d.int(-size - 2, size + 2))
        for size in (x.shape[a] for a in axes)
    ]
    starts, ends = (list(values) for values in zip(*bounds))
    huge = (
        [np.iinfo(np.int32).max, np.iinfo(np.int32).min]
        if d.chance(0.5)
        else [np.iinfo(np.int64).max, np.iinfo(np.int64).min]
    )
    ends = [huge[step < 0] if d.chance(0.2) else end for end, step in zip(ends, steps)]
    all_axes = d.chance(0.3)
    if all_axes:
        axes = list(range(len(axes)))

    def reference(x, *_):
        parts = [slice(None)] * x.ndim
        for axis, start, end, step in zip(axes, starts, ends, steps):
            size = x.shape[axis]
            start, end = (place + size if place < 0 else place for place in (start, end))
            if step > 0:
                start, end = (min(max(place, 0), size) for place in (start, end))
            else:
                start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
            kept = [place for place in range(size) if place in range(start, end, step)]
            parts[axis] = kept[:: -1 if step < 0 else 1]
            x = np.take(x, parts[axis], axis) if kept else x[(slice(None),) * axis + (slice(0, 0),)]
        return x

    given = signed(d, axes, x.ndim, 10)
    if not by_input:
        attributes = d.attributes(starts=starts, ends=ends, axes=None if all_axes else axes)
        return d.case([x], reference, attributes=attributes)
    dtype = d.type("Tind") if max(map(abs, ends)) < 2**31 else I64
    unit = all(step == 1 for step in steps) and d.chance(0.5)
    operands = [
        starts,
        ends,
        None if all_axes and (unit or d.chance(0.5)) else given,
        None if unit else steps,
    ]
    operands = [None if values is None else d.ints(values, dtype) for values in operands]
    return d.case([x, *operands], reference, dynamic=True)


@operator("Pad")
def pad(d):
    mode = d.one_of([None, "constant", "edge", "reflect", "wrap"][: 5 if d.version >= 19 else 4])
    flat = mode in ("edge", "reflect", "wrap")
    x = d.tensor(d.type(), d.shape(least=1, empty=0 if flat else 0.05), extremes=0)
    rank = x.ndim
    axes = d.maybe(d.some(range(rank), least=1)) if d.version >= 18 else None
    padded = axes or range(rank)

    def amount(axis):
        size = x.shape[axis]
        if mode == "reflect":
            return d.int(0, size - 1)
        low = -1 if d.chance(0.2) and size > 2 and not flat else 0
        return d.int(low, 3 if not flat else min(size, 3))

    before, after = [amount(axis) for axis in padded], [amount(axis) for axis in padded]
    value = d.tensor(x.dtype, ()) if d.chance(0.5) else None

    def reference(x, value=None):
        widths = [(0, 0)] * rank
        for place, axis in enumerate(padded):
            widths[axis] = (before[place], after[place])
        cut = tuple(slice(max(-a, 0), size - max(-b, 0)) for (a, b), size in zip(widths, x.shape))
        widths = [(max(a, 0), max(b, 0)) for a, b in widths]
        x = x[cut]
        if flat:
            return np.pad(x, widths, mode)
        nothing = "" if x.dtype == STRING else x.dtype.type(0)
        y = np.full(
            [size + a + b for size, (a, b) in zip(x.shape, widths)],
            nothing if value is None else value.reshape(()),
            x.dtype,
        )
        y[tuple(slice(a, a + size) for size, (a, b) in zip(x.shape, widths))] = x
        return y

    if d.version < 11:
        value = None if value is None else d.float(-2, 2)
        name = "paddings" if d.version == 1 else "pads"
        attributes = d.attributes(mode=mode, value=value, **{name: before + after})
        return d.case(
            [x],
            lambda x: reference(x, None if value is None else np.array(value, x.dtype)),
            attributes=attributes,
        )
    inputs = [x, d.ints(before + after), value]
    if d.version >= 18:
        inputs.append(None if axes is None else d.ints(signed(d, axes, rank), d.type("Tind")))
    return d.case(
        inputs,
        lambda x, pads, value=None, axes=None: reference(x, value),
        attributes=d.attributes(mode=mode),
        dynamic=True,
    )


@operator("Trilu")
def trilu(d):
    x = d.tensor(d.type(), d.shape(least=2))
    upper = d.maybe(d.int(0, 1))
    k = d.maybe(np.array(d.int(-6, 6), I64))

    def reference(x, k=0):
        rows, columns = np.indices(x.shape[-2:])
        kept = columns - rows >= int(k) if upper != 0 else columns - rows <= int(k)
        return np.where(kept, x, "" if x.dtype == STRING else np.zeros((), x.dtype)).astype(x.dtype)

    return d.case(
        [x, k],
        lambda x, k=None: reference(x, 0 if k is None else k),
        attributes=d.attributes(upper=upper),
    )


@operator("ReverseSequence")
def reverse_sequence(d):
    shape = d.shape(least=2, empty=0)
    batch = d.int(0, 1)
    # By default, axis 0 of `input` is the time, and axis 1 the batch.
    attributes = d.attributes(batch_axis=batch, time_axis=1 - batch)
    if batch == 1 and d.chance(0.5):
        attributes = {}
    x = d.tensor(d.type(), shape)
    lengths = d.ints([d.int(1, shape[1 - batch]) for _ in range(shape[batch])])

    def reference(x, lengths):
        y = x.copy()
        for i, length in enumerate(lengths):
            part = (i, slice(0, length)) if batch == 0 else (slice(0, length), i)
            y[part] = x[part][::-1]
        return y

    return d.case([x, lengths], reference, attributes=attributes)
