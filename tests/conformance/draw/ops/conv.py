"""Convolutions."""

import math

import numpy as np

from ..registry import operator
from ..types import BY_NAME, F32, F64, NUMBERS, wide
from .matmul import less, saturated


class Window:
    """A random window over the spatial axes of an image."""

    def __init__(self, d, rank, dilated=True, auto=True, padded=True):
        self.rank = rank
        self.kernel = [d.int(1, 3) for _ in range(rank)]
        self.strides = d.maybe([d.int(1, 3) for _ in range(rank)])
        self.dilations = d.maybe([d.int(1, 2) for _ in range(rank)]) if dilated else None
        self.auto = (
            d.one_of(["SAME_UPPER", "SAME_LOWER", "VALID"]) if auto and d.chance(0.3) else None
        )
        if self.auto and self.auto != "VALID":
            self.dilations = None
        self.pads = (
            d.maybe([d.int(0, size - 1) for size in self.kernel * 2])
            if padded and not self.auto
            else None
        )

    def attributes(self):
        auto = self.auto
        values = {
            "strides": self.strides,
            "dilations": self.dilations,
            "pads": self.pads,
            "auto_pad": auto,
        }
        return {name: value for name, value in values.items() if value is not None}

    def axis(self, i, size, ceil=False):
        """Returns the stride, dilation, padding before and after, and output size of an axis."""
        stride = self.strides[i] if self.strides else 1
        dilation = self.dilations[i] if self.dilations else 1
        reach = (self.kernel[i] - 1) * dilation + 1
        before, after = (self.pads[i], self.pads[i + self.rank]) if self.pads else (0, 0)
        if self.auto in ("SAME_UPPER", "SAME_LOWER"):
            total = max((math.ceil(size / stride) - 1) * stride + reach - size, 0)
            before = total // 2 if self.auto == "SAME_UPPER" else total - total // 2
            after = total - before
        places = (size + before + after - reach) / stride
        length = (math.ceil(places) if ceil else math.floor(places)) + 1
        if ceil and (length - 1) * stride >= size + before:
            length -= 1
        return stride, dilation, before, after, length

    def sizes(self, d, extra=4):
        """Returns sizes of an image that the window fits into."""
        reach = [
            (k - 1) * (self.dilations[i] if self.dilations else 1) + 1
            for i, k in enumerate(self.kernel)
        ]
        return [d.int(size, size + extra) for size in reach]


def correlate(x, w, window, group=1):
    """Convolves `x` `[N, C, ...]` with `w` `[M, C / group, ...]`, by the definition."""
    axes = [window.axis(i, size) for i, size in enumerate(x.shape[2:])]
    padded = np.pad(x, [(0, 0), (0, 0), *((before, after) for _, _, before, after, _ in axes)])
    n, m, each = x.shape[0], w.shape[0], w.shape[0] // group
    y = np.zeros((n, m, *(length for *_, length in axes)), np.result_type(x, w))
    for place in np.ndindex(y.shape[2:]):
        part = padded[
            (
                ...,
                *(
                    slice(at * stride, at * stride + (k - 1) * dilation + 1, dilation)
                    for at, k, (stride, dilation, *_) in zip(place, w.shape[2:], axes)
                ),
            )
        ]
        for c in range(m):
            first = c // each * w.shape[1]
            y[(slice(None), c, *place)] = (
                (part[:, first : first + w.shape[1]] * w[c]).reshape(n, -1).sum(1)
            )
    return y


def drawn(d, dtypes, bounds=(-4, 4)):
    """Returns a window, its groups, an image and its weights."""
    window = Window(d, d.one_of([1, 2, 2, 2, 3]))
    group = d.one_of([1, 1, 2, 3])
    channels, features = group * d.int(1, 2), group * d.int(1, 3)
    x = d.tensor(dtypes[0], [d.int(1, 2), channels, *window.sizes(d)], *bounds, 0)
    w = d.tensor(dtypes[1], [features, channels // group, *window.kernel], *bounds, 0)
    attributes = window.attributes() | ({"group": group} if group > 1 or d.chance(0.3) else {})
    return (
        window,
        group,
        x,
        w,
        attributes | ({"kernel_shape": window.kernel} if d.chance(0.6) else {}),
    )


@operator("Conv")
def conv(d):
    dtype = d.type()
    window, group, x, w, attributes = drawn(d, (dtype, dtype))
    bias = d.maybe(d.tensor(dtype, [w.shape[0]], extremes=0))

    def reference(x, w, b=None):
        y = correlate(x, w, window, group)
        return y if b is None else y + b.reshape(-1, *[1] * window.rank)

    return d.case([x, w, bias], wide(reference), attributes=attributes, symbolic=d.chance(0.3))


@operator("ConvInteger")
def conv_integer(d):
    kinds = d.type("T1"), d.type("T2")
    window, group, x, w, attributes = drawn(d, kinds, (-128, 255))
    x_zero = d.maybe(d.tensor(kinds[0], (), -9, 9))
    w_zero = d.maybe(d.tensor(kinds[1], d.one_of([(), (w.shape[0],)]), -9, 9))
    reference = lambda x, w, a=None, b=None: correlate(less(x, a, 0), less(w, b, 0), window, group)
    return d.case([x, w, x_zero, w_zero], reference, attributes=attributes, symbolic=d.chance(0.3))


@operator("QLinearConv")
def qlinear_conv(d):
    kinds = [d.type(name) for name in ("T1", "T2", "T3")]
    window, group, x, w, attributes = drawn(d, kinds, (-100, 100))
    each = d.one_of([(), (w.shape[0],)])
    scale = lambda shape=(): np.array(2.0 ** d.rng.integers(-6, 0, shape), F32)
    zeros = [d.tensor(kind, shape, -9, 9) for kind, shape in zip(kinds, ((), each, ()))]
    # Constant weights run in other kernels, which keep the zero points that do not fit.
    constant = d.one_of([(), range(1, 8)])
    if d.chance(0.5):
        zeros[1] = d.tensor(kinds[1], each, -128, 255, 0)
    bias = d.maybe(d.tensor(BY_NAME["int32"], [w.shape[0]], -500, 500, 0))
    inputs = [
        x,
        scale(),
        zeros[0],
        w,
        scale(each),
        zeros[1],
        np.float32(2.0 ** d.int(-2, 4)),
        zeros[2],
        bias,
    ]

    def reference(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias=None):
        channels = (-1, *[1] * window.rank)
        y = correlate(less(x, x_zero, 0), less(w, w_zero, 0), window, group).astype(F64)
        y = y if bias is None else y + bias.reshape(channels)
        factor = (
            x_scale.astype(F64)
            * (w_scale.astype(F64).reshape(channels) if w_scale.ndim else w_scale)
            / y_scale
        )
        return saturated(np.rint(y * factor) + int(y_zero), y_zero.dtype)

    symbolic = d.chance(0.3)
    return d.case(inputs, reference, constant=constant, attributes=attributes, symbolic=symbolic)


@operator("ConvTranspose")
def conv_transpose(d):
    dtype = d.type()
    rank = d.one_of([1, 2, 2, 3])
    window = Window(d, rank, auto=False)
    group = d.one_of([1, 1, 2])
    channels, features = group * d.int(1, 2), d.int(1, 3)
    strides, dilations = window.strides or [1] * rank, window.dilations or [1] * rank
    sizes = [d.int(1, 4) for _ in range(rank)]
    extra = (
        [d.int(0, max(stride, dilation) - 1) for stride, dilation in zip(strides, dilations)]
        if d.chance(0.4)
        else None
    )
    reach = [
        s * (n - 1) + (k - 1) * a + 1
        for s, n, k, a in zip(strides, sizes, window.kernel, dilations)
    ]
    attributes = window.attributes() | {"group": group}
    pads = window.pads or [0] * 2 * rank
    added = extra or [0] * rank
    auto = d.one_of([None, None, "SAME_UPPER", "SAME_LOWER", "VALID"])
    if auto or d.chance(0.2):
        attributes.pop("pads", None)
        pads = [0] * 2 * rank
    if auto == "VALID":
        attributes["auto_pad"] = auto
    elif auto or d.chance(0.2):
        # The size of the output is given, and the padding follows from it.
        shape = [s * n for s, n in zip(strides, sizes)]
        if not auto:
            shape = [size - d.int(0, min(2, size - 1)) for size in reach]
            attributes["output_shape"] = shape
        else:
            attributes["auto_pad"] = auto
        if any(r + a < s for r, a, s in zip(reach, added, shape)):
            extra, added = (
                [max(s - r, 0) for s, r in zip(shape, reach)],
                [max(s - r, 0) for s, r in zip(shape, reach)],
            )
        total = [r + a - s for r, a, s in zip(reach, added, shape)]
        before = [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total]
        pads = before + [t - b for t, b in zip(total, before)]
        attributes.pop("pads", None)
    if extra and any(extra):
        attributes["output_padding"] = extra
    else:
        added = [0] * rank
    if any(r + a <= b + e for r, a, b, e in zip(reach, added, pads, pads[rank:])):
        attributes.pop("pads", None)
        pads = [0] * 2 * rank
    if d.chance(0.5):
        attributes["kernel_shape"] = window.kernel

    def reference(x, w, bias=None):
        full = np.zeros((x.shape[0], features * group, *(r + a for r, a in zip(reach, added))))
        for at in np.ndindex(*x.shape[2:]):
            to = tuple(
                slice(p * s, p * s + (k - 1) * a + 1, a)
                for p, s, k, a in zip(at, strides, window.kernel, dilations)
            )
            for c in range(channels):
                first = c // (channels // group) * features
                full[(slice(None), slice(first, first + features), *to)] += (
                    x[(slice(None), c, *at)].reshape(-1, *[1] * (rank + 1)) * w[c]
                )
        y = full[
            (..., *(slice(b, size - e) for b, e, size in zip(pads, pads[rank:], full.shape[2:])))
        ]
        return y if bias is None else y + bias.reshape(-1, *[1] * rank)

    x = d.tensor(dtype, [d.int(1, 2), channels, *sizes], extremes=0)
    w = d.tensor(dtype, [channels, features, *window.kernel], extremes=0)
    bias = d.maybe(d.tensor(dtype, [features * group], extremes=0))
    return d.case([x, w, bias], wide(reference), attributes=attributes, symbolic=d.chance(0.3))


@operator("DeformConv")
def deform_conv(d):
    dtype = d.type()
    window = Window(d, 2, auto=False)
    group, offsets = d.one_of([1, 2]), d.one_of([1, 2])
    channels, features = 2 * d.int(1, 2), group * d.int(1, 2)
    x = d.tensor(dtype, [d.int(1, 2), channels, *window.sizes(d)], extremes=0)
    w = d.tensor(dtype, [features, channels // group, *window.kernel], extremes=0)
    places = [window.axis(i, size)[-1] for i, size in enumerate(x.shape[2:])]
    taps = window.kernel[0] * window.kernel[1]
    offset = d.tensor(dtype, [x.shape[0], offsets * taps * 2, *places], -1.5, 1.5, 0)
    bias = d.maybe(d.tensor(dtype, [features], extremes=0))
    mask = d.maybe(d.tensor(dtype, [x.shape[0], offsets * taps, *places], 0, 1, 0))
    attributes = window.attributes() | {"group": group, "offset_group": offsets}
    axes = [window.axis(i, size) for i, size in enumerate(x.shape[2:])]

    def sample(image, y, x):
        """Interpolates the image between its pixels, with zeros outside."""
        total = 0.0
        for row in (math.floor(y), math.floor(y) + 1):
            for column in (math.floor(x), math.floor(x) + 1):
                if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
                    total += image[row, column] * (1 - abs(y - row)) * (1 - abs(x - column))
        return total

    def reference(x, w, offset, bias=None, mask=None):
        y = np.zeros((x.shape[0], features, *places))
        per, each = channels // group, channels // offsets
        for n, m, i, j in np.ndindex(y.shape):
            for c in range(per):
                channel = m // (features // group) * per + c
                for a, b in np.ndindex(*window.kernel):
                    tap = channel // each * taps + a * window.kernel[1] + b
                    row, column = (
                        at * stride - before + k * dilation + offset[n, 2 * tap + axis, i, j]
                        for axis, (at, k, (stride, dilation, before, *_)) in enumerate(
                            zip((i, j), (a, b), axes)
                        )
                    )
                    value = sample(x[n, channel], row, column) * w[m, c, a, b]
                    y[n, m, i, j] += value if mask is None else value * mask[n, tap, i, j]
        return y if bias is None else y + bias.reshape(-1, 1, 1)

    return d.case(
        [x, w, offset, bias, mask], wide(reference), attributes=attributes, symbolic=d.chance(0.3)
    )


@operator("CausalConvWithState")
def causal_conv(d):
    dtype = d.type()
    batch, channels, length, k = d.int(1, 2), d.int(1, 3), d.int(1, 5), d.int(1, 4)
    x, w = (
        d.tensor(dtype, [batch, channels, length], extremes=0),
        d.tensor(dtype, [channels, 1, k], extremes=0),
    )
    bias = d.maybe(d.tensor(dtype, [channels], extremes=0))
    past = d.maybe(d.tensor(dtype, [batch, channels, k - 1], extremes=0))
    return d.case(
        [x, w, bias, past],
        outputs=2,
        attributes=d.attributes(activation=d.one_of([None, "none", "silu", "swish"])),
    )


@operator("Col2Im")
def col2im(d):
    window = Window(d, d.int(1, 3), auto=False)
    image = window.sizes(d)
    places = [window.axis(i, size)[-1] for i, size in enumerate(image)]
    taps, channels = math.prod(window.kernel), d.int(1, 3)
    # Sums of text are undefined; complex numbers are not supported.
    dtype = d.type(among=NUMBERS)
    x = d.tensor(dtype, [d.int(1, 2), channels * taps, math.prod(places)], extremes=0)
    axes = [window.axis(i, size) for i, size in enumerate(image)]
    # Sums are accumulated in the type itself.
    tolerance = (5e-2, 1e-1) if dtype.itemsize == 2 else None

    def reference(x, image, block):
        y = np.zeros((x.shape[0], channels, *image), x.dtype)
        columns = x.reshape(x.shape[0], channels, *block, *places)
        for tap in np.ndindex(*block):
            for place in np.ndindex(*places):
                at = [
                    p * stride - before + t * dilation
                    for p, t, (stride, dilation, before, *_) in zip(place, tap, axes)
                ]
                if all(0 <= a < size for a, size in zip(at, image)):
                    y[(..., *at)] = y[(..., *at)] + columns[(..., *tap, *place)]
        return y

    attributes = window.attributes()
    return d.case(
        [x, d.ints(image), d.ints(window.kernel)],
        wide(reference),
        attributes=attributes,
        dynamic=True,
        tolerance=tolerance,
    )
