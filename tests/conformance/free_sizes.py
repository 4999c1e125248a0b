"""Compares modules of free sizes with those of fixed sizes, bit by bit.

    free_sizes.py ONNXC FOLDER [--draws N] [MODEL.onnx NAME=LOW..HIGH ...]

Draws sizes for each free dimension, from 0 to beyond 4096, and random inputs. The model is compiled
once with free sizes, and one instance of it runs all draws, in random order. The expected results
are those of the model with these sizes fixed (`--dim`), and must be equal, except for the bits of
NaN. Where the fixed model is refused, or its run ends with an error, the free one must return an
error, too. Everything is done for both goals of `--optimize`.

Without a model, the small graphs below are compared, which have a free size in each axis.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper

SIZES = [0, 1, 2, 3, 5, 8, 13, 17, 31, 33, 64, 100, 129, 300, 1000, 4095, 4096, 4097, 5003]
# The most elements of an input.
LARGEST = 60_000
VERSION = 21

GRAPHS = {
    "broadcast": "(float[a, b] x, float[b] y, float[a, 1] z) => (float[m, n] r) {"
    " s = Mul(x, y) t = Add(s, z) u = Exp(z) r = Sub(t, u) }",
    "bytes": "(uint8[a, b] x, int8[b] y) => (int32[m, n] r, uint8[k, l] s) {"
    " i = Cast<to = 6>(x) j = Cast<to = 6>(y) r = Add(i, j) s = Max(x, x) }",
    "matmul": "(float[b, m, k] x, float[k, n] y) => (float[p, q, r] z) {"
    " p = MatMul(x, y) z = Relu(p) }",
    "integer_matmul": "(uint8[m, k] x, int8[k, n] y) => (int32[p, q] z) {"
    " z = MatMulInteger(x, y) }",
    "gemm": "(float[k, m] x, float[n, k] y, float[n] c) => (float[p, q] z) {"
    " z = Gemm<transA = 1, transB = 1, alpha = 0.5>(x, y, c) }",
    "softmax": "(float[a, b] x) => (float[m, n] y, float[p, q] z) {"
    " y = Softmax(x) z = LogSoftmax<axis = 0>(x) }",
    "reduce": "(float[a, b, c] x) => (float[m, n] y, float[p] z) {"
    " y = ReduceSum(x, axis) z = ReduceL2<keepdims = 0>(x, both) }",
    "conv1d": "(float[b, 3, n] x) => (float[p, q, r] y) {"
    " c = Conv<kernel_shape = [5], strides = [2], pads = [2, 2]>(x, w) y = Sigmoid(c) }",
    "conv2d": "(float[b, 3, h, w] x) => (float[p, q, r, s] y) {"
    " c = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x, f) d = Relu(c)"
    " y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(d) }",
    "pixels": "(float[b, 32, h, w] x) => (float[p, q, r, s] y) { y = Conv(x, f1) }",
    "conv_int8": "(float[b, 3, h, w] x) => (float[p, q, r, s] y) {"
    " xq = QuantizeLinear(x, scale, zero) xd = DequantizeLinear(xq, scale, zero)"
    " wd = DequantizeLinear(i, scale, signed)"
    " c = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(xd, wd)"
    " r0 = Relu(c) cq = QuantizeLinear(r0, scale, zero) y = DequantizeLinear(cq, scale, zero) }",
    "transposed": "(float[b, 3, n] x) => (float[p, q, r] y) {"
    " y = ConvTranspose<kernel_shape = [5], strides = [2]>(x, v) }",
    "pool": "(float[b, c, n] x) => (float[p, q, r] y, float[s, t, u] z) {"
    " y = AveragePool<kernel_shape = [3], strides = [2], pads = [1, 1]>(x)"
    " z = GlobalMaxPool(x) }",
    "norm": "(float[b, n, 8] x) => (float[p, q, r] y) {"
    " y = LayerNormalization(x, eight) }",
    "instance": "(float[b, 3, n] x) => (float[p, q, r] y) {"
    " y = InstanceNormalization(x, three, three) }",
    "moves": "(float[a, b] x, float[c, b] y) => (float[p, q] r, float[s, t] u) {"
    " k = Concat<axis = 0>(x, y) r = Transpose(k) u = Slice(k, one, many, first) }",
    "split": "(float[a, b] x) => (float[p, q] r, float[s, t] u) {"
    " l, m = Split<axis = 0, num_outputs = 2>(x) r = Neg(l) u = Abs(m) }",
    "pad": "(float[a, b] x) => (float[p, q] r) { r = Pad(x, edges) }",
    "gather": "(float[a, b] x, int64[n] i) => (float[p, q] r, float[s, t] u) {"
    " j = Add(i, i) z = Mul(j, none) u = Gather(x, z) r = Tile(x, twice) }",
    "resize": "(float[b, 2, h, w] x) => (float[p, q, r, s] y) {"
    " y = Resize<mode = \"linear\">(x, , scales) }",
    "square": "(float[b, 2, h, w] x) => (float[p, q, r, s] y) {"
    " n = Shape<end = 2>(x) e = Concat<axis = 0>(n, twice_twice)"
    " y = Resize<mode = \"nearest\">(x, , , e) }",
    "neighbors": "(float[b, c, h, w] x) => (float[p, q, r, s] y) { y = LRN<size = 3>(x) }",
    "topk": "(float[a, b] x) => (float[p, q] y, int64[r, s] i) { y, i = TopK(x, one) }",
    "arg": "(float[a, b] x) => (int64[p, q] i, float[r, s] y) {"
    " i = ArgMax<axis = 1>(x) y = CumSum(x, zeroth) }",
    "lstm": "(float[n, b, 4] x) => (float[p, q, r, s] y) {"
    " y = LSTM<hidden_size = 4>(x, gates, states) }",
    "gru": "(float[n, b, 4] x) => (float[p, q, r, s] y, float[t, u, v] h) {"
    " y, h = GRU<hidden_size = 4>(x, gates3, states3) }",
    "attention": "(float[b, n, 8] q, float[b, m, 8] k, float[b, m, 8] v) => (float[x, y, z] r) {"
    " kt = Transpose<perm = [0, 2, 1]>(k) s = MatMul(q, kt) t = Mul(s, scale)"
    " w = Softmax(t) r = MatMul(w, v) }",
    "packed_attention": "(float[b, n, 24] x) => (float[p, q, r, s] y) {"
    " heads = Reshape(x, apart) qkv = Transpose<perm = [2, 0, 3, 1, 4]>(heads)"
    " q = Gather(qkv, zeroth) k = Gather(qkv, first_index) v0 = Gather(qkv, second_index)"
    " kt = Transpose<perm = [0, 1, 3, 2]>(k) s0 = MatMul(q, kt) t = Mul(s0, scale)"
    " w0 = Softmax(t) y = MatMul(w0, v0) }",
    "heads": "(float[b, n, h, 4] q, float[b, m, h, 4] k) => (float[w, x, y, z] r) {"
    " a = Transpose<perm = [0, 2, 1, 3]>(q) c = Transpose<perm = [0, 2, 3, 1]>(k)"
    " r = MatMul(a, c) }",
    "query": "(float[b, n, 8] k, float[b, n, 8] v) => (float[x, y, z] r) {"
    " kt = Transpose<perm = [0, 2, 1]>(k) s = MatMul(rows, kt) w0 = Softmax(s)"
    " r = MatMul(w0, v) }",
    "patches": "(float[b, 3, h, w] x) => (float[p, q, r, s] y) {"
    " y = Conv<kernel_shape = [3, 3], strides = [3, 3]>(x, f) }",
    "mean": "(float[b, 16, h, w] x) => (float[p, q, r, s] y) {"
    " c = Conv<kernel_shape = [3, 3]>(x, f16) y = GlobalAveragePool(c) }",
    "excited": "(float[b, 16, h, w] x) => (float[p, q, r, s] y, float[t, u] z) {"
    " c = Conv<kernel_shape = [3, 3]>(x, f16) m = ReduceMean(c, last_two) g = Sigmoid(m)"
    " y = Mul(c, g) z = ReduceMean<keepdims = 0>(c, last_two) }",
    "normalized_rows": "(float[b, n, 8] x) => (float[p, q, r] y) {"
    " a = MatMul(x, mix) m = Reshape(a, matrix)"
    " c = BatchNormalization(m, eight, eight, eight, ones) s = Shape(x) d = Reshape(c, s)"
    " y = Add(x, d) }",
    "einsum": "(float[b, n, 4] q, float[c, 4, m] k) => (float[x, y, z] r) {"
    " r = Einsum<equation = \"bid,bdj->bij\">(q, k) }",
    "compress": "(float[a, b] x, float[c] k) => (float[p, q] y, float[r] z) {"
    " c0 = Greater(k, scale) y = Compress<axis = 0>(x, c0) z = Compress(x, c0) }",
    "flatten": "(float[a, b, 3] x, float[c, d] z) => (float[p, q] y, float[r, s] u) {"
    " y = Reshape(x, kept) t = Shape(z) f = Gather(t, first) e = Concat<axis = 0>(f, minus)"
    " u = Reshape(z, e) }",
    "sizes": "(float[a, b] x) => (float[p] y, int64[s] n) {"
    " s = Shape(x) t = Size(x) m = ReduceProd<keepdims = 1>(s) y = Reshape(x, m)"
    " n = NonZero(y) }".replace("int64[s] n", "int64[s, u] n"),
    "loop": "(float[a, b] x, int64 n) => (float[p, q] y) {"
    " y = Loop(n, , x) <body = turn (int64 i, bool go, float[a, b] v)"
    " => (bool still, float[a, b] w) { still = Identity(go) w = Mul(v, v) }> }",
}

RNG = np.random.default_rng(5)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


CONSTANTS = {
    "axis": np.int64([1]), "both": np.int64([0, 2]), "first": np.int64([0]),
    "one": np.int64([1]), "many": np.int64([2**62]), "none": np.int64([0]),
    "zeroth": np.int64(0), "twice": np.int64([2, 1]), "twice_twice": np.int64([2, 2]),
    "edges": np.int64([1, 0, 2, 3]),
    "scales": np.float32([1, 1, 1.5, 0.5]), "scale": np.float32(0.05), "zero": np.uint8(3),
    "apart": np.int64([0, 0, 3, 2, 4]), "kept": np.int64([0, -1]),
    "minus": np.int64([-1]), "first_index": np.int64(1), "second_index": np.int64(2),
    "rows": normal(1, 4, 8), "f16": normal(32, 16, 3, 3),
    "signed": np.int8(0), "eight": normal(8), "three": normal(3), "w": normal(4, 3, 5),
    "f": normal(4, 3, 3, 3), "i": RNG.integers(-9, 9, (4, 3, 3, 3)).astype(np.int8),
    "v": normal(3, 2, 5), "gates": normal(1, 16, 4), "states": normal(1, 16, 4),
    "gates3": normal(1, 12, 4), "states3": normal(1, 12, 4), "f1": normal(24, 32, 1, 1),
    "last_two": np.int64([3, 2]), "mix": normal(8, 8), "matrix": np.int64([-1, 8]),
    "ones": np.ones(8, np.float32),
}  # fmt: skip


def graph(name):
    """Returns the model of one of the graphs, with the constants that it uses."""
    text = f'<ir_version: 10, opset_import: ["": {VERSION}]> {name} {GRAPHS[name]}'
    model = onnx.parser.parse_model(text)
    defined = {value.name for value in model.graph.input}
    defined |= {output for node in model.graph.node for output in node.output}
    used = {i for node in model.graph.node for i in node.input}
    for constant in sorted(used & CONSTANTS.keys() - defined):
        tensor = numpy_helper.from_array(np.asarray(CONSTANTS[constant]), constant)
        model.graph.initializer.append(tensor)
    return model


def dimensions(value):
    """Returns the size or the name of each axis; onnxc names an unnamed one by its number."""
    axes = enumerate(value.type.tensor_type.shape.dim)
    return [dimension(d, f"{value.name}_{axis}") for axis, d in axes]


def dimension(d, unnamed):
    if d.dim_param:
        return unnamed if d.dim_param == "?" else d.dim_param
    return d.dim_value if d.dim_value >= 0 and d.HasField("dim_value") else unnamed


def symbols(model):
    """Returns the free dimensions of the inputs, in order."""
    shapes = [dimensions(value) for value in inputs(model)]
    return list(dict.fromkeys(d for shape in shapes for d in shape if isinstance(d, str)))


def inputs(model):
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in constants]


def file_name(value):
    """Returns the name that `onnxc run` gives to the file of a value, without its extension."""
    return re.sub(r"[^\w.-]", "_", value).lstrip(".")


def draw_input(value, sizes, rng):
    """Draws an input: integers are indices of at least two elements, or bytes."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    shape = [sizes.get(d, d) for d in dimensions(value)]
    if dtype.kind == "f":
        return rng.normal(size=shape).astype(dtype)
    limits = {1: (0, 100)}.get(dtype.itemsize, (0, 2))
    return np.asarray(rng.integers(*limits, size=shape)).astype(dtype)


def draw_sizes(model, ranges, rng):
    """Draws sizes that keep every input below the largest."""
    while True:
        sizes = {}
        for name in symbols(model):
            low, high = ranges.get(name, (0, SIZES[-1]))
            choices = [size for size in SIZES if low <= size <= high]
            sizes[name] = int(rng.choice(choices or [low]))
        shapes = [[sizes.get(d, d) for d in dimensions(value)] for value in inputs(model)]
        if all(np.prod(shape, dtype=float) <= LARGEST for shape in shapes):
            return sizes


class Comparison:
    """The draws of one model for one goal."""

    def __init__(self, options, model, name, ranges, goal):
        self.options, self.model, self.ranges, self.goal = options, model, ranges, goal
        self.agree, self.refused = (
            options.folder / goal / kind / name for kind in ("agree", "refused")
        )
        self.rng = np.random.default_rng(options.seed)
        self.count = {self.agree: 0, self.refused: 0}

    def draw(self):
        """Writes the data sets, those of equal sizes apart from one another."""
        per_size = min(4, self.options.draws)
        sets = []
        # Sizes that must fit one another may all be refused.
        while len(sets) < self.options.draws or (
            len(sets) < 20 * self.options.draws and all(results is None for _, results in sets)
        ):
            sizes = draw_sizes(self.model, self.ranges, self.rng)
            values = [
                [draw_input(value, sizes, self.rng) for value in inputs(self.model)]
                for _ in range(per_size)
            ]
            sets += zip(values, self.fixed(sizes, values))
        self.rng.shuffle(sets)
        for values, results in sets:
            self.write(values, results)

    def fixed(self, sizes, sets):
        """Returns the results of the model with fixed sizes, or None where it is refused."""
        scratch = self.options.folder / "fixed"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        onnx.save(self.model, scratch / "model.onnx")
        command = [self.options.onnxc, "run", scratch / "model.onnx", "--optimize", self.goal]
        command += ["--output-dir", scratch / "out", "--format", "pb"]
        command += [f"--dim={name}={size}" for name, size in sizes.items()]
        for number, values in enumerate(sets):
            for value, array in zip(inputs(self.model), values):
                path = scratch / f"{number}_{len(command)}.npy"
                np.save(path, array)
                command += ["--input", f"{value.name}={path}"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode not in (0, 1):
            sys.exit(f"{self.model.graph.name}, {sizes}: status {run.returncode}\n{run.stderr}")
        if run.returncode == 1:
            return [None] * len(sets)
        folders = [scratch / "out"]
        if len(sets) > 1:
            folders = [scratch / "out" / str(number) for number in range(len(sets))]
        names = [file_name(value.name) for value in self.model.graph.output]
        return [[(folder / f"{name}.pb").read_bytes() for name in names] for folder in folders]

    def write(self, values, results):
        folder = self.refused if results is None else self.agree
        number = self.count[folder]
        self.count[folder] += 1
        data = folder / f"test_data_set_{number}"
        data.mkdir(parents=True)
        if number == 0:
            onnx.save(self.model, folder / "model.onnx")
            (folder / "data.json").write_text(json.dumps({"rtol": 0.0, "atol": 0.0}))
        for i, array in enumerate(values):
            message = numpy_helper.from_array(array).SerializeToString()
            (data / f"input_{i}.pb").write_bytes(message)
        for i, result in enumerate(results or []):
            (data / f"output_{i}.pb").write_bytes(result)


def outcomes(options, goal, kind):
    """Runs the data sets through one module for each model."""
    folder = options.folder / goal / kind
    if not folder.exists():
        return []
    command = [options.onnxc, "test", "--json", "--optimize", goal, folder]
    command += ["--scratch", options.scratch or options.folder / "scratch", *options.runtime]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [json.loads(line) for line in lines.splitlines()]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("onnxc")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path, nargs="?")
    parser.add_argument("ranges", nargs="*", help="NAME=LOW..HIGH")
    parser.add_argument("--draws", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scratch", type=pathlib.Path, help="the folder that modules are built in")
    parser.add_argument("--runtime", help="the source of the runtime library")
    options = parser.parse_args()
    options.runtime = ["--runtime", options.runtime] if options.runtime else []
    return options


def main():
    options = arguments()
    shutil.rmtree(options.folder, ignore_errors=True)
    ranges = {}
    for text in options.ranges:
        name, limits = text.rsplit("=", 1)
        ranges[name] = tuple(map(int, limits.split("..")))
    models = {name: graph(name) for name in GRAPHS}
    if options.model:
        models = {options.model.stem: onnx.load(options.model)}
    wrong = False
    for goal in ("speed", "size"):
        counts = [0, 0]
        for name, model in models.items():
            comparison = Comparison(options, model, name, ranges, goal)
            comparison.draw()
            counts[0] += comparison.count[comparison.agree]
            counts[1] += comparison.count[comparison.refused]
            if comparison.count[comparison.agree] == 0:
                sys.exit(f"{name}: every draw is refused")
        for outcome in outcomes(options, goal, "agree"):
            if outcome["status"] != "ok":
                wrong = True
                print(goal, outcome)
        for outcome in outcomes(options, goal, "refused"):
            text = json.dumps(outcome)
            if "process ended" in text or "does not compile" in text or outcome["status"] == "ok":
                wrong = True
                print(goal, "refused with fixed sizes:", text)
        print(f"{goal}: {counts[0]} draws compared, {counts[1]} refused")
    sys.exit(wrong)


if __name__ == "__main__":
    main()
