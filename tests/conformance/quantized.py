"""Compares quantized models with onnx's reference evaluator, byte by byte.

    quantized.py ONNXC FOLDER

Generates four networks of common microcontroller shapes (keywords, persons, images, sounds) with
random weights, in two forms: with `QLinearConv`, whose sums the reference evaluator computes in
integers, and between `DequantizeLinear` and `QuantizeLinear`. For each of 100 inputs, onnxc's
results of both forms must equal the reference evaluator's results of the first form. For the second
form, the evaluator sums floats in an order that depends on the processor, so the number of equal
results is only printed.
"""

import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

INPUTS = 100
CALIBRATION = 4


def pointwise(filters):
    return ("conv", filters, 1, 1, 0, 1, True)


def separable(filters, stride=1):
    return [("depthwise", 3, stride, 1), pointwise(filters)]


def residual(filters, stride):
    start = [("mark",)]
    path = [("conv", filters, 3, stride, 1, 1, True), ("conv", filters, 3, 1, 1, 1, False)]
    return start + path + [("add", filters, stride)]


MOBILE = [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2)] + [(128, 1)] * 5
MOBILE += [(256, 2), (256, 1)]
NETWORKS = {
    "keywords": ((1, 49, 10), [("conv", 64, (10, 4), 2, (4, 1, 5, 1), 1, True)]
                 + 4 * separable(64) + [("mean",), ("conv", 12, 1, 1, 0, 1, False)]),
    "persons": ((3, 96, 96), [("conv", 8, 3, 2, 1, 1, True)]
                + [layer for shape in MOBILE for layer in separable(*shape)]
                + [("mean",), ("conv", 2, 1, 1, 0, 1, False)]),
    "images": ((3, 32, 32), [("conv", 16, 3, 1, 1, 1, True), *residual(16, 1), *residual(32, 2),
                             *residual(64, 2), ("mean",), ("conv", 10, 1, 1, 0, 1, False)]),
    "sounds": ((640, 1, 1), [pointwise(n) for n in (128, 128, 128, 128, 8, 128, 128, 128, 128)]
               + [("conv", 640, 1, 1, 0, 1, False)]),
}


class Network:
    """The layers as nodes; `scales` are those of the activations by name, once they are known."""

    def __init__(self, layers, shape, form, scales):
        self.form, self.scales, self.draw = form, scales, np.random.default_rng(7)
        self.nodes, self.initializers, self.count = [], [], 0
        self.made, self.activations = {}, []
        x, channels = self.quantized("x"), shape[0]
        mark = None
        for layer in layers:
            if layer[0] == "mark":
                mark = (x, channels)
            elif layer[0] == "add":
                (y, of), (_, filters, stride) = mark, layer
                if stride > 1 or of != filters:
                    y = self.conv(y, of, (filters, 1, stride, 0, 1, False))
                x = self.real("Relu", [self.real("Add", [x, y], quantize=False)], dequantize=False)
            elif layer[0] == "mean":
                x = self.real("GlobalAveragePool", [x])
            else:
                if layer[0] == "depthwise":
                    layer = ("conv", channels, *layer[1:], channels, True)
                x, channels = self.conv(x, channels, layer[1:]), layer[1]
        self.dequantized(x, "y")

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def constant(self, value):
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def of(self, name):
        """Returns the scale and the zero point of an activation."""
        scale, zero = self.scales[name]
        return [self.constant(scale), self.constant(np.int8(zero))]

    def activation(self):
        self.activations.append(f"a{len(self.activations)}")
        return self.activations[-1]

    def quantized(self, value):
        name = self.activation()
        if self.form == "real":
            return self.node("Identity", [value], name)
        self.made[f"{name}_q"] = name
        return self.node("QuantizeLinear", [value, *self.of(name)], f"{name}_q")

    def dequantized(self, value, output=None):
        output = output or self.name()
        if self.form == "real":
            return self.node("Identity", [value], output)
        return self.node("DequantizeLinear", [value, *self.of(self.made[value])], output)

    def real(self, op, inputs, quantize=True, dequantize=True):
        """Adds an operator on floats."""
        made = [self.dequantized(x) if dequantize else x for x in inputs]
        name = self.name()
        y = self.node(op, made, name)
        return y if not quantize else self.quantized(y)

    def conv(self, x, channels, layer):
        filters, kernel, stride, pad, group, relu = layer
        kernel = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        shape = (filters, channels // group, *kernel)
        w = self.draw.standard_normal(shape).astype(np.float32) / np.sqrt(np.prod(shape[1:]))
        b = self.draw.standard_normal(filters).astype(np.float32) / 4
        attributes = dict(group=group, strides=[stride, stride], kernel_shape=kernel,
                          pads=list(pad) if isinstance(pad, tuple) else [pad] * 4)
        name = self.name()
        if self.form == "real":
            y = self.node("Conv", [x, self.constant(w), self.constant(b)], name, **attributes)
            return self.quantized(self.node("Relu", [y], self.name()) if relu else y)
        scale = (np.abs(w).max(axis=(1, 2, 3)) / np.float32(127)).astype(np.float32)
        w = np.clip(np.rint(w / scale[:, None, None, None]), -127, 127).astype(np.int8)
        units = (self.scales[self.made[x]][0] * scale).astype(np.float32)
        b = np.rint(b / units).astype(np.int32)
        zeros = self.constant(np.zeros(filters, np.int8))
        weights = [self.constant(w), self.constant(scale), zeros]
        if self.form == "linear":
            # The zero point of an activation after `Relu` is the least byte, which clamps as `Relu`
            # does.
            of_x, output = self.of(self.made[x]), self.activation()
            inputs = [x, *of_x, *weights, *self.of(output), self.constant(b)]
            self.made[f"{output}_q"] = output
            return self.node("QLinearConv", inputs, f"{output}_q", **attributes)
        w = self.node("DequantizeLinear", weights, self.name(), axis=0)
        b = self.node("DequantizeLinear", [self.constant(b), self.constant(units)], self.name(),
                      axis=0)
        y = self.node("Conv", [self.dequantized(x), w, b], name, **attributes)
        return self.quantized(self.node("Relu", [y], self.name()) if relu else y)

    def model(self, shape, more=()):
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in more]
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "c", "h", "w"])
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "g", [x], [y, *outputs], self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def calibrated(layers, shape, draw):
    """Computes the scales and zero points of activations from some inputs."""
    real = Network(layers, shape, "real", {})
    names = real.activations
    model = real.model((CALIBRATION, *shape), names)
    x = draw.standard_normal((CALIBRATION, *shape)).astype(np.float32)
    scales = {}
    for name, value in zip(names, ReferenceEvaluator(model).run(names, {"x": x})):
        low, high = min(float(value.min()), 0.0), max(float(value.max()), 0.0)
        scale = np.float32((high - low) / 255)
        scales[name] = (scale, round(-128 - low / float(scale)))
    return scales


def ours(onnxc, path, x):
    out = path.with_suffix(".out")
    subprocess.run([onnxc, "run", path, "--input", f"x={x}", "--output-dir", out], check=True,
                   capture_output=True)
    return np.load(out / "y.npy")


def main(onnxc, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    good = True
    for name, (shape, layers) in NETWORKS.items():
        draw = np.random.default_rng(1)
        scales = calibrated(layers, shape, draw)
        x = draw.standard_normal((INPUTS, *shape)).astype(np.float32)
        np.save(folder / "x.npy", x)
        results = {}
        for form in ("linear", "between"):
            model = Network(layers, shape, form, scales).model((INPUTS, *shape))
            path = folder / f"{name}_{form}.onnx"
            onnx.save(model, path)
            results[form] = ours(onnxc, path, folder / "x.npy")
            results[f"reference {form}"] = ReferenceEvaluator(model).run(None, {"x": x})[0]
        wanted = results["reference linear"]
        equal = {form: sum(map(np.array_equal, found, wanted)) for form, found in results.items()}
        of_real = sum(map(np.array_equal, results["between"], results["reference between"]))
        print(
            f"{name}: QOperator {equal['linear']} and QDQ {equal['between']} of {INPUTS} equal to "
            f"integer sums; QDQ {of_real} equal to the evaluator's float sums, which equal integer "
            f"sums {equal['reference between']} times",
            flush=True,
        )
        good &= equal["linear"] == INPUTS and equal["between"] == INPUTS
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
