"""A random graph, in which each node is evaluated when it is added, so that shapes are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import GraphProto, NodeProto, helper, numpy_helper

from ..case import attribute, type_of
from ..draw import Choices
from ..types import BF16, F16, F32, F64, is_float
from .evaluate import Unfit, evaluate

# For each type, the relative size of a rounding error, and the largest accumulated error.
ROUNDING = {F64: 1e-8, F32: 2e-6, F16: 1e-3, BF16: 8e-3}
ALLOWED = {F64: 1e-6, F32: 1e-4, F16: 8e-3, BF16: 5e-2}
# The limit of magnitudes: smaller values that are added to larger ones are lost.
LARGEST = 1e4
# Operators that only move elements, without rounding.
EXACT = set(
    """Identity Reshape Transpose Squeeze Unsqueeze Flatten Concat Split Slice Gather GatherElements
    GatherND Expand Tile Pad DepthToSpace SpaceToDepth Shape Size Max Min Relu Clip Neg Abs Where
    MaxPool GlobalMaxPool ReduceMax ReduceMin TopK ScatterElements ScatterND Trilu Compress
    ReverseSequence Sign ConstantOfShape Range
    SplitToSequence SequenceAt SequenceInsert SequenceErase SequenceConstruct SequenceLength
    ConcatFromSequence""".split()
)


@dataclass
class Value:
    """A value of the graph, and the same value with rounding errors added."""

    name: str
    array: np.ndarray
    shaken: np.ndarray
    constant: bool = False

    @property
    def shape(self):
        return self.array.shape

    @property
    def rank(self):
        return self.array.ndim

    @property
    def dtype(self):
        """The element type; None for a sequence."""
        return None if isinstance(self.array, list) else self.array.dtype

    @property
    def exact(self):
        return self.array is self.shaken or bytes_of(self.array) == bytes_of(self.shaken)


class Graph(Choices):
    """The graph so far: of the model, or of a body within `around`."""

    def __init__(self, rng, around: Graph | None = None):
        super().__init__(rng)
        self.around = around
        self.names = around.names if around else {"count": 0}
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.fixed: dict[str, Value] = {}
        self.inputs: dict[str, np.ndarray] = {}
        # All visible values, in order.
        self.values: list[Value] = list(around.values) if around else []
        self.dtype = around.dtype if around else F32
        # The family of most steps.
        self.theme = around.theme if around else None

    def name(self, stem="v"):
        self.names["count"] += 1
        return f"{stem}{self.names['count']}"

    # Values.

    def input(self, array, stem="x"):
        """Adds an input of the graph."""
        value = Value(self.name(stem), np.asarray(array), np.asarray(array))
        self.inputs[value.name] = value.array
        self.values.append(value)
        return value

    def constant(self, array, maybe=0.0):
        """Adds a constant; with the probability `maybe`, it is an input of the model instead."""
        array = np.asarray(array)
        if self.around is None and self.chance(maybe):
            return self.input(array, "w")
        value = Value(self.name("c"), array, array, True)
        self.fixed[value.name] = value
        if self.chance(0.15):
            tensor = numpy_helper.from_array(array)
            self.nodes.append(helper.make_node("Constant", [], [value.name], value=tensor))
        else:
            self.constants[value.name] = array
        return value

    def weights(self, *shape, scale=None, maybe=0.1):
        """Adds weights, scaled so that sums of products stay small; sometimes reuses weights."""
        if self.chance(0.12):
            for value in self.values:
                if value.constant and value.shape == shape and value.dtype == self.dtype:
                    return value
        depth = max(1, int(np.prod(shape[1:])))
        numbers = self.rng.normal(0, scale or 1 / np.sqrt(depth), shape).astype(self.dtype)
        made = self.constant(numbers, maybe)
        self.values.append(made)
        return made

    def number(self, x, dtype=None):
        """Adds a constant of one element, as a scalar or with axes of size 1."""
        return self.constant(
            np.full(self.one_of([(), (), (), (1,), (1, 1)]), x, dtype or self.dtype)
        )

    def shape_of(self, sizes):
        return self.constant(np.array(sizes, np.int64).reshape(-1))

    def pick(self, *, rank=None, dtype=None, least=0, wanted=None, most=4096):
        """Returns a value, most likely one of the last three."""
        dtype = self.dtype if dtype is None else dtype
        fits = [
            value
            for value in self.values
            if not isinstance(value.array, list)
            and value.dtype == dtype
            and (value.rank >= least if rank is None else value.rank == rank)
            and value.array.size <= most
            and (wanted is None or wanted(value))
            and not (value.constant and self.chance(0.9))
        ]
        if not fits:
            raise Unfit("no such value")
        return self.one_of(fits[-3:]) if self.chance(0.7) else self.one_of(fits)

    # Nodes.

    def add(self, op, inputs, outputs=1, extra=(), **attributes):
        """Adds a node; `extra` are values that its bodies capture. Returns the output or a list."""
        names = [self.name() for _ in range(outputs)]
        inputs = [x if x is None or isinstance(x, Value) else self.number(x) for x in inputs]
        node = helper.make_node(op, [x.name if x else "" for x in inputs], names)
        node.attribute.extend(attribute(key, x) for key, x in attributes.items() if x is not None)
        given = {x.name: x for x in [*inputs, *extra] if x is not None}
        arrays = evaluate(node, {name: x.array for name, x in given.items()})
        exact = all(x.exact for x in given.values())
        if exact and op in EXACT:
            shaken = arrays
        else:
            shaken = evaluate(node, {name: x.shaken for name, x in given.items()})
            shaken = [self.shake(x) for x in shaken] if op not in EXACT else shaken
        for array, other in zip(arrays, shaken):
            check(array, other)
        self.nodes.append(node)
        made = [Value(name, array, other) for name, array, other in zip(names, arrays, shaken)]
        self.values += made
        return made[0] if outputs == 1 else made

    def shake(self, array):
        """Returns the array with rounding errors added."""
        if isinstance(array, list):
            return [self.shake(x) for x in array]
        if not is_float(array.dtype) or not array.size:
            return array
        with np.errstate(all="ignore"):
            wide = array.astype(np.float64)
            finite = np.abs(wide[np.isfinite(wide)])
            size = ROUNDING[array.dtype] * (finite.max() if finite.size else 0.0)
            return np.asarray(
                (wide + self.rng.uniform(-size, size, array.shape)).astype(array.dtype)
            )

    def body(self):
        """Returns a graph nested in this one."""
        return Graph(self.rng, self)

    # Messages.

    def message(self, outputs, inputs=(), name="body"):
        """Returns the graph as a body with these outputs."""
        types = lambda values: [
            helper.make_value_info(x.name, type_of(x.array, False, unknown=True)) for x in values
        ]
        constants = [numpy_helper.from_array(x, key) for key, x in self.constants.items()]
        return GraphProto(
            name=name,
            node=self.nodes,
            initializer=constants,
            input=types(inputs),
            output=types(outputs),
        )


def bytes_of(array):
    return [x.tobytes() for x in array] if isinstance(array, list) else array.tobytes()


def check(array, shaken):
    """Rejects values that are too large, or that small errors change much."""
    if isinstance(array, list):
        for x, other in zip(array, shaken):
            check(x, other)
        return
    if array.shape != shaken.shape or array.size > 20000 or array.ndim > 6:
        raise Unfit("the size depends on rounding, or is too large")
    if not is_float(array.dtype):
        if array.tobytes() != shaken.tobytes():
            raise Unfit("rounding decides")
        return
    with np.errstate(all="ignore"):
        wide, other = array.astype(np.float64), shaken.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        if finite.size and np.abs(finite).max() > LARGEST:
            raise Unfit("large numbers")
        allowed = ALLOWED[array.dtype]
        if not np.allclose(wide, other, allowed, allowed, equal_nan=True):
            raise Unfit("rounding decides")
