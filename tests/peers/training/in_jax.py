#!/usr/bin/env python3
"""Trains a network with JAX, controlled by lines on the standard input: see `serving.py`.

    in_jax.py NETWORK FOLDER NCHW|NHWC
"""
import functools
import pathlib
import sys

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graph import first_values
from networks import EPSILON, NETWORKS
from serving import serve


class Jax:
    """The operations of `networks.py`, traced. After a run, `statistics` has the updated ones."""

    def __init__(self, weights, statistics, layout):
        self.next, self.next_statistic = iter(weights), iter(statistics)
        self.statistics, self.layout = [], layout
        self.sides = (2, 3) if layout == "NCHW" else (1, 2)

    def channels(self, x):
        """Reshapes one number per channel so that it can be broadcast to an image."""
        return x[:, None, None] if self.layout == "NCHW" else x

    def dense(self, x, wide, out):
        return x @ next(self.next) + next(self.next)

    def conv(self, x, channels, filters, kernel, stride=1, bias=True):
        layout, weight = (self.layout, "OIHW", self.layout), next(self.next)
        pads = [(kernel // 2, kernel // 2)] * 2
        y = lax.conv_general_dilated(x, weight, (stride, stride), pads, dimension_numbers=layout)
        return y + self.channels(next(self.next)) if bias else y

    def max_pool(self, x, kernel):
        if kernel == 2:
            # Windows that do not overlap become axes: the gradient of `reduce_window` is slow in
            # XLA.
            first, last = self.sides
            *before, high, wide = x.shape[: last + 1]
            x = x.reshape(*before, high // 2, 2, wide // 2, 2, *x.shape[last + 1 :])
            return x.max((first + 1, last + 2))
        sizes, strides, pads = [1] * 4, [1] * 4, [(0, 0)] * 4
        for side in self.sides:
            sizes[side], strides[side], pads[side] = kernel, 2, ((kernel - 1) // 2,) * 2
        return lax.reduce_window(x, -jnp.inf, lax.max, sizes, strides, pads)

    def batch_norm(self, x, channels):
        scale, bias = next(self.next), next(self.next)
        axes = (0, *self.sides)
        mean = x.mean(axes)
        variance = (x * x).mean(axes) - mean**2
        for new in (mean, variance):
            self.statistics.append(0.9 * next(self.next_statistic) + 0.1 * new)
        factor = scale * lax.rsqrt(variance + 1e-5)
        return x * self.channels(factor) + self.channels(bias - mean * factor)

    def norm(self, x, wide):
        scale, bias = next(self.next), next(self.next)
        x = x - x.mean(-1, keepdims=True)
        return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale + bias

    def attention(self, q, k, v, tokens, wide, heads):
        q, k, v = (x.reshape(*x.shape[:2], heads, wide // heads) for x in (q, k, v))
        return jax.nn.dot_product_attention(q, k, v).reshape(-1, tokens, wide)

    def places(self, x, tokens, wide):
        return x + next(self.next)

    def image(self, x):
        return x if self.layout == "NCHW" else x.transpose(0, 2, 3, 1)

    def relu(self, x):
        return jnp.maximum(x, 0)

    def gelu(self, x):
        return jax.nn.gelu(x, approximate=False)

    def sum(self, x, y):
        return x + y

    def flatten(self, x):
        x = x if self.layout == "NCHW" else x.transpose(0, 3, 1, 2)
        return x.reshape(len(x), -1)

    def mean(self, x):
        return x.mean(1)

    def pool_all(self, x):
        return x.mean(self.sides)


def adam(rate, step, w, g, m, v):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    root = jnp.sqrt(v / (1 - 0.999**step)) + EPSILON
    return w - rate / (1 - 0.9**step) * m / root, m, v


def nesterov(rate, step, w, g, m, _):
    m = 0.9 * m + g
    return w - rate * (g + 0.9 * m), m, _


def stepped(network, layout, state, x, label):
    """Returns the state after a step, and the loss."""
    weights, statistics, moments, step = state

    def loss_of(weights):
        net = Jax(weights, statistics, layout)
        scores = network.forward(net, x)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), label[:, None], axis=1)
        return -chosen.mean(), net.statistics

    (loss, statistics), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights)
    method = adam if network.optimizer == "adam" else nesterov
    method = functools.partial(method, network.rate, step + 1)
    weights, *moments = zip(*map(method, weights, gradients, *moments))
    return (weights, statistics, moments, step + 1), loss


def main():
    network, folder, layout = NETWORKS[sys.argv[1]], pathlib.Path(sys.argv[2]), sys.argv[3]
    first = first_values(folder / "inference.onnx")
    weights, statistics = ([jnp.asarray(array) for array in arrays] for arrays in first)
    kept = 2 if network.optimizer == "adam" else 1
    moments = [[jnp.zeros_like(w) for w in weights] for _ in range(kept)]
    moments += [[None] * len(weights)] * (2 - kept)
    state = (weights, statistics, moments, jnp.float32(0))
    x, label = (jnp.asarray(np.load(folder / f"{name}.npy")) for name in ["x", "label"])
    compiled = jax.jit(functools.partial(stepped, network, layout), donate_argnums=0)

    def step():
        nonlocal state
        state, loss = compiled(state, x, label)
        return loss

    serve(step, float)


if __name__ == "__main__":
    main()
