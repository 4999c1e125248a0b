#!/usr/bin/env python3
"""Generates the models of the comparison: well-known shapes, with random weights from a seed.

    models.py FOLDER

The time of a model depends on its shapes, not on its weights.
"""
import pathlib
import sys
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR = 17, 8


class Model:
    """A model that grows node by node; each method returns the name of the output that it adds."""

    def __init__(self, name):
        self.name = name
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self.nodes, self.constants, self.inputs, self.outputs = [], [], [], []

    def input(self, name, shape, dtype=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, value, name, shape):
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def floats(self, *shape, scale=1.0, mean=0.0):
        numbers = mean + scale * self.random.standard_normal(shape)
        return self.constant(numbers.astype(np.float32))

    def ints(self, *numbers):
        return self.constant(np.array(numbers, np.int64))

    def scalar(self, number):
        return self.constant(np.float32(number))

    def all(self, kind, inputs, outputs, **attributes):
        names = [f"{kind.lower()}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, names[0], **attributes))
        return names

    def add(self, kind, *inputs, **attributes):
        return self.all(kind, inputs, 1, **attributes)[0]

    def conv(self, x, channels, filters, kernel, *, stride=1, pads=None, groups=1, gain=1.0):
        kernel = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        fan = channels // groups * kernel[0] * kernel[1]
        weights = self.floats(filters, channels // groups, *kernel, scale=gain * (2 / fan) ** 0.5)
        pads = pads or [kernel[0] // 2, kernel[1] // 2] * 2
        bias = self.floats(filters, scale=0.05)
        strides = [stride, stride]
        more = {"kernel_shape": kernel, "dilations": [1, 1], "pads": pads, "group": groups}
        return self.add("Conv", x, weights, bias, strides=strides, **more)

    def relu(self, x):
        return self.add("Relu", x)

    def relu6(self, x):
        return self.add("Clip", x, self.scalar(0), self.scalar(6))

    def dense(self, x, wide, out, gain=1.0):
        weights = self.floats(out, wide, scale=gain * (2 / wide) ** 0.5)
        return self.add("Gemm", x, weights, self.floats(out, scale=0.05), transB=1)

    def classes(self, x, channels, classes):
        x = self.add("Flatten", self.add("GlobalAveragePool", x))
        self.output(self.dense(x, channels, classes, 0.7), "output", [1, classes])

    def linear(self, x, wide, out):
        y = self.add("MatMul", x, self.floats(wide, out, scale=wide**-0.5))
        return self.add("Add", y, self.floats(out, scale=0.02))

    def norm(self, x, wide):
        scale, bias = self.floats(wide, mean=1.0, scale=0.1), self.floats(wide, scale=0.05)
        return self.add("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def gelu(self, x):
        erf = self.add("Erf", self.add("Div", x, self.scalar(2**0.5)))
        half = self.add("Mul", x, self.scalar(0.5))
        return self.add("Mul", half, self.add("Add", erf, self.scalar(1)))

    def heads(self, x, shape, perm):
        return self.add("Transpose", self.add("Reshape", x, shape), perm=perm)

    def save(self, folder):
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR)
        model = onnx.shape_inference.infer_shapes(model)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, folder / f"{self.name}.onnx")


def tiny_mlp():
    m = Model("tiny-mlp")
    x = m.input("input", [1, 32])
    x = m.relu(m.dense(x, 32, 32))
    x = m.relu(m.dense(x, 32, 16))
    m.output(m.dense(x, 16, 4), "output", [1, 4])
    return m


def autoencoder():
    """MLPerf Tiny: anomaly detection in sound."""
    m = Model("autoencoder")
    x = m.input("input", [1, 640])
    sizes = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128]
    for wide, out in zip(sizes, sizes[1:]):
        x = m.relu(m.dense(x, wide, out))
    m.output(m.dense(x, 128, 640), "output", [1, 640])
    return m


def mnist_cnn():
    """LeNet-5."""
    m = Model("mnist-cnn")
    x = m.input("input", [1, 1, 28, 28])
    for channels, filters, pad in [(1, 6, 2), (6, 16, 0)]:
        x = m.relu(m.conv(x, channels, filters, 5, pads=[pad] * 4))
        x = m.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = m.add("Flatten", x)
    x = m.relu(m.dense(x, 400, 120))
    x = m.relu(m.dense(x, 120, 84))
    m.output(m.add("Softmax", m.dense(x, 84, 10)), "output", [1, 10])
    return m


def ds_cnn():
    """MLPerf Tiny: keyword spotting."""
    m = Model("ds-cnn")
    x = m.input("input", [1, 1, 49, 10])
    x = m.relu(m.conv(x, 1, 64, (10, 4), stride=2, pads=[4, 1, 5, 1]))
    for _ in range(4):
        x = m.relu(m.conv(x, 64, 64, 3, groups=64))
        x = m.relu(m.conv(x, 64, 64, 1))
    m.classes(x, 64, 12)
    return m


def resnet8():
    """MLPerf Tiny: image classification."""
    m = Model("resnet8")
    x = m.relu(m.conv(m.input("input", [1, 3, 32, 32]), 3, 16, 3))
    channels = 16
    for filters, stride in [(16, 1), (32, 2), (64, 2)]:
        y = m.relu(m.conv(x, channels, filters, 3, stride=stride))
        y = m.conv(y, filters, filters, 3, gain=0.5)
        x = m.conv(x, channels, filters, 1, stride=stride) if stride > 1 else x
        x, channels = m.relu(m.add("Add", x, y)), filters
    m.classes(x, 64, 10)
    return m


def mobilenet_v1():
    """MLPerf Tiny: person detection."""
    m = Model("mobilenet-v1-025")
    x, channels = m.relu(m.conv(m.input("input", [1, 3, 96, 96]), 3, 8, 3, stride=2)), 8
    widths = [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2)]
    for filters, stride in widths + [(128, 1)] * 5 + [(256, 2), (256, 1)]:
        x = m.relu(m.conv(x, channels, channels, 3, stride=stride, groups=channels))
        x, channels = m.relu(m.conv(x, channels, filters, 1)), filters
    m.classes(x, 256, 2)
    return m


def mobilenet_v2():
    m = Model("mobilenet-v2")
    x, channels = m.relu6(m.conv(m.input("input", [1, 3, 224, 224]), 3, 32, 3, stride=2)), 32
    stages = [
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
        (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ]
    for times, filters, count, first in stages:
        for stride in [first] + [1] * (count - 1):
            y, wide = x, channels * times
            if times > 1:
                y = m.relu6(m.conv(y, channels, wide, 1))
            y = m.relu6(m.conv(y, wide, wide, 3, stride=stride, groups=wide))
            y = m.conv(y, wide, filters, 1, gain=0.7)
            x = m.add("Add", x, y) if stride == 1 and channels == filters else y
            channels = filters
    m.classes(m.relu6(m.conv(x, 320, 1280, 1)), 1280, 1000)
    return m


def resnet(name, counts, deep):
    m = Model(name)
    x = m.relu(m.conv(m.input("input", [1, 3, 224, 224]), 3, 64, 7, stride=2))
    x = m.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, (count, wide) in enumerate(zip(counts, [64, 128, 256, 512])):
        filters = wide * 4 if deep else wide
        for stride in [2 if stage else 1] + [1] * (count - 1):
            if deep:
                y = m.relu(m.conv(x, channels, wide, 1))
                y = m.relu(m.conv(y, wide, wide, 3, stride=stride))
                y = m.conv(y, wide, filters, 1, gain=0.4)
            else:
                y = m.relu(m.conv(x, channels, wide, 3, stride=stride))
                y = m.conv(y, wide, wide, 3, gain=0.4)
            if stride > 1 or channels != filters:
                x = m.conv(x, channels, filters, 1, stride=stride, gain=0.7)
            x, channels = m.relu(m.add("Add", x, y)), filters
    m.classes(x, channels, 1000)
    return m


def encoder(layers=6, wide=384, heads=12, inner=1536, length=128, words=4096):
    """The shapes of MiniLM-L6."""
    m = Model("minilm-l6")
    ids = m.input("input_ids", [1, length], TensorProto.INT64)
    mask = m.input("attention_mask", [1, length], TensorProto.INT64)
    x = m.add("Gather", m.floats(words, wide, scale=0.5), ids)
    x = m.norm(m.add("Add", x, m.floats(1, length, wide, scale=0.5)), wide)
    mask = m.add("Cast", m.add("Unsqueeze", mask, m.ints(1, 2)), to=TensorProto.FLOAT)
    mask = m.add("Mul", m.add("Sub", m.scalar(1), mask), m.scalar(-10000))
    size = wide // heads
    apart, joined = m.ints(1, length, heads, size), m.ints(1, length, wide)
    for _ in range(layers):
        q, k, v = (
            m.heads(m.linear(x, wide, wide), apart, perm)
            for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scores = m.add("Div", m.add("MatMul", q, k), m.scalar(size**0.5))
        y = m.add("MatMul", m.add("Softmax", m.add("Add", scores, mask), axis=-1), v)
        y = m.add("Reshape", m.add("Transpose", y, perm=[0, 2, 1, 3]), joined)
        x = m.norm(m.add("Add", m.linear(y, wide, wide), x), wide)
        y = m.linear(m.gelu(m.linear(x, wide, inner)), inner, wide)
        x = m.norm(m.add("Add", y, x), wide)
    m.output(x, "output", [1, length, wide])
    return m


def decoder(layers=4, wide=512, heads=8, past=255, words=8192):
    """One step of a small GPT-2, with a KV cache."""
    m = Model("gpt-step")
    size = wide // heads
    ids = m.input("input_ids", [1, 1], TensorProto.INT64)
    place = m.input("position_ids", [1, 1], TensorProto.INT64)
    x = m.add("Gather", m.floats(words, wide, scale=0.5), ids)
    x = m.add("Add", x, m.add("Gather", m.floats(512, wide, scale=0.5), place))
    apart, joined, parts = m.ints(1, 1, heads, size), m.ints(1, 1, wide), m.ints(*[wide] * 3)
    for layer in range(layers):
        y = m.linear(m.norm(x, wide), wide, 3 * wide)
        y = m.all("Split", [y, parts], 3, axis=2)
        q, k, v = (m.heads(part, apart, [0, 2, 1, 3]) for part in y)
        cache = []
        for name, new in [(f"k{layer}", k), (f"v{layer}", v)]:
            old = m.input(f"past_{name}", [1, heads, past, size])
            cache.append(m.add("Concat", old, new, axis=2))
            m.output(cache[-1], f"present_{name}", [1, heads, past + 1, size])
        scores = m.add("MatMul", q, m.add("Transpose", cache[0], perm=[0, 1, 3, 2]))
        scores = m.add("Softmax", m.add("Mul", scores, m.scalar(size**-0.5)), axis=-1)
        y = m.add("Transpose", m.add("MatMul", scores, cache[1]), perm=[0, 2, 1, 3])
        x = m.add("Add", x, m.linear(m.add("Reshape", y, joined), wide, wide))
        y = m.gelu(m.linear(m.norm(x, wide), wide, 4 * wide))
        x = m.add("Add", x, m.linear(y, 4 * wide, wide))
    x = m.add("MatMul", m.norm(x, wide), m.floats(wide, words, scale=wide**-0.5))
    m.output(x, "logits", [1, 1, words])
    return m


def recurrent(kind, gates, steps=50, wide=64, hidden=128, **attributes):
    m = Model(kind.lower())
    x = m.input("input", [steps, 1, wide])
    weights = [m.floats(1, gates * hidden, n, scale=hidden**-0.5) for n in (wide, hidden)]
    bias = m.floats(1, 2 * gates * hidden, scale=0.1)
    y = m.all(kind, [x, *weights, bias], 2, hidden_size=hidden, **attributes)[1]
    y = m.dense(m.add("Squeeze", y, m.ints(0)), hidden, 10)
    m.output(y, "output", [1, 10])
    return m


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    models = [
        tiny_mlp(), autoencoder(), mnist_cnn(), ds_cnn(), resnet8(), mobilenet_v1(), mobilenet_v2(),
        resnet("resnet18", [2, 2, 2, 2], False), resnet("resnet50", [3, 4, 6, 3], True),
        encoder(), decoder(), recurrent("LSTM", 4), recurrent("GRU", 3, linear_before_reset=1),
    ]
    for model in models:
        model.save(folder)


if __name__ == "__main__":
    main()
