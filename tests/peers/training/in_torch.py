#!/usr/bin/env python3
"""Trains a network with PyTorch, controlled by lines on the standard input: see `serving.py`.

    in_torch.py NETWORK FOLDER contiguous_format|channels_last
"""
import pathlib
import sys

import numpy as np
import torch
from torch.nn import functional as F

from graph import first_values
from networks import EPSILON, NETWORKS
from serving import serve


class Torch:
    """The operations of `networks.py`, computed eagerly."""

    def __init__(self, weights, statistics, layout):
        self.layout = layout
        # Matrices have the layout of `torch.nn.Linear`.
        weights = [w.T.copy() if w.ndim == 2 else w for w in weights]
        self.weights = [self.placed(torch.tensor(w)).requires_grad_() for w in weights]
        self.statistics = [torch.tensor(s) for s in statistics]

    def placed(self, x):
        return x.contiguous(memory_format=self.layout) if x.dim() == 4 else x

    def run(self, network, x):
        self.next, self.next_statistic = iter(self.weights), iter(self.statistics)
        return network.forward(self, x)

    def dense(self, x, wide, out):
        weight, bias = next(self.next), next(self.next)
        return F.linear(x, weight, bias)

    def conv(self, x, channels, filters, kernel, stride=1, bias=True):
        weight = next(self.next)
        return F.conv2d(x, weight, next(self.next) if bias else None, stride, kernel // 2)

    def max_pool(self, x, kernel):
        return F.max_pool2d(x, kernel, 2, (kernel - 1) // 2)

    def batch_norm(self, x, channels):
        scale, bias = next(self.next), next(self.next)
        mean, variance = next(self.next_statistic), next(self.next_statistic)
        return F.batch_norm(x, mean, variance, scale, bias, training=True)

    def norm(self, x, wide):
        scale, bias = next(self.next), next(self.next)
        return F.layer_norm(x, (wide,), scale, bias)

    def attention(self, q, k, v, tokens, wide, heads):
        q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    def places(self, x, tokens, wide):
        return x + next(self.next)

    def image(self, x):
        return x

    def relu(self, x):
        return F.relu(x)

    def gelu(self, x):
        return F.gelu(x)

    def sum(self, x, y):
        return x + y

    def flatten(self, x):
        return x.flatten(1)

    def mean(self, x):
        return x.mean(1)

    def pool_all(self, x):
        return F.adaptive_avg_pool2d(x, 1).flatten(1)


def optimizer(network, weights):
    if network.optimizer == "adam":
        return torch.optim.Adam(weights, network.rate, eps=EPSILON, fused=True)
    return torch.optim.SGD(weights, network.rate, momentum=0.9, nesterov=True, fused=True)


def main():
    name, folder, layout = sys.argv[1], pathlib.Path(sys.argv[2]), getattr(torch, sys.argv[3])
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    network = NETWORKS[name]
    weights, statistics = first_values(folder / "inference.onnx")
    net = Torch(weights, statistics, layout)
    x = net.placed(torch.from_numpy(np.load(folder / "x.npy")))
    label = torch.from_numpy(np.load(folder / "label.npy"))
    method = optimizer(network, net.weights)

    def step():
        method.zero_grad()
        loss = F.cross_entropy(net.run(network, x), label)
        loss.backward()
        method.step()
        return loss

    serve(step, lambda loss: loss.item())


if __name__ == "__main__":
    main()
