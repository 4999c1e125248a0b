"""Builds a network as an ONNX graph, with initial values from a seed, and reads them back."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from models import Model


class Graph(Model):
    """The operations of `networks.py` as ONNX nodes. The names of weights and statistics say which
    they are. Their order is the order in which the network requests them.
    """

    def parameter(self, *shape, scale=0.0, mean=0.0, kind="weight"):
        numbers = mean + scale * self.random.standard_normal(shape)
        name = f"{kind}{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(numbers.astype(np.float32), name))
        return name

    def scalar(self, number):
        """Adds a scalar, as exporters write it: constants with axes are trained."""
        name = f"scalar{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(number, np.float32), name))
        return name

    def dense(self, x, wide, out):
        y = self.add("MatMul", x, self.parameter(wide, out, scale=wide**-0.5))
        return self.add("Add", y, self.parameter(out))

    def conv(self, x, channels, filters, kernel, stride=1, bias=True):
        scale = (2 / (channels * kernel**2)) ** 0.5
        weights = [self.parameter(filters, channels, kernel, kernel, scale=scale)]
        weights += [self.parameter(filters)] if bias else []
        pads = [kernel // 2] * 4
        sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2}
        return self.add("Conv", x, *weights, pads=pads, **sizes)

    def max_pool(self, x, kernel):
        pads = [(kernel - 1) // 2] * 4
        return self.add("MaxPool", x, kernel_shape=[kernel] * 2, strides=[2, 2], pads=pads)

    def batch_norm(self, x, channels):
        given = [self.parameter(channels, mean=1.0), self.parameter(channels)]
        given += [self.parameter(channels, mean=mean, kind="statistic") for mean in (0.0, 1.0)]
        return self.add("BatchNormalization", x, *given)

    def norm(self, x, wide):
        scale, bias = self.parameter(wide, mean=1.0), self.parameter(wide)
        return self.add("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def attention(self, q, k, v, tokens, wide, heads):
        apart = self.ints(0, tokens, heads, wide // heads)
        q, v = (self.heads(x, apart, [0, 2, 1, 3]) for x in (q, v))
        scores = self.add("MatMul", q, self.heads(k, apart, [0, 2, 3, 1]))
        scores = self.add("Mul", scores, self.scalar((wide // heads) ** -0.5))
        y = self.add("MatMul", self.add("Softmax", scores, axis=-1), v)
        y = self.add("Transpose", y, perm=[0, 2, 1, 3])
        return self.add("Reshape", y, self.ints(0, tokens, wide))

    def places(self, x, tokens, wide):
        return self.add("Add", x, self.parameter(1, tokens, wide, scale=0.02))

    def image(self, x):
        return x

    def sum(self, x, y):
        return self.add("Add", x, y)

    def flatten(self, x):
        return self.add("Flatten", x)

    def mean(self, x):
        return self.add("ReduceMean", x, axes=[1], keepdims=0)

    def pool_all(self, x):
        return self.flatten(self.add("GlobalAveragePool", x))


def write(name, network, path):
    """Writes a network as an inference model."""
    graph = Graph(name)
    x = graph.input("x", ["batch", *network.input])
    graph.output(network.forward(graph, x), "scores", ["batch", network.classes])
    graph.save(path)


def first_values(path):
    """Returns the weights of a model, and the statistics of its normalizations, each in order."""
    tensors = onnx.load(path).graph.initializer
    arrays = {kind: [t for t in tensors if t.name.startswith(kind)] for kind in KINDS}
    return [[numpy_helper.to_array(tensor) for tensor in arrays[kind]] for kind in KINDS]


KINDS = ["weight", "statistic"]
