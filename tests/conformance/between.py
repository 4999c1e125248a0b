"""Compares QDQ networks with onnx's reference evaluator.

    between.py ONNXC FOLDER MODEL.onnx ...

For each of 100 inputs, each 8-bit tensor is compared with the result of the reference evaluator for
the 8-bit tensors before it, so that errors do not accumulate. Operators that round as IEEE 754
specifies (`Add`, `Mul`, functions) must give the same bytes. The order of summation is not
specified. A byte of a sum may differ only if the exact sum is so near to the border between two
bytes that the order can decide, by the bound `n · 2⁻²⁴` of the sum of the magnitudes of the `n`
terms.
"""

import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

INPUTS = 100
UNIT = 2.0**-24
# Roundings outside the sum: of both operands, their product, the bias and the quotient.
OTHERS = 6


class Parts:
    """A model cut at quantized tensors: nodes that read 8-bit tensors read them from an input."""

    def __init__(self, model):
        self.nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in model.graph.node]
        self.constants = {c.name: numpy_helper.to_array(c) for c in model.graph.initializer}
        for node in [n for n in self.nodes if n.op_type == "Constant"]:
            self.constants[node.output[0]] = helper.get_node_attr_value(node, "value")
        self.makers = {output: node for node in self.nodes for output in node.output}
        self.ends = [n for n in self.nodes if n.op_type == "QuantizeLinear"]
        self.opset = helper.make_opsetid("", max(19, model.opset_import[0].version))
        self.input, self.initializers = model.graph.input[0], list(model.graph.initializer)

    def model(self, nodes, inputs, outputs):
        untyped = [helper.make_empty_tensor_value_info(name) for name in [*inputs, *outputs]]
        inputs, outputs = untyped[:len(inputs)], untyped[len(inputs):]
        graph = helper.make_graph(nodes, "g", inputs, outputs, self.initializers)
        return helper.make_model(graph, opset_imports=[self.opset], ir_version=9)

    def whole(self, shape):
        """Returns the model with all 8-bit tensors as outputs."""
        model = self.model(self.nodes, [], [])
        model.graph.input.append(helper.make_tensor_value_info(self.input.name, 1, shape))
        for node in self.ends:
            kind = helper.np_dtype_to_tensor_dtype(self.constants[node.input[2]].dtype)
            model.graph.output.append(helper.make_tensor_value_info(node.output[0], kind, None))
        return model

    def cut(self):
        """Returns the model that computes the outputs from given 8-bit tensors."""
        nodes = []
        for node in self.nodes:
            nodes.append(onnx.NodeProto.FromString(node.SerializeToString()))
            if node.op_type == "QuantizeLinear":
                nodes[-1].output[0] += "_made"
        given = [node.output[0] for node in self.ends]
        return self.model(nodes, [self.input.name, *given], [f"{name}_made" for name in given])

    def exact(self, magnitudes):
        """Returns the numbers before quantization in double precision, or the sums of the
        magnitudes.
        """
        nodes, given = [], [node.output[0] for node in self.ends]
        for node in self.nodes:
            if node.op_type == "QuantizeLinear":
                continue
            if node.op_type == "DequantizeLinear":
                nodes += self.real(node, magnitudes)
            elif node.op_type != "Softmax" or not magnitudes:
                nodes.append(node)
            else:
                nodes.append(helper.make_node("Identity", node.input, node.output))
        wanted = [node.input[0] for node in self.ends if node.input[0] != self.input.name]
        return self.model(nodes, given, wanted)

    def real(self, node, magnitudes):
        """Computes `DequantizeLinear` in double precision."""
        names = [f"{node.output[0]}_{part}" for part in ("x", "s", "z", "d", "p", "q")]
        x, s, z, d, product, _ = names
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        scale = self.constants[node.input[1]]
        rank = self.constants[node.input[0]].ndim if node.input[0] in self.constants else 0
        shape = [-1 if i == axis % rank else 1 for i in range(rank)] if scale.size > 1 else []
        constant = numpy_helper.from_array
        zero = self.constants[node.input[2]] if len(node.input) > 2 else np.zeros_like(scale)
        spread = lambda value: np.asarray(value, np.float64).reshape(shape)
        return [
            helper.make_node("Cast", [node.input[0]], [x], to=TensorProto.DOUBLE),
            helper.make_node("Constant", [], [s], value=constant(spread(scale))),
            helper.make_node("Constant", [], [z], value=constant(spread(zero))),
            helper.make_node("Sub", [x, z], [d]),
            helper.make_node("Mul", [d, s], [product]),
            helper.make_node("Abs" if magnitudes else "Identity", [product], [node.output[0]]),
        ]

    def terms(self, end, found):
        """Returns the number of roundings in a sum whose order is free; 0 if there is no such sum.
        """
        value = end.input[0]
        while value in self.makers and self.makers[value].op_type in ("Relu", "Clip", "Flatten"):
            value = self.makers[value].input[0]
        node = self.makers.get(value)
        op = node.op_type if node else ""
        weights = lambda: self.constants[self.makers[node.input[1]].input[0]].shape
        if op == "Conv":
            return int(np.prod(weights()[1:])) + OTHERS
        if op in ("Gemm", "MatMul"):
            return max(weights()) + OTHERS
        if op == "AveragePool":
            return int(np.prod(helper.get_node_attr_value(node, "kernel_shape"))) + OTHERS
        if op in ("GlobalAveragePool", "Softmax"):
            x = found[self.makers[node.input[0]].input[0]]
            return int(np.prod(x.shape[1:] if op == "Softmax" else x.shape[2:])) + OTHERS
        return 0


def ours(onnxc, path, model, feeds):
    onnx.save(model, path)
    inputs = []
    for name, value in feeds.items():
        np.save(path.with_suffix(".npy"), value)
        inputs += ["--input", f"{name}={path.with_suffix('.npy')}"]
    out = path.with_suffix(".out")
    subprocess.run([onnxc, "run", path, *inputs, "--output-dir", out], check=True,
                   capture_output=True)
    return {y.name: np.load(out / f"{y.name}.npy") for y in model.graph.output}


def held(parts, end, terms, found, wanted, number, magnitude):
    """Counts the bytes that differ, and those of them that the exact numbers do not allow."""
    differ = found != wanted
    if not differ.any():
        return 0, 0
    if terms == 0:
        return differ.sum(), differ.sum()
    scale = np.float64(parts.constants[end.input[1]])
    zero = np.int64(parts.constants[end.input[2]])
    limits = np.iinfo(found.dtype)
    off = terms * UNIT * magnitude
    low, high = (np.clip(np.rint((number + by) / scale) + zero, limits.min, limits.max)
                 for by in (-off, off))
    return differ.sum(), (differ & ((found < low) | (found > high))).sum()


def check(onnxc, folder, path):
    model = onnx.load(path)
    parts = Parts(model)
    shape = [d.dim_value for d in parts.input.type.tensor_type.shape.dim]
    shape[0] = INPUTS
    x = {parts.input.name: np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    whole = parts.whole(shape)
    found = ours(onnxc, folder / f"{pathlib.Path(path).stem}_bytes.onnx", whole, x)
    last = parts.ends[-1].output[0]
    alone = ReferenceEvaluator(whole).run([last], x)[0]
    names = [end.output[0] for end in parts.ends]
    made = dict(zip(names, ReferenceEvaluator(parts.cut()).run(None, {**x, **found})))
    numbers, magnitudes = ({}, {})
    for into, of in ((numbers, False), (magnitudes, True)):
        exact = parts.exact(of)
        results = ReferenceEvaluator(exact).run(None, found)
        into.update(zip((y.name for y in exact.graph.output), results))
    count, others, wrong = 0, 0, 0
    for end in parts.ends:
        name, of = end.output[0], end.input[0]
        terms = parts.terms(end, found)
        more, bad = held(parts, end, terms, found[name], made[name], numbers.get(of),
                         magnitudes.get(of))
        count, others, wrong = count + found[name].size, others + more, wrong + bad
        if bad:
            print(f"  {name}: {bad} bytes are not what its numbers allow")
    equal = sum(map(np.array_equal, found[last], alone))
    print(f"{pathlib.Path(path).stem}: {others} of {count} bytes are others, {wrong} of them wrong;"
          f" {equal} of {INPUTS} results are equal", flush=True)
    return wrong == 0


def main(onnxc, folder, *paths):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return 0 if all([check(onnxc, folder, path) for path in paths]) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
