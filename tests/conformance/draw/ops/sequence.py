"""Sequences and optionals."""

import numpy as np
from onnx import helper

from ..case import type_of
from ..registry import operator
from ..types import BY_NAME, F32, F64, I32, I64, STRING, onnx_type
from .control import graph


def element_type(d):
    """Returns an element type that sequences of this version may have."""
    names = {
        text.split("tensor(")[1].rstrip(")")
        for c in d.schema.type_constraints
        for text in c.allowed_type_strs
        if text.startswith("seq(tensor(")
    }
    return BY_NAME[d.one_of(sorted(names))] if not d.chance(0.4) else F32


def sequence(d, dtype, least=1, same=False):
    """Returns tensors of equal rank; of equal shape if `same`."""
    shape = d.shape(most=3)
    others = lambda: tuple(d.int(1, 4) for _ in shape)
    return [
        d.tensor(dtype, shape if same or d.chance(0.3) else others())
        for _ in range(d.int(least, 4))
    ]


@operator("SequenceConstruct")
def sequence_construct(d):
    tensors = sequence(d, element_type(d))
    return d.case(tensors, lambda *tensors: (list(tensors),))


@operator("SequenceEmpty")
def sequence_empty(d):
    dtype = d.maybe(element_type(d))
    kind = helper.make_sequence_type_proto(
        helper.make_tensor_type_proto(onnx_type(dtype or F32), None)
    )
    return d.case(
        [],
        lambda: ([],),
        attributes=d.attributes(dtype=None if dtype is None else onnx_type(dtype)),
        output_types={0: kind},
    )


def place(d, length, past=0):
    """Returns an index into a sequence, counted from either end."""
    return np.array(d.int(-length, length - 1 + past), d.one_of([I32, I64]))


@operator("SequenceAt")
def sequence_at(d):
    tensors = sequence(d, element_type(d))
    return d.case(
        [tensors, place(d, len(tensors))], lambda tensors, at: tensors[int(at)], dynamic=True
    )


@operator("SequenceErase")
def sequence_erase(d):
    tensors = sequence(d, element_type(d), least=2)
    at = d.maybe(place(d, len(tensors)))
    keep = lambda tensors, at=-1: (
        [x for i, x in enumerate(tensors) if i != int(at) % len(tensors)],
    )
    return d.case([tensors, at], lambda tensors, at=None: keep(tensors, -1 if at is None else at))


@operator("SequenceInsert")
def sequence_insert(d):
    tensors = sequence(d, element_type(d))
    new = d.tensor(tensors[0].dtype, d.shape(least=tensors[0].ndim, most=tensors[0].ndim))
    at = d.maybe(place(d, len(tensors), past=1))

    def reference(tensors, new, at=None):
        at = len(tensors) if at is None else int(at)
        at += len(tensors) if at < 0 else 0
        return ([*tensors[:at], new, *tensors[at:]],)

    return d.case([tensors, new, at], reference)


@operator("SequenceLength")
def sequence_length(d):
    return d.case([sequence(d, element_type(d))], lambda tensors: np.array(len(tensors), I64))


@operator("ConcatFromSequence")
def concat_from_sequence(d):
    tensors = sequence(d, element_type(d), same=True)
    rank = tensors[0].ndim
    new = d.int(0, 1) if rank else 1
    axis = d.int(-rank - new, rank - 1 + new)
    join = np.stack if new else np.concatenate
    attributes = {"axis": axis} | ({"new_axis": new} if new or d.chance(0.5) else {})
    return d.case(
        [tensors], lambda tensors: join(tensors, axis), attributes=attributes, dynamic=True
    )


@operator("SplitToSequence")
def split_to_sequence(d):
    x = d.tensor(d.type("T"), d.shape(least=1, empty=0))
    axis = d.axis(x.ndim)
    size = x.shape[axis]
    kind = d.one_of(["each", "by", "sizes"])
    keepdims = d.maybe(d.int(0, 1)) if kind == "each" else None
    attributes = d.attributes(axis=axis if axis else d.maybe(axis), keepdims=keepdims)
    split = None
    if kind == "by":
        split = np.array(d.int(1, size), d.type("I"))
        ends = range(int(split), size, int(split))
    elif kind == "sizes":
        ends = sorted(d.int(0, size) for _ in range(d.int(0, 2)))
        split = d.ints(np.diff([0, *ends, size]), d.type("I"))
    else:
        ends = range(1, size)

    def reference(x, split=None):
        parts = np.split(x, list(ends), axis)
        return ([np.squeeze(part, axis) for part in parts] if keepdims == 0 else parts,)

    return d.case([x, split], reference, attributes=attributes, dynamic=True)


@operator("SequenceMap")
def sequence_map(d):
    tensors = sequence(d, F32)
    double = graph(d, "body", [("Add", ["a", "a"], "b")], {"a": F32}, {"b": F32})
    return d.case(
        [tensors], lambda tensors: ([x + x for x in tensors],), attributes={"body": double}
    )


# Optionals.


def optional(d):
    """Returns a value for an optional input, and its type."""
    if d.chance(0.4):
        value = sequence(d, F32)
    else:
        value = d.tensor(d.one_of([F32, I64, STRING, F64]), d.shape())
    return value, helper.make_optional_type_proto(type_of(value, False))


@operator("Optional")
def make_optional(d):
    value, kind = optional(d)
    return d.case(
        [value], lambda value: (value,), running=(0,), output_types={0: kind}, symbolic=False
    )


@operator("OptionalHasElement")
def has_element(d):
    value, kind = optional(d)
    if d.version >= 18 and d.chance(0.4):
        if d.chance(0.5):
            return d.case([], lambda: np.array(False))
        return d.case([value], lambda value: np.array(True), running=(0,), symbolic=False)
    return d.case([value], lambda value: np.array(True), types={0: kind}, running=(0,))


@operator("OptionalGetElement")
def get_element(d):
    value, kind = optional(d)
    types = {} if d.version >= 18 and d.chance(0.4) else {0: kind}
    return d.case([value], lambda value: (value,), types=types, running=(0,), symbolic=False)
