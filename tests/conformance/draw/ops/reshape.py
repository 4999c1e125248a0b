"""Reshaping, and operators on shapes."""

import numpy as np

from ..registry import operator
from ..types import I64


def signed(d, axes, rank, version=11):
    """Returns the axes, some of them negative if this version allows it."""
    return [axis - rank if d.version >= version and d.chance(0.4) else axis for axis in axes]


@operator("Identity")
def identity(d):
    return d.case([d.tensor(d.type(d.schema.inputs[0].type_str))], lambda x: x)


@operator("Reshape")
def reshape(d):
    x = d.tensor(d.type(), d.shape(empty=0.1))
    factors = [size for size in x.shape if size != 1] or [1]
    target = [
        int(np.prod(part)) for part in np.array_split(np.array(factors), d.int(1, len(factors) + 1))
    ]
    if d.chance(0.3):
        target = list(x.shape)
    attributes = d.attributes(allowzero=1 if 0 in target else d.maybe(0))
    if x.size and d.chance(0.4) and target:
        target[d.int(0, len(target) - 1)] = -1
    if x.size and "allowzero" not in attributes:
        target = [
            0 if i < x.ndim and x.shape[i] == size and d.chance(0.4) else size
            for i, size in enumerate(target)
        ]
    if x.size == 0 and "allowzero" not in d.schema.attributes:
        target = [0 if i < x.ndim else 1 for i in range(x.ndim)]

    def reference(x, shape):
        keep = not attributes.get("allowzero")
        return x.reshape(
            [x.shape[i] if size == 0 and keep else size for i, size in enumerate(shape)]
        )

    if d.version < 5:
        attributes |= d.attributes(shape=target, consumed_inputs=d.maybe([0]))
        return d.case([x], lambda x: reference(x, target), attributes=attributes)
    return d.case([x, d.ints(target)], reference, attributes=attributes, dynamic=True)


@operator("Flatten")
def flatten(d):
    x = d.tensor(d.type(), d.shape(least=0 if d.version >= 9 else 1))
    axis = d.int(-x.ndim if d.version >= 11 else 0, x.ndim)
    attributes = d.attributes(axis=axis if x.ndim == 0 else d.maybe(axis, 0.7))
    axis = attributes.get("axis", 1)
    axis += x.ndim if axis < 0 else 0
    rows = lambda x: int(np.prod(x.shape[:axis]))
    return d.case(
        [x], lambda x: x.reshape(rows(x), int(np.prod(x.shape[axis:]))), attributes=attributes
    )


def with_axes(d, x, axes, reference):
    """Returns a case with axes in an input, or in an attribute in old versions."""
    if "axes" in d.schema.attributes:
        return d.case(
            [x], lambda x: reference(x, axes), attributes={"axes": axes} if axes is not None else {}
        )
    return d.case([x, None if axes is None else d.ints(axes)], reference, constant=(1,))


@operator("Squeeze")
def squeeze(d):
    shape = d.shape(most=3)
    for _ in range(d.int(1, 2)):
        place = d.int(0, len(shape))
        shape = (*shape[:place], 1, *shape[place:])
    ones = [i for i, size in enumerate(shape) if size == 1]
    axes = d.maybe(signed(d, d.some(ones, least=1), len(shape)), 0.7)
    reference = lambda x, axes=None: np.squeeze(
        x, None if axes is None else tuple(int(axis) for axis in axes)
    )
    case = with_axes(d, d.tensor(d.type(), shape), axes, reference)
    case.symbolic &= axes is not None
    return case


@operator("Unsqueeze")
def unsqueeze(d):
    x = d.tensor(d.type(), d.shape(most=3))
    rank = x.ndim + d.int(1, 2)
    axes = signed(d, d.some(range(rank), least=rank - x.ndim)[: rank - x.ndim], rank)
    return with_axes(
        d, x, axes, lambda x, axes: np.expand_dims(x, tuple(int(axis) for axis in axes))
    )


@operator("Shape")
def shape(d):
    x = d.tensor(d.type())
    bound = lambda: d.maybe(d.int(-x.ndim - 2, x.ndim + 2))
    attributes = d.attributes(start=bound(), end=bound())

    def clamp(place, rank):
        return min(max(place + rank if place < 0 else place, 0), rank)

    def reference(x):
        start, end = attributes.get("start", 0), attributes.get("end", x.ndim)
        return np.array(x.shape[clamp(start, x.ndim) : clamp(end, x.ndim)], I64)

    return d.case([x], reference, attributes=attributes)


@operator("Size")
def size(d):
    return d.case([d.tensor(d.type())], lambda x: np.array(x.size, I64))


@operator("Transpose")
def transpose(d):
    x = d.tensor(d.type(), d.shape(most=5))
    permutation = d.maybe([int(i) for i in d.rng.permutation(x.ndim)], 0.8)
    return d.case(
        [x],
        lambda x: np.transpose(x, permutation),
        attributes=d.attributes(perm=permutation or None),
    )


def blocks(d):
    """Returns the side of a block, and the sizes of an image of such blocks."""
    side = d.int(1, 3)
    return side, [d.int(1, 2), side * side * d.int(1, 2), d.int(1, 3), d.int(1, 3)]


@operator("DepthToSpace")
def depth_to_space(d):
    side, shape = blocks(d)
    attributes = d.attributes(blocksize=side, mode=d.one_of([None, "DCR", "CRD"]))

    def reference(x):
        n, c, h, w = x.shape
        c //= side * side
        if attributes.get("mode") == "CRD":
            x = x.reshape(n, c, side, side, h, w).transpose(0, 1, 4, 2, 5, 3)
        else:
            x = x.reshape(n, side, side, c, h, w).transpose(0, 3, 4, 1, 5, 2)
        return x.reshape(n, c, h * side, w * side)

    return d.case([d.tensor(d.type(), shape)], reference, attributes=attributes)


@operator("SpaceToDepth")
def space_to_depth(d):
    side, (n, c, h, w) = blocks(d)
    attributes = d.attributes(blocksize=side, mode=d.one_of([None, "DCR", "CRD"]))

    def reference(x):
        n, c, h, w = x.shape
        x = x.reshape(n, c, h // side, side, w // side, side)
        order = (0, 1, 3, 5, 2, 4) if attributes.get("mode") == "CRD" else (0, 3, 5, 1, 2, 4)
        return x.transpose(order).reshape(n, c * side * side, h // side, w // side)

    return d.case(
        [d.tensor(d.type(), [n, c, h * side, w * side])], reference, attributes=attributes
    )


@operator("Expand")
def expand(d):
    shape = d.shape()
    x = d.tensor(d.type(), d.broadcast(shape))
    # The target shape may itself be broadcast.
    target = [1 if d.chance(0.2) else size for size in shape]
    target = target[d.int(0, len(target)) :]
    reference = lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape)))
    return d.case([x, d.ints(target)], reference, dynamic=True)


@operator("Tile")
def tile(d):
    if d.version < 6:
        x = d.tensor(d.type(), d.shape(least=1))
        axis = d.int(0, x.ndim - 1)
        count = d.int(1, 3)
        tiles, axes = np.array([count], x.dtype), np.array([axis], x.dtype)
        reference = lambda x, tiles, axis: np.concatenate([x] * int(tiles[0]), int(axis[0]))
        return d.case([x, tiles, axes], reference, constant=(1, 2))
    x = d.tensor(d.type("T"))
    repeats = [d.int(0 if d.chance(0.1) else 1, 3) for _ in range(x.ndim)]
    return d.case([x, d.ints(repeats)], lambda x, repeats: np.tile(x, repeats), dynamic=True)


@operator("Concat")
def concat(d):
    shape = list(d.shape(least=1))
    axis = d.axis(len(shape)) if d.version >= 11 else d.int(0, len(shape) - 1)
    dtype = d.type()
    parts = []
    for _ in range(d.int(1, 4)):
        shape[axis] = d.int(0 if d.chance(0.2) else 1, 4)
        parts.append(d.tensor(dtype, shape))
    # The first version had a default.
    attributes = {} if d.version < 4 and axis == 1 and d.chance(0.5) else {"axis": axis}
    return d.case(parts, lambda *parts: np.concatenate(parts, axis), attributes=attributes)


@operator("Split")
def split(d):
    shape = list(d.shape(least=1, empty=0))
    axis = d.axis(len(shape)) if d.version >= 11 else d.int(0, len(shape) - 1)
    count = d.int(1, 3)
    attributes = d.attributes(axis=axis)
    sizes = [d.int(0 if d.version >= 11 and d.chance(0.2) else 1, 3) for _ in range(count)]
    if d.chance(0.5):
        sizes = [sizes[0] or 1] * count
        # From version 18 on, the last part may be smaller.
        if "num_outputs" in d.schema.attributes and sizes[0] > 1:
            sizes[-1] -= d.int(0, 1)
        shape[axis] = sum(sizes)
        given = None
        attributes |= d.attributes(num_outputs=count)
    else:
        shape[axis] = sum(sizes)
        given = sizes
    x = d.tensor(d.type(), shape)
    reference = lambda x, *_: tuple(np.split(x, np.cumsum(sizes)[:-1], axis))
    if "split" in d.schema.attributes:
        return d.case(
            [x], reference, outputs=count, attributes=attributes | d.attributes(split=given)
        )
    given = (
        given
        if given is None
        else d.ints(given, d.schema.inputs[1].type_str == "T" and x.dtype or I64)
    )
    return d.case([x, given], reference, outputs=count, attributes=attributes, dynamic=True)


@operator("CenterCropPad")
def center_crop_pad(d):
    x = d.tensor(d.type(), d.shape(least=1, empty=0), extremes=0)
    axes = d.maybe(d.some(range(x.ndim), least=1))
    target = [d.int(1, 7) for _ in (axes or x.shape)]

    def reference(x, target):
        for axis, size in zip(axes or range(x.ndim), target):
            old = x.shape[axis]
            shape = [*x.shape[:axis], size, *x.shape[axis + 1 :]]
            y = np.zeros(shape, x.dtype) if x.dtype != object else np.full(shape, "", object)
            # An odd element is cut or added at the end.
            cut, added = max(old - size, 0) // 2, max(size - old, 0) // 2
            length = min(old, size)
            before = (slice(None),) * axis
            y[(*before, slice(added, added + length))] = x[(*before, slice(cut, cut + length))]
            x = y
        return x

    attributes = {"axes": signed(d, axes, x.ndim)} if axes else {}
    return d.case([x, d.ints(target)], reference, attributes=attributes, dynamic=True)
