"""A random graph as a case: a model, its inputs, and its expected outputs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import GraphProto, ModelProto, helper, numpy_helper

from ..case import message, type_of
from ..types import BOOL, F16, F32, F64, I8, I32, I64, U8, is_float

# The order is that of the steps, on which the random choices depend.
from . import (  # noqa: F401, I001 (each module registers its steps)
    control,
    images,
    matrices,
    moves,
    quantized,
    pointwise,
    reductions,
    sequences,
    sizes,
    steps,
    loops,
    integers,
)
from .evaluate import IR, OPSETS
from .graph import ALLOWED, Graph

THEMES = (
    "images images images matrices quantized quantized pointwise moves control loops sizes".split()
)
# The ratio between the error of a result and the largest accumulated error.
SLACK = 10


@dataclass
class Case:
    """A model of many nodes, its inputs and its expected outputs."""

    model: ModelProto
    feeds: dict[str, np.ndarray]
    expected: list[np.ndarray]

    def write(self, folder: Path, again: str):
        """Writes the case in ONNX's test layout; `again` is the command that generates it."""
        files = {"model.onnx": self.model}
        for name, values in (("input", self.feeds.values()), ("output", self.expected)):
            files |= {f"test_data_set_0/{name}_{i}.pb": message(x) for i, x in enumerate(values)}
        (folder / "test_data_set_0").mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content.SerializeToString(deterministic=True))
        tolerance = self.tolerance()
        text = json.dumps({"rtol": tolerance, "atol": tolerance, "again": again})
        (folder / "data.json").write_text(text + "\n")

    def tolerance(self):
        """Returns the tolerance of the coarsest float type in the model."""
        types = {x.dtype for x in self.expected if isinstance(x, np.ndarray) and is_float(x.dtype)}
        inner = {helper.tensor_dtype_to_np_dtype(n) for n in element_types(self.model.graph) if n}
        kinds = [d for d in types | inner if d in ALLOWED]
        return SLACK * max((ALLOWED[d] for d in kinds), default=ALLOWED[F32])


def element_types(graph):
    """Yields the element types of constants, inputs and casts."""
    yield from (x.data_type for x in graph.initializer)
    yield from (x.type.tensor_type.elem_type for x in graph.input)
    for node in graph.node:
        for a in node.attribute:
            if a.HasField("g"):
                yield from element_types(a.g)
            if a.name == "to":
                yield a.i


def first_inputs(g):
    """Adds the first inputs of the graph."""
    extremes = 0.5 if g.chance(0.06) else 0.03
    for _ in range(g.int(1, 3)):
        kind = 0 if g.theme == "images" else g.int(0, 3)
        c = g.one_of([1, 2, 3, 4, 8, 16, 16, 20])
        if kind == 0:
            shape = (g.int(1, 2), c, g.int(1, 6), g.int(1, 6))
        elif kind == 1:
            shape = g.one_of(
                [(g.int(1, 2), g.int(1, 5), g.one_of([4, 6, 8])), (2, c, 5), (1, c, 3, 2, 3)]
            )
        elif kind == 2:
            shape = (g.int(1, 5), g.int(1, 8))
        else:
            shape = g.shape(empty=0.1)
        g.input(g.tensor(g.dtype, shape, -2, 2, extremes=extremes))
    for _ in range(g.int(0, 2)):
        dtype = g.one_of([BOOL, I64, I32, U8, I8])
        g.input(g.tensor(dtype, g.shape(0, 3, (1, 4)), -5, 9, extremes=0.2))


def draw(seed, number) -> Case:
    """Generates the graph of that number."""
    g = Graph(np.random.default_rng([seed, number]))
    g.dtype = g.one_of([F32] * 17 + [F64, F64, F16])
    g.theme = g.maybe(g.one_of(THEMES), 0.6)
    first_inputs(g)
    most = g.int(3, 25)
    while len(g.nodes) < most:
        steps.take(g)
    return finish(g)


def finish(g) -> Case:
    """Chooses the outputs: unused values, and some intermediate ones."""
    used = {name for node in g.nodes for name in node.input}
    for node in g.nodes:
        used |= {n for a in node.attribute if a.HasField("g") for n in control.captures(a.g)}
    made = [v for v in g.values if v.name not in g.inputs and v.name not in g.constants]
    made = [v for v in made if not v.constant and v.dtype is not None]
    ends = [v for v in made if v.name not in used]
    kept = [v for v in ends if g.chance(0.9)] or made[-1:]
    kept += [v for v in made if v.name in used and g.chance(0.08)]
    kept += [
        v for v in g.values if (v.name in g.inputs or v.name in g.constants) and g.chance(0.02)
    ]
    symbols = g.one_of([None, None, "first", "all", "own"])
    return case(g, kept, symbols)


def case(g, outputs, symbols) -> Case:
    """Returns the graph with these outputs. Symbols are sizes of the `first` axes, of `all`, each
    size's `own`, or none.
    """

    def info(name, array):
        kind = type_of(array, symbols == "all")
        for i, dim in enumerate(kind.tensor_type.shape.dim):
            if symbols == "first" and i == 0 and array.ndim > 1 and dim.dim_value != 1:
                dim.dim_param = f"n{dim.dim_value}"
            if symbols == "own":
                dim.dim_param = f"{name}_{i}"
        return helper.make_value_info(name, kind)

    graph = GraphProto(
        name="drawn",
        node=g.nodes,
        initializer=[numpy_helper.from_array(x, name) for name, x in g.constants.items()],
        input=[info(name, x) for name, x in g.inputs.items()],
        output=[
            helper.make_value_info(v.name, type_of(v.array, False, unknown=symbols is not None))
            for v in outputs
        ],
    )
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=IR)
    return Case(model, dict(g.inputs), [v.array for v in outputs])
