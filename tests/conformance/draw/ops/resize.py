"""Resizing of images."""

import math

import numpy as np

from ..registry import operator
from ..types import BF16, F16, F32, F64, NUMBERS, is_float, limits

COORDINATES = (
    "half_pixel",
    "asymmetric",
    "align_corners",
    "pytorch_half_pixel",
    "tf_crop_and_resize",
    "half_pixel_symmetric",
)


class Axis:
    """The resizing of one axis."""

    def __init__(self, size, to, scale, roi, options):
        self.size, self.to, self.scale, self.roi, self.options = size, to, scale, roi, options

    def place(self, x):
        """Returns the coordinate in the image for an index of the output."""
        # If the sizes are rounded, the coordinates depend on the unrounded length.
        mode, n, m, scale = (
            self.options["coordinates"],
            self.size,
            round(self.size * self.scale, 9),
            self.scale,
        )
        if mode == "asymmetric":
            return x / scale
        if mode == "align_corners":
            return 0.0 if m == 1 else x * (n - 1) / (m - 1)
        if mode == "pytorch_half_pixel" and m == 1:
            return 0.0
        if mode == "tf_crop_and_resize":
            start, end = self.roi
            return (
                (start * (n - 1) + x * (end - start) * (n - 1) / (m - 1))
                if m > 1
                else (start + end) * (n - 1) / 2
            )
        shift = n / 2 * (1 - self.to / (n * scale)) if mode == "half_pixel_symmetric" else 0
        return shift + (x + 0.5) / scale - 0.5

    def nearest(self, at):
        # Rounding distinguishes ties from values near them.
        at = round(at, 9)
        rounding = {
            "round_prefer_floor": math.ceil(at - 0.5),
            "round_prefer_ceil": math.floor(at + 0.5),
            "floor": math.floor(at),
            "ceil": math.ceil(at),
            # The specification of the first version does not define it; implementations do this.
            "simple": math.ceil(at) if self.scale < 1 else math.floor(at),
        }
        return {min(max(rounding[self.options["rounding"]], 0), self.size - 1): 1.0}

    def weight(self, distance):
        distance = abs(distance)
        if self.options["mode"] == "linear":
            return max(1 - distance, 0)
        a = self.options["a"]
        if distance <= 1:
            return (a + 2) * distance**3 - (a + 3) * distance**2 + 1
        return a * (distance**3 - 5 * distance**2 + 8 * distance - 4) if distance < 2 else 0

    def weights(self, x):
        """Returns the pixels that contribute to an output pixel, with their weights."""
        at = self.place(x)
        if self.options["mode"] == "nearest":
            return self.nearest(at)
        shrinkage = min(self.scale, 1) if self.options["antialias"] else 1
        reach = {"linear": 1, "cubic": 2}[self.options["mode"]] / shrinkage
        taps = [
            (i, self.weight((i - at) * shrinkage))
            for i in range(math.floor(at - reach), math.ceil(at + reach) + 1)
        ]
        if self.options["exclude_outside"]:
            taps = [(i, weight) for i, weight in taps if 0 <= i < self.size]
        total = sum(weight for _, weight in taps) or math.nan
        found = {}
        for i, weight in taps:
            pixel = min(max(i, 0), self.size - 1)
            found[pixel] = found.get(pixel, 0) + weight / total
        return found

    def is_outside(self, x):
        at = self.place(x)
        return (
            self.options["coordinates"] == "tf_crop_and_resize"
            and not 0 <= round(at, 9) <= self.size - 1
        )

    def near_a_tie(self):
        """Whether the nearest pixel depends on the last bits of a coordinate, except for exact
        ties.
        """
        steps = [self.place(x) * 2 for x in range(self.to)]
        return any(1e-12 < abs(step - round(step)) < 1e-5 for step in steps)


def resized(x, axes, extrapolation):
    """Resizes the image axis by axis."""
    outside = np.zeros([axis.to for axis in axes], bool)
    for i, axis in enumerate(axes):
        matrix = np.zeros((axis.to, axis.size))
        for place in range(axis.to):
            for pixel, weight in axis.weights(place).items():
                matrix[place, pixel] = weight
        x = np.moveaxis(np.tensordot(matrix, x, (1, i)), 0, i)
        shape = [1] * len(axes)
        shape[i] = -1
        outside |= np.array([axis.is_outside(place) for place in range(axis.to)], bool).reshape(
            shape
        )
    return np.where(outside, extrapolation, x)


def as_pixels(x, dtype):
    """Converts numbers to pixels: integers are truncated and clamped to the range of their type."""
    if is_float(dtype):
        return x.astype(dtype)
    return np.clip(np.trunc(np.round(x, 9)), *limits(dtype)).astype(dtype)


@operator("Resize")
def resize(d):
    mode = d.one_of(["nearest", "linear", "cubic"] if d.version >= 11 else ["nearest", "linear"])
    coordinates = [
        name for name in COORDINATES if name != "half_pixel_symmetric" or d.version >= 18
    ]
    options = dict(
        coordinates="asymmetric",
        rounding="simple",
        mode=mode,
        a=-0.75,
        antialias=0,
        exclude_outside=0,
    )
    attributes = {"mode": mode} if mode != "nearest" or d.chance(0.5) else {}
    if d.version >= 11:
        options["coordinates"] = d.one_of(coordinates)
        options["rounding"] = d.one_of(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
        attributes |= {"coordinate_transformation_mode": options["coordinates"]}
        if mode == "nearest":
            attributes["nearest_mode"] = options["rounding"]
        if mode == "cubic" and d.chance(0.5):
            attributes["cubic_coeff_a"] = options["a"] = -0.5
        if mode == "cubic" and d.chance(0.3):
            attributes["exclude_outside"] = options["exclude_outside"] = 1
        if mode != "nearest" and d.version >= 18 and d.chance(0.4):
            attributes["antialias"] = options["antialias"] = 1
    dtype = d.type(
        "T1" if d.version >= 11 else "T",
        among=(F32, F64, F16, BF16) if mode != "nearest" else NUMBERS,
    )
    shape = d.shape(least=1, most=4, empty=0)
    if mode != "nearest":
        shape = shape[-2:]
    which = (
        sorted(d.some(range(len(shape)), least=1)) if d.version >= 18 and d.chance(0.4) else None
    )
    policy = None
    sizes = scales = None
    axes = list(which or range(len(shape)))
    whole = options["coordinates"] in ("tf_crop_and_resize", "pytorch_half_pixel")
    if d.version >= 11 and d.chance(0.5):
        sizes = [d.int(1, 8) for _ in axes]
        factors = [size / shape[axis] for size, axis in zip(sizes, axes)]
        policy = (
            d.one_of([None, "stretch", "not_larger", "not_smaller"]) if d.version >= 18 else None
        )
        if policy in ("not_larger", "not_smaller"):
            factors = [(min if policy == "not_larger" else max)(factors)] * len(axes)
            target = [math.floor(shape[axis] * factor + 0.5) for axis, factor in zip(axes, factors)]
        else:
            target = sizes
        if policy:
            attributes["keep_aspect_ratio_policy"] = policy
    else:
        choices = [1.0, 2.0, 3.0] if whole else [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 0.75]
        factors = scales = [max(d.one_of(choices), 1 / shape[axis]) for axis in axes]
        factors = scales = [float(np.float32(scale)) for scale in scales]
        target = [math.floor(round(shape[axis] * scale, 5)) for axis, scale in zip(axes, scales)]
    roi, extrapolation = None, 0.0
    if options["coordinates"] == "tf_crop_and_resize":
        roi = [d.one_of([-0.25, 0.0, 0.25]) for _ in axes] + [
            d.one_of([0.75, 1.0, 1.25]) for _ in axes
        ]
        if d.chance(0.5):
            attributes["extrapolation_value"] = extrapolation = float(d.int(0, 9))
    changes = [
        Axis(size, size, 1.0, (0.0, 1.0), options | {"coordinates": "asymmetric"}) for size in shape
    ]
    for i, axis in enumerate(axes):
        ends = (roi[i], roi[i + len(axes)]) if roi else None
        changes[axis] = Axis(shape[axis], target[i], factors[i], ends, options)
    if mode == "nearest" and any(axis.near_a_tie() for axis in changes):
        return resize(d)
    if which:
        attributes["axes"] = [axis - len(shape) if d.chance(0.3) else axis for axis in which]
    x = d.tensor(dtype, shape, -20, 20, 0)
    reference = lambda x, *_: as_pixels(resized(x.astype(F64), changes, extrapolation), dtype)
    if d.version < 11:
        return d.case(
            [x, np.array(scales, F32)], reference, attributes=attributes, dynamic=True, fixed=(1,)
        )
    roi_type = d.type("T2")
    scales = None if scales is None else np.array(scales, F32)
    if scales is None and d.version < 13:
        scales = np.array([], F32)
    region = (
        np.array(roi, roi_type) if roi else (np.array([], roi_type) if d.version < 13 else None)
    )
    sizes = None if sizes is None else d.ints(sizes)
    # An empty list of scales means that there is none, which must be known at compile time.
    constant = (2,) if scales is not None and not scales.size else ()
    return d.case(
        [x, region, scales, sizes],
        reference,
        attributes=attributes,
        constant=constant,
        dynamic=True,
        fixed=(1, 2, 3),
    )


@operator("Upsample")
def upsample(d):
    dtype = d.type()
    mode = d.one_of(["nearest", "linear" if d.version > 1 else "bilinear"])
    rank = 4 if d.version == 1 else d.int(1, 4)
    shape = tuple(d.int(1, 4) for _ in range(rank))
    scales = [d.one_of([1.0, 1.5, 2.0, 3.0]) for _ in shape]
    if rank > 2:
        scales[:-2] = [1.0] * (rank - 2)
    options = dict(
        coordinates="asymmetric",
        rounding="floor",
        mode="nearest" if mode == "nearest" else "linear",
        a=0,
        antialias=0,
        exclude_outside=0,
    )
    axes = [
        Axis(size, math.floor(size * scale), scale, None, options)
        for size, scale in zip(shape, scales)
    ]
    if mode != "nearest" and dtype not in (F32, F64, F16, BF16):
        mode, options["mode"] = "nearest", "nearest"
    reference = lambda x, *_: as_pixels(resized(x.astype(F64), axes, 0), dtype)
    x = d.tensor(dtype, shape, -20, 20, 0) if dtype in NUMBERS else None
    if x is None:
        return upsample(d)
    attributes = {"mode": mode} if mode != "nearest" or d.chance(0.5) else {}
    if d.version == 1:
        attributes |= {"height_scale": scales[2], "width_scale": scales[3]}
    elif d.version == 7:
        attributes["scales"] = scales
    else:
        return d.case(
            [x, np.array(scales, F32)], reference, attributes=attributes, dynamic=True, fixed=(1,)
        )
    return d.case([x], reference, attributes=attributes)
