"""Pooling."""

import numpy as np

from ..registry import operator
from ..types import F64, I64, wide
from .conv import Window


def patches(x, window, axes):
    """For each position of the window, yields the elements below it and the masks of those in the
    image and in the padded image.
    """
    for place in np.ndindex(*(length for *_, length in axes)):
        rows = []
        for at, k, size, (stride, dilation, before, after, _) in zip(
            place, window.kernel, x.shape[2:], axes
        ):
            positions = at * stride - before + np.arange(k) * dilation
            rows.append([(p, 0 <= p < size, p < size + after) for p in positions])
        yield place, rows


def pool(x, window, ceil, function):
    """Applies the function to the elements in the image, and to the number of those in the padded
    image.
    """
    axes = [window.axis(i, size, ceil) for i, size in enumerate(x.shape[2:])]
    y = np.zeros((*x.shape[:2], *(length for *_, length in axes)))
    for place, rows in patches(x, window, axes):
        inside = np.ix_(*([p for p, within, _ in row if within] for row in rows))
        counted = int(np.prod([sum(padded for *_, padded in row) for row in rows]))
        y[(..., *place)] = function(x[(..., *inside)].reshape(*x.shape[:2], -1), counted)
    return y


def settings(d, ceil=True):
    window = Window(d, d.one_of([1, 2, 2, 2, 3]), dilated="dilations" in d.schema.attributes)
    attributes = window.attributes() | {"kernel_shape": window.kernel}
    rounding = d.maybe(d.int(0, 1)) if not window.auto else None
    attributes |= d.attributes(ceil_mode=rounding)
    return window, attributes, bool(attributes.get("ceil_mode"))


@operator("AveragePool")
def average_pool(d):
    window, attributes, ceil = settings(d)
    attributes |= d.attributes(count_include_pad=d.maybe(d.int(0, 1)))
    x = d.tensor(d.type(), [d.int(1, 2), d.int(1, 3), *window.sizes(d)], extremes=0)

    def mean(values, counted):
        return values.sum(-1) / (
            counted if attributes.get("count_include_pad") else values.shape[-1]
        )

    return d.case(
        [x],
        wide(lambda x: pool(x, window, ceil, mean)),
        attributes=attributes,
        symbolic=d.chance(0.3),
    )


@operator("LpPool")
def lp_pool(d):
    window, attributes, ceil = settings(d)
    p = d.one_of([1, 2, 3])
    if d.version == 1:
        attributes["p"] = float(p)
    elif p != 2 or d.chance(0.5):
        attributes["p"] = p
    x = d.tensor(d.type(), [d.int(1, 2), d.int(1, 3), *window.sizes(d)], extremes=0)
    norm = lambda values, _: (np.abs(values) ** p).sum(-1) ** (1 / p)
    return d.case(
        [x],
        wide(lambda x: pool(x, window, ceil, norm)),
        attributes=attributes,
        symbolic=d.chance(0.3),
    )


@operator("MaxPool")
def max_pool(d):
    window, attributes, ceil = settings(d)
    outputs = d.int(1, 2) if d.version >= 8 else 1
    attributes |= d.attributes(storage_order=d.maybe(d.int(0, 1)) if outputs == 2 else None)
    x = d.tensor(
        d.type("T"), [d.int(1, 2), d.int(1, 3), *window.sizes(d)], extremes=0, low=-50, high=50
    )

    def reference(x):
        order = "F" if attributes.get("storage_order") else "C"
        places = np.arange(x[0, 0].size).reshape(x.shape[2:], order=order)
        offsets = (
            np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * window.rank)
            * x[0, 0].size
        )
        places = np.broadcast_to(places, x.shape) + offsets
        wider = x.astype(F64)
        values = pool(wider, window, ceil, lambda values, _: values.max(-1))
        # Of equal elements, the first in row-major order counts.
        ids = np.arange(x.size).reshape(x.shape)
        first = pool(
            ids,
            window,
            ceil,
            lambda at, _: np.take_along_axis(at, wider.reshape(-1)[at].argmax(-1)[..., None], -1)[
                ..., 0
            ],
        )
        indices = places.reshape(-1)[first.astype(int)].astype(I64)
        return (values.astype(x.dtype), indices)[:outputs]

    return d.case([x], reference, outputs=outputs, attributes=attributes, symbolic=d.chance(0.3))


@operator("MaxUnpool")
def max_unpool(d):
    rank = d.int(1, 2)
    kernel = [d.int(1, 3) for _ in range(rank)]
    strides = d.maybe([d.int(1, 3) for _ in range(rank)])
    pads = d.maybe([d.int(0, k // 2) for k in kernel * 2])
    sizes = [d.int(1, 3) for _ in range(rank)]
    around = [a + b for a, b in zip((pads or [0] * 2 * rank), (pads or [0] * 2 * rank)[rank:])]
    full = [(n - 1) * s - p + k for n, s, p, k in zip(sizes, strides or [1] * rank, around, kernel)]
    full = [max(size, n) for size, n in zip(full, sizes)]
    if any(
        (n - 1) * s - p + k < n for n, s, p, k in zip(sizes, strides or [1] * rank, around, kernel)
    ):
        pads, strides, kernel = None, None, [1] * rank
        full = sizes
    x = d.tensor(d.type("T1"), [d.int(1, 2), d.int(1, 2), *sizes], extremes=0)
    larger = d.maybe([size + d.int(0, 2) for size in full])
    # The indices are those of the size that the attributes specify, and all differ.
    each = int(np.prod(full))
    count, images = int(np.prod(sizes)), x.shape[0] * x.shape[1]
    at = np.stack([np.sort(d.rng.permutation(each)[:count]) + i * each for i in range(images)])
    at = at.reshape(x.shape).astype(I64)

    def reference(x, at, shape=None):
        y = np.zeros([*x.shape[:2], *full], x.dtype)
        y.reshape(-1)[at.reshape(-1)] = x.reshape(-1)
        return (
            y if shape is None else np.pad(y, [(0, new - old) for new, old in zip(shape, y.shape)])
        )

    shape = None if larger is None else d.ints([*x.shape[:2], *larger])
    attributes = d.attributes(kernel_shape=kernel, strides=strides, pads=pads)
    return d.case([x, at, shape], reference, attributes=attributes, dynamic=True)


GLOBAL = {
    "GlobalAveragePool": lambda x, axes, p: x.mean(axes, keepdims=True),
    "GlobalMaxPool": lambda x, axes, p: x.max(axes, keepdims=True),
    "GlobalLpPool": lambda x, axes, p: (np.abs(x) ** p).sum(axes, keepdims=True) ** (1 / p),
}


@operator(*GLOBAL)
def global_pool(d):
    x = d.tensor(d.type(), d.shape(least=3, empty=0), extremes=0)
    attributes = d.attributes(p=d.maybe(d.int(1, 3)))
    p = attributes.get("p", 2)
    if d.version == 1 and "p" in attributes:
        attributes["p"] = float(p)
    axes = tuple(range(2, x.ndim))
    return d.case([x], wide(lambda x: GLOBAL[d.op](x, axes, p)), attributes=attributes)


@operator("MaxRoiPool")
def max_roi_pool(d):
    dtype = d.type()
    x = d.tensor(dtype, [d.int(1, 2), d.int(1, 2), d.int(3, 8), d.int(3, 8)], extremes=0)
    pooled = [d.int(1, 3), d.int(1, 3)]
    attributes = {"pooled_shape": pooled} | d.attributes(spatial_scale=d.one_of([None, 0.5, 1.0]))
    scale = attributes.get("spatial_scale", 1.0)
    rois = []
    for _ in range(d.int(1, 3)):
        top, left = d.int(0, int(x.shape[2] / scale) - 1), d.int(0, int(x.shape[3] / scale) - 1)
        bottom, right = d.int(top, int(x.shape[2] / scale) - 1), d.int(
            left, int(x.shape[3] / scale) - 1
        )
        rois.append([d.int(0, x.shape[0] - 1), left, top, right, bottom])

    def reference(x, rois):
        y = np.zeros((len(rois), x.shape[1], *pooled), x.dtype)
        for r, (image, left, top, right, bottom) in enumerate(rois.astype(F64)):
            # A region's corners are rounded, halves away from zero, and belong to it.
            left, top, right, bottom = (
                int(np.floor(v * scale + 0.5)) for v in (left, top, right, bottom)
            )
            height, width = max(bottom - top + 1, 1), max(right - left + 1, 1)
            for i, j in np.ndindex(*pooled):
                rows = bounds(i, height, pooled[0], top, x.shape[2])
                columns = bounds(j, width, pooled[1], left, x.shape[3])
                part = x[int(image), :, slice(*rows), slice(*columns)]
                y[r, :, i, j] = part.reshape(x.shape[1], -1).max(1) if part.size else 0
        return y

    return d.case([x, np.array(rois, dtype)], reference, attributes=attributes)


def bounds(i, length, parts, start, size):
    """Returns the pixels of a part of a region along an axis."""
    low, high = np.floor(i * length / parts), np.ceil((i + 1) * length / parts)
    return [int(min(max(v + start, 0), size)) for v in (low, high)]
