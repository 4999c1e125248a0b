"""A random case: one node, its inputs, and the source of its expected outputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    MapProto,
    ModelProto,
    NodeProto,
    SequenceProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    helper,
    numpy_helper,
)

from .types import F64, finest, onnx_type


@dataclass
class Case:
    """One node on random inputs. An input is an array, a list, a dictionary, or None."""

    domain: str
    op: str
    opsets: dict[str, int]
    inputs: list[Any]
    attributes: dict[str, Any]
    # Whether the node has each of its outputs.
    outputs: list[bool]
    # The function that computes the outputs, instead of another implementation.
    reference: Callable | None
    # Inputs that are initializers.
    constants: set[int] = field(default_factory=set)
    # Inputs whose sizes are numbers.
    fixed: tuple[int, ...] = ()
    # Inputs of the model that only the bodies of the node use.
    around: set[int] = field(default_factory=set)
    # Nodes before the node, and the names of its inputs if their order differs.
    before: list[NodeProto] = field(default_factory=list)
    names: list[str] | None = None
    # Nodes after the node, and the outputs of the model if they are not those of the node.
    after: list[NodeProto] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    # Types of inputs that their values do not determine, by index.
    types: dict[int, TypeProto] = field(default_factory=dict)
    # Types of outputs that their values do not determine, by index.
    output_types: dict[int, TypeProto] = field(default_factory=dict)
    # Whether sizes are symbols, or unknown.
    symbolic: bool = False
    # Whether outputs have data-dependent sizes.
    dynamic: bool = False
    tolerance: tuple[float, float] | None = None

    def model(self, expected: list[Any] | None = None) -> ModelProto:
        """Returns the model. Without expected outputs, its outputs have no types."""
        own = [x for i, x in enumerate(self.inputs) if i not in self.around]
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(own)]
        outputs = [f"y{i}" if used else "" for i, used in enumerate(self.outputs)]
        while names and not names[-1]:
            names.pop()
        node = helper.make_node(self.op, self.names or names, outputs, domain=self.domain)
        node.attribute.extend(
            attribute(name, value) for name, value in sorted(self.attributes.items())
        )
        given = [(i, x) for i, x in enumerate(self.inputs) if x is not None]
        constants = [numpy_helper.from_array(x, f"x{i}") for i, x in given if i in self.constants]
        inputs = [
            helper.make_value_info(
                f"x{i}", self.types.get(i) or type_of(x, self.symbolic and not self.is_operand(i))
            )
            for i, x in given
            if i not in self.constants
        ]
        graph = GraphProto(
            name="drawn",
            node=[*self.before, node, *self.after],
            initializer=constants,
            input=inputs,
        )
        results = self.results or [name for name in outputs if name]
        for i, name in enumerate(results):
            value = None if expected is None else expected[i]
            graph.output.append(helper.make_value_info(name, self.output_type(i, value)))
        opsets = [helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        ir = max(8, helper.find_min_ir_version_for(opsets, ignore_unknown=True))
        return helper.make_model(graph, opset_imports=opsets, ir_version=ir)

    def is_operand(self, place):
        """Whether an input has sizes or axes, whose number may have to be known for a rank."""
        x = self.inputs[place]
        return (
            place in self.fixed
            or place > 0
            and isinstance(x, np.ndarray)
            and x.ndim == 1
            and x.dtype.kind == "i"
        )

    def output_type(self, place, value):
        if place in self.output_types:
            return self.output_types[place]
        return (
            TypeProto() if value is None else type_of(value, False, self.symbolic or self.dynamic)
        )

    def feeds(self) -> dict[str, Any]:
        """Returns the inputs of the model, by name."""
        given = enumerate(self.inputs)
        return {f"x{i}": x for i, x in given if x is not None and i not in self.constants}

    def write(self, folder: Path, expected: list[Any], again: str):
        """Writes the case in ONNX's test layout; `again` is the command that generates it."""
        files = {"model.onnx": self.model(expected)}
        inputs = [(value, self.types.get(int(name[1:]))) for name, value in self.feeds().items()]
        outputs = [(value, self.output_types.get(i)) for i, value in enumerate(expected)]
        for name, values in (("input", inputs), ("output", outputs)):
            files |= {
                f"test_data_set_0/{name}_{i}.pb": message(*value) for i, value in enumerate(values)
            }
        (folder / "test_data_set_0").mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content.SerializeToString(deterministic=True))
        rtol, atol = self.tolerance or self.usual_tolerance(expected)
        text = json.dumps({"rtol": rtol, "atol": atol, "again": again})
        (folder / "data.json").write_text(text + "\n")

    def usual_tolerance(self, expected):
        """Returns the tolerance of the coarsest type among inputs and outputs."""
        arrays = [x for x in [*self.inputs, *expected] if isinstance(x, np.ndarray)]
        return max(
            (finest(x.dtype) for x in arrays if x.dtype.kind not in "iubO"), default=finest(F64)
        )


def attribute(name, value):
    """Returns an attribute; an empty list is one of integers."""
    return helper.make_attribute(
        name, value, attr_type=AttributeProto.INTS if value == [] else None
    )


def as_value(x):
    """Returns the value; a bare number becomes a scalar tensor."""
    return np.asarray(x) if isinstance(x, (np.generic, int, float, str)) else x


def type_of(value, symbolic, unknown=False) -> TypeProto:
    """Returns the type of a value. Sizes are symbols if `symbolic`, and omitted if `unknown`."""
    if isinstance(value, SparseTensorProto):
        return helper.make_sparse_tensor_type_proto(value.values.data_type, value.dims)
    if isinstance(value, dict):
        key, content = next(iter(value.items()))
        key_type = TensorProto.STRING if isinstance(key, str) else TensorProto.INT64
        return helper.make_map_type_proto(key_type, type_of(array_of(content), False))
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            return helper.make_sequence_type_proto(type_of(value[0], False))
        return helper.make_sequence_type_proto(type_of_elements(value))
    shape = [size_of(size, symbolic) for size in value.shape]
    return helper.make_tensor_type_proto(onnx_type(value.dtype), None if unknown else shape)


def type_of_elements(values) -> TypeProto:
    """Returns the common type of a sequence's tensors."""
    ranks = {value.ndim for value in values}
    shape = None
    if len(ranks) == 1:
        sizes = zip(*(value.shape for value in values))
        shape = [size[0] if len(set(size)) == 1 else None for size in sizes]
    return helper.make_tensor_type_proto(onnx_type(values[0].dtype), shape)


def size_of(size, symbolic):
    """Equal sizes get the same symbol; 1 stays 1, because it may be broadcast."""
    return f"n{size}" if symbolic and size != 1 else size


def message(value, kind=None):
    """Returns the message of a value, which is optional if `kind` is."""
    if kind is not None and kind.HasField("optional_type"):
        return numpy_helper.from_optional(value)
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            return SequenceProto(
                elem_type=SequenceProto.MAP, map_values=[message(each) for each in value]
            )
        return numpy_helper.from_list(value)
    if isinstance(value, dict):
        return map_message(value)
    return numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value


def map_message(value):
    """Returns the message of a map, whose values are numbers or text."""
    of_text = isinstance(next(iter(value)), str)
    content = numpy_helper.from_list([array_of(x) for x in value.values()])
    if of_text:
        return MapProto(
            key_type=TensorProto.STRING, string_keys=[key.encode() for key in value], values=content
        )
    return MapProto(key_type=TensorProto.INT64, keys=list(value), values=content)


def array_of(x):
    return np.array(x, object) if isinstance(x, str) else np.asarray(x)
