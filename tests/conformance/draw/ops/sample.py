"""Sampling of images at given coordinates, and regions of interest."""

import math

import numpy as np

from ..registry import operator
from ..types import F32, F64, I64, wide


def outside(at, size, padding, aligned):
    """Clamps or reflects an index into the image; None if it is outside."""
    if 0 <= at < size:
        return at
    if padding == "zeros":
        return None
    if padding == "border":
        return min(max(at, 0), size - 1)
    low, high = (0, size - 1) if aligned else (-0.5, size - 0.5)
    if low == high:
        return 0
    span = high - low
    at = abs((at - low) % (2 * span))
    return min(max(round(low + min(at, 2 * span - at)), 0), size - 1)


def cubic(distance, a=-0.75):
    distance = abs(distance)
    if distance <= 1:
        return (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    return a * (distance**3 - 5 * distance**2 + 8 * distance - 4) if distance < 2 else 0


def taps(at, mode):
    """Returns the indices next to a coordinate, with their weights."""
    if mode == "nearest":
        return [(int(np.rint(at)), 1.0)]
    low = math.floor(at)
    if mode == "linear":
        return [(low, 1 - (at - low)), (low + 1, at - low)]
    return [(low + i, cubic(at - low - i)) for i in (-1, 0, 1, 2)]


def inside(at, size, aligned):
    """Whether a coordinate lies between the edges of the image."""
    return 0 <= at <= size - 1 if aligned else -0.5 <= at <= size - 0.5


def reflected(at, size, aligned):
    """Reflects a coordinate at the edges until it lies between them."""
    low, high = (0, size - 1) if aligned else (-0.5, size - 0.5)
    if inside(at, size, aligned):
        return at
    if low == high:
        return 0.0
    span = high - low
    at = (at - low) % (2 * span)
    return low + min(at, 2 * span - at)


@operator("GridSample")
def grid_sample(d):
    rank = 2 if d.version < 20 else d.one_of([2, 2, 3])
    image = [d.int(1, 5) for _ in range(rank)]
    n, c = d.int(1, 2), d.int(1, 2)
    dtype, grid_type = d.type("T1", among=(F32, F64)), d.type("T2", among=(F32, F64))
    names = {
        "nearest": "nearest",
        "linear": "bilinear" if d.version < 20 else "linear",
        "cubic": "bicubic" if d.version < 20 else "cubic",
    }
    mode = d.one_of(["nearest", "linear", "cubic"] if rank == 2 else ["nearest", "linear"])
    attributes = d.attributes(
        mode=names[mode],
        padding_mode=d.one_of([None, "zeros", "border", "reflection"]),
        align_corners=d.maybe(d.int(0, 1)),
    )
    if mode == "linear" and d.chance(0.3):
        del attributes["mode"]
    padding, aligned = attributes.get("padding_mode", "zeros"), attributes.get("align_corners", 0)
    x = d.tensor(dtype, [n, c, *image], extremes=0)
    grid = d.tensor(grid_type, [n, *(d.int(1, 3) for _ in range(rank)), rank], -1.4, 1.4, 0)

    def reference(x, grid):
        y = np.zeros((n, c, *grid.shape[1:-1]))
        for where in np.ndindex(n, *grid.shape[1:-1]):
            # The grid has the coordinate of the last axis first.
            at = [float(v) for v in grid[where][::-1]]
            at = [
                (v + 1) / 2 * (s - 1) if aligned else ((v + 1) * s - 1) / 2
                for v, s in zip(at, image)
            ]
            if padding == "reflection":
                at = [reflected(v, s, aligned) for v, s in zip(at, image)]
            if padding == "border" and mode != "cubic":
                at = [
                    v if inside(v, s, aligned) else min(max(v, 0), s - 1) for v, s in zip(at, image)
                ]
            total = np.zeros(c)
            lines = [taps(v, mode) for v in at]
            for corner in np.ndindex(*(len(line) for line in lines)):
                places = [
                    outside(lines[i][j][0], image[i], padding, aligned)
                    for i, j in enumerate(corner)
                ]
                weight = math.prod(lines[i][j][1] for i, j in enumerate(corner))
                if None not in places:
                    total += weight * x[(where[0], slice(None), *places)]
            y[(where[0], slice(None), *where[1:])] = total
        return y

    return d.case(
        [x, grid], wide(reference), attributes=attributes, symbolic=d.chance(0.3), fixed=(1,)
    )


@operator("AffineGrid")
def affine_grid(d):
    rank = d.int(2, 3)
    dtype = d.type("T1")
    n, sizes = d.int(1, 2), [d.int(1, 4) for _ in range(rank)]
    attributes = d.attributes(align_corners=d.maybe(d.int(0, 1)))

    def reference(theta, size):
        axes = []
        for length in sizes:
            if attributes.get("align_corners"):
                axes.append(np.linspace(-1, 1, length))
            else:
                axes.append((2 * np.arange(length) + 1) / length - 1)
        grid = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(sizes)], -1)
        return np.einsum("nij,...j->n...i", theta, grid)

    theta = d.tensor(dtype, [n, rank, rank + 1], -1, 1, 0)
    size = d.ints([n, d.int(1, 3), *sizes])
    return d.case(
        [theta, size], wide(reference), attributes=attributes, dynamic=True, symbolic=False
    )


@operator("RoiAlign")
def roi_align(d):
    dtype = d.type("T1")
    x = d.tensor(dtype, [d.int(1, 2), d.int(1, 2), d.int(3, 7), d.int(3, 7)], extremes=0)
    height, width = d.int(1, 3), d.int(1, 3)
    attributes = d.attributes(
        mode=d.one_of([None, "avg", "max"]),
        output_height=height,
        output_width=width,
        sampling_ratio=d.maybe(d.int(0, 2)),
        spatial_scale=d.one_of([None, 0.5, 1.0]),
        coordinate_transformation_mode=d.one_of([None, "half_pixel", "output_half_pixel"]),
    )
    half = (
        d.version >= 16
        and attributes.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    )
    scale, ratio = attributes.get("spatial_scale", 1.0), attributes.get("sampling_ratio", 0)
    rois = []
    for _ in range(d.int(1, 3)):
        left, top = d.float(0, 3), d.float(0, 3)
        rois.append([left, top, left + d.float(0.5, 3), top + d.float(0.5, 3)])
    which = d.ints([d.int(0, x.shape[0] - 1) for _ in rois])

    def corners(image, y, x):
        """Returns the four weighted pixels around a coordinate, with zeros outside."""
        if y < -1 or y > image.shape[1] or x < -1 or x > image.shape[2]:
            return [np.zeros(image.shape[0])]
        y, x = max(y, 0), max(x, 0)
        rows, columns = (clamped(v, size) for v, size in ((y, image.shape[1]), (x, image.shape[2])))
        return [image[:, row][:, column] * a * b for row, a in rows for column, b in columns]

    def clamped(at, size):
        low = int(at)
        if low >= size - 1:
            return [(size - 1, 1.0), (size - 1, 0.0)]
        return [(low, 1 - (at - low)), (low + 1, at - low)]

    def reference(x, rois, which):
        result = np.zeros((len(rois), x.shape[1], height, width))
        for r, roi in enumerate(rois):
            left, top, right, bottom = roi * scale - (0.5 if half else 0)
            w, h = right - left, bottom - top
            if not half:
                w, h = max(w, 1), max(h, 1)
            per = h / height, w / width
            counts = [ratio or math.ceil(v) for v in per]
            for i, j in np.ndindex(height, width):
                values = []
                for a, b in np.ndindex(*counts):
                    at = (
                        top + (i + (a + 0.5) / counts[0]) * per[0],
                        left + (j + (b + 0.5) / counts[1]) * per[1],
                    )
                    values.append(corners(x[which[r]], *at))
                if attributes.get("mode") == "max":
                    result[r, :, i, j] = np.max([np.max(value, 0) for value in values], 0)
                else:
                    result[r, :, i, j] = np.mean([np.sum(value, 0) for value in values], 0)
        return result

    return d.case(
        [x, np.array(rois, dtype), which],
        wide(reference),
        attributes=attributes,
        symbolic=d.chance(0.3),
    )


@operator("NonMaxSuppression")
def non_max_suppression(d):
    batches, classes, boxes = d.int(1, 2), d.int(1, 2), d.int(1, 6)
    center = d.maybe(d.int(0, 1))
    corner = d.tensor(F32, [batches, boxes, 2], 0, 2, 0)
    extent = d.tensor(F32, [batches, boxes, 2], 0.5, 2, 0)
    rows = np.concatenate([corner, corner + extent if center != 1 else extent], -1)
    if center != 1 and d.chance(0.3):
        rows = rows[..., [2, 3, 0, 1]]
    scores = (
        d.rng.permutation(batches * classes * boxes).reshape(batches, classes, boxes).astype(F32)
        / 16
    )
    options = [
        d.ints([d.int(0, 4)]),
        np.array([d.float(0, 0.8)], F32),
        np.array([d.float(0, 1)], F32),
    ]
    options = [value if d.chance(0.7) else None for value in options]

    def sides(box):
        a, b, c, e = (float(v) for v in box)
        if center == 1:
            return b - e / 2, a - c / 2, b + e / 2, a + c / 2
        return min(a, c), min(b, e), max(a, c), max(b, e)

    def overlap(a, b):
        a, b = sides(a), sides(b)
        both = max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)
        area = lambda s: (s[2] - s[0]) * (s[3] - s[1])
        return both / (area(a) + area(b) - both)

    def reference(rows, scores, most=None, threshold=None, least=None):
        most, threshold = 0 if most is None else int(most[0]), (
            0 if threshold is None else float(threshold[0])
        )
        found = []
        for batch, kind in np.ndindex(batches, classes):
            chosen = []
            for box in np.argsort(-scores[batch, kind], kind="stable"):
                if (
                    len(chosen) == most
                    or least is not None
                    and scores[batch, kind, box] <= least[0]
                ):
                    break
                if all(
                    overlap(rows[batch, box], rows[batch, other]) <= threshold for other in chosen
                ):
                    chosen.append(box)
            found += [[batch, kind, box] for box in chosen]
        return np.array(found, I64).reshape(-1, 3)

    return d.case(
        [rows, scores, *options],
        reference,
        attributes=d.attributes(center_point_box=center),
        dynamic=True,
    )
