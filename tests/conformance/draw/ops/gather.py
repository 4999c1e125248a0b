"""Gathering and scattering of elements by indices."""

import numpy as np

from ..registry import operator
from ..types import BOOL, I64, NUMBERS, STRING


def places(d, size, shape, dtype=I64, negative=True):
    """Returns indices along an axis of this size, counted from either end."""
    return d.integers(dtype, shape, -size if negative else 0, size - 1)


def index_type(d):
    return d.type("Tind")


@operator("Gather")
def gather(d):
    x = d.tensor(d.type(), d.shape(least=1, empty=0))
    axis = d.axis(x.ndim) if d.version >= 11 else d.int(0, x.ndim - 1)
    attributes = d.attributes(axis=axis if axis else d.maybe(axis))
    at = places(d, x.shape[axis], d.shape(most=2, empty=0.1), index_type(d), d.version >= 11)
    return d.case([x, at], lambda x, at: np.take(x, at.astype(int), axis), attributes=attributes)


def elements(d, empty=0.0):
    """Returns a tensor, an axis, and indices along it in a tensor that is not larger along other
    axes.
    """
    x = d.tensor(d.type(), d.shape(least=1, empty=0))
    axis = d.axis(x.ndim) if d.version >= 11 else d.int(0, x.ndim - 1)
    shape = [d.int(1, size) if d.chance(0.4) else size for size in x.shape]
    return x, axis, shape


@operator("GatherElements")
def gather_elements(d):
    x, axis, shape = elements(d)
    shape[axis] = d.int(0 if d.chance(0.1) else 1, 6)
    at = places(d, x.shape[axis], shape, index_type(d))

    def reference(x, at):
        where = np.indices(at.shape)
        where[axis] = at
        return x[tuple(where)]

    return d.case([x, at], reference, attributes=d.attributes(axis=axis if axis else d.maybe(axis)))


def nd_places(d, shape, batch):
    """Returns a tensor of multi-dimensional indices, after `batch` common axes."""
    depth = d.int(1, len(shape) - batch)
    outer = [*shape[:batch], *d.shape(most=2, size=(1, 4), empty=0)]
    parts = [places(d, shape[batch + i], outer, I64) for i in range(depth)]
    return np.stack(parts, -1)


@operator("GatherND")
def gather_nd(d):
    x = d.tensor(d.type(), d.shape(least=1, empty=0))
    batch = d.int(0, x.ndim - 1) if d.version >= 12 else 0
    at = nd_places(d, x.shape, batch)

    def reference(x, at):
        kept = x.shape[batch + at.shape[-1] :]
        result = [x[(*where[:batch], *at[where])] for where in np.ndindex(at.shape[:-1])]
        return np.array(result, x.dtype).reshape(at.shape[:-1] + kept)

    return d.case(
        [x, at],
        reference,
        attributes=d.attributes(batch_dims=batch if batch else d.maybe(0)),
        fixed=(1,),
    )


REDUCE = {
    "none": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def reduction(d, x):
    """Returns a reduction, if this version has one."""
    names = {16: ["none", "add", "mul"], 18: list(REDUCE)}.get(d.version, ["none"])
    if x.dtype in (STRING,) or x.dtype.kind == "c" or x.dtype == BOOL:
        names = ["none"]
    name = d.one_of(names)
    return name, d.attributes(reduction=name if name != "none" else d.maybe(name))


def calm(d, x):
    """Replaces a tensor by small numbers: sums of extreme numbers depend on the order."""
    return d.tensor(x.dtype, x.shape, low=-2, high=3, extremes=0) if x.dtype in NUMBERS else x


@operator("Scatter", "ScatterElements")
def scatter_elements(d):
    x, axis, shape = elements(d)
    x = calm(d, x)
    how, attributes = reduction(d, x)
    shape[axis] = d.int(1, x.shape[axis])
    if how == "none":
        # An element may be written only once.
        order = d.rng.permuted(
            np.broadcast_to(
                np.expand_dims(np.arange(x.shape[axis]), tuple(range(1, x.ndim))),
                (x.shape[axis], *np.delete(shape, axis)),
            ),
            axis=0,
        )
        at = np.moveaxis(order, 0, axis)[tuple(slice(0, size) for size in shape)].copy()
        if d.version >= 11 and d.op != "Scatter":
            at = np.where(d.rng.random(at.shape) < 0.3, at - x.shape[axis], at)
        at = at.astype(index_type(d))
    else:
        at = places(d, x.shape[axis], shape, index_type(d))
    updates = calm(d, d.tensor(x.dtype, shape))

    def reference(x, at, updates):
        y = x.copy()
        with np.errstate(all="ignore"):
            for where in np.ndindex(at.shape):
                place = list(where)
                place[axis] = at[where]
                y[tuple(place)] = REDUCE[how](y[tuple(place)], updates[where])
        return y

    return d.case(
        [x, at, updates],
        reference,
        attributes=attributes | d.attributes(axis=axis if axis else d.maybe(0)),
    )


@operator("ScatterND")
def scatter_nd(d):
    x = calm(d, d.tensor(d.type(), d.shape(least=1, empty=0)))
    how, attributes = reduction(d, x)
    at = nd_places(d, x.shape, 0)
    if how == "none":
        flat = at.reshape(-1, at.shape[-1])
        _, first = np.unique(flat % np.array(x.shape[: at.shape[-1]]), axis=0, return_index=True)
        at = flat[np.sort(first)]
    updates = calm(d, d.tensor(x.dtype, at.shape[:-1] + x.shape[at.shape[-1] :]))

    def reference(x, at, updates):
        y = x.copy()
        with np.errstate(all="ignore"):
            for where in np.ndindex(at.shape[:-1]):
                y[tuple(at[where])] = REDUCE[how](y[tuple(at[where])], updates[where])
        return y

    return d.case([x, at, updates], reference, attributes=attributes, fixed=(1,))


@operator("TensorScatter")
def tensor_scatter(d):
    shape = d.shape(least=3, most=4, empty=0)
    axis = d.int(1, len(shape) - 1)
    mode = d.one_of([None, "linear", "circular"])
    length = d.int(1, shape[axis])
    space = shape[axis] - (0 if mode == "circular" else length)
    at = d.maybe(
        d.ints(
            [
                d.int(0, max(space, 0) if mode != "circular" else shape[axis] - 1)
                for _ in range(shape[0])
            ]
        ),
        0.8,
    )
    dtype = d.type()
    update = d.tensor(dtype, [*shape[:axis], length, *shape[axis + 1 :]])

    def reference(past, update, at=None):
        y = past.copy()
        for i in range(shape[0]):
            start = 0 if at is None else int(at[i])
            for j in range(length):
                place = (start + j) % shape[axis]
                y[(i, *[slice(None)] * (axis - 1), place)] = update[
                    (i, *[slice(None)] * (axis - 1), j)
                ]
        return y

    given = axis - len(shape) if d.chance(0.5) else axis
    return d.case(
        [d.tensor(dtype, shape), update, at],
        reference,
        attributes=d.attributes(mode=mode, axis=given),
    )
