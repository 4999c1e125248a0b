"""Fourier transforms and other signal processing."""

import numpy as np

from ..registry import operator
from ..types import F16, F32, F64, FLOATS, I32, I64, onnx_type

# The tolerance of sums of many products.
TOLERANCE = {F16: (2e-2, 5e-2), F32: (1e-4, 1e-4), F64: (1e-8, 1e-8)}


def complex_of(x):
    return x[..., 0].astype(F64) + 1j * (x[..., 1].astype(F64) if x.shape[-1] == 2 else 0)


def pairs(z, dtype):
    """Returns complex numbers as pairs of real numbers."""
    return np.stack([z.real, z.imag], -1).astype(dtype)


@operator("DFT")
def dft(d):
    dtype = d.type("T1", among=(F32, F64, F16))
    onesided, inverse = d.int(0, 1), d.int(0, 1)
    if d.version < 20 and onesided and inverse:
        inverse = 0
    parts = 1 if onesided and not inverse else d.int(1, 2)
    if onesided and inverse:
        parts = 2
    shape = [*d.shape(least=2, most=3, size=(1, 7), empty=0), parts]
    rank = len(shape)
    axis = d.int(1, rank - 2) if rank > 2 and d.chance(0.7) else d.int(0, rank - 2)
    length = d.maybe(d.int(1, 8), 0.4)
    attributes = d.attributes(onesided=onesided or d.maybe(0), inverse=inverse or d.maybe(0))
    x = d.tensor(dtype, shape, -2, 2, 0)

    def reference(x, length=None, axis_input=None):
        z = complex_of(x)
        if onesided and inverse:
            n = int(length) if length is not None else 2 * (z.shape[axis] - 1)
            return np.fft.irfft(z, n, axis)[..., None].astype(dtype)
        z = (np.fft.ifft if inverse else np.fft.fft)(
            z, None if length is None else int(length), axis
        )
        return pairs(np.take(z, range(z.shape[axis] // 2 + 1), axis) if onesided else z, dtype)

    given = None if length is None else np.array(length, d.type("T2", among=(I32, I64)))
    how = dict(dynamic=True, tolerance=TOLERANCE[dtype], symbolic=False)
    if onesided and inverse:
        given = np.array(d.int(2, 8), I64) if x.shape[axis] == 1 else given
    place = axis - rank if d.chance(0.4) else axis
    if d.version < 20:
        attributes |= {"axis": place} if axis != 1 or d.chance(0.6) else {}
        return d.case([x, given], reference, attributes=attributes, **how)
    place = None if axis == rank - 2 and d.chance(0.5) else np.array(place, I64)
    return d.case([x, given, place], reference, attributes=attributes, constant=(2,), **how)


@operator("STFT")
def stft(d):
    dtype = d.type("T1", among=(F32, F64, F16))
    onesided = d.maybe(d.int(0, 1))
    length, step = d.int(2, 6), d.int(1, 4)
    signal = d.tensor(
        dtype, [d.int(1, 2), length + d.int(0, 8), 1 if onesided != 0 else d.int(1, 2)], -2, 2, 0
    )
    window = d.maybe(d.tensor(dtype, [length], 0, 1, 0))
    frame = np.array(length, I64) if window is None or d.chance(0.5) else None

    def reference(signal, step, window=None, frame=None):
        z = complex_of(signal)
        starts = range(0, z.shape[1] - length + 1, int(step))
        frames = np.stack([z[:, start : start + length] for start in starts], 1)
        z = np.fft.fft(frames * (1 if window is None else window.astype(F64)), axis=-1)
        return pairs(z[..., : length // 2 + 1] if onesided != 0 else z, dtype)

    inputs = [signal, np.array(step, d.one_of([I32, I64]) if frame is None else I64), window, frame]
    return d.case(
        inputs,
        reference,
        attributes=d.attributes(onesided=onesided),
        dynamic=True,
        tolerance=TOLERANCE[dtype],
        symbolic=False,
    )


WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@operator(*WINDOWS)
def window(d):
    size, periodic = d.int(2, 12), d.maybe(d.int(0, 1))
    dtype = d.maybe(d.type("T2", among=FLOATS))
    a, b, c = WINDOWS[d.op]

    def reference(size):
        turn = 2 * np.pi * np.arange(int(size)) / (int(size) - (periodic == 0))
        return (a - b * np.cos(turn) + c * np.cos(2 * turn)).astype(dtype or F32)

    attributes = d.attributes(
        periodic=periodic, output_datatype=None if dtype is None else onnx_type(dtype)
    )
    return d.case([np.array(size, d.type("T1"))], reference, attributes=attributes, dynamic=True)


@operator("MelWeightMatrix")
def mel_weights(d):
    bins, size, rate = d.int(1, 6), d.one_of([8, 16, 32]), d.one_of([4000, 8000])
    low, high = float(d.int(0, 100)), float(d.int(800, 1900))
    dtype = d.maybe(d.one_of([F32, F64]))
    inputs = [np.array(value, I64) for value in (bins, size, rate)] + [
        np.array(value, F32) for value in (low, high)
    ]
    attributes = d.attributes(output_datatype=None if dtype is None else onnx_type(dtype))
    mel = lambda hertz: 2595 * np.log10(1 + hertz / 700)

    def reference(*_):
        step = (mel(high) - mel(low)) / (bins + 2)
        edges = 700 * (10 ** ((np.arange(bins + 2) * step + mel(low)) / 2595) - 1)
        edges = ((size + 1) * edges // rate).astype(int)
        y = np.zeros((size // 2 + 1, bins))
        for i in range(bins):
            left, center, right = edges[i : i + 3]
            if center == left:
                y[center, i] = 1
            for j in range(left, center + 1):
                y[j, i] = (j - left) / (center - left) if center != left else y[j, i]
            for j in range(center, right):
                y[j, i] = (right - j) / (right - center)
        return y.astype(dtype or F32)

    return d.case(inputs, reference, attributes=attributes, dynamic=True)
