"""The networks that are trained. Each is defined once: `net` builds an ONNX graph of it
(`graph.py`), or computes it in PyTorch or JAX.
"""
from dataclasses import dataclass, field
from typing import Callable

# Keeps Adam from dividing by zero. ONNX adds it before the bias correction, PyTorch after it: it is
# so small that the difference is invisible.
EPSILON = 1e-12


@dataclass
class Network:
    """A classifier, and how it is trained."""

    forward: Callable
    input: list[int]
    classes: int
    optimizer: str
    rate: float
    batch: int = 32
    # Options of `onnxc train-prep` for networks with batch normalization.
    prepare: list[str] = field(default_factory=list)


def mlp(*sizes):
    def forward(net, x):
        for wide, out in zip(sizes, sizes[1:-1]):
            x = net.relu(net.dense(x, wide, out))
        return net.dense(x, *sizes[-2:])

    return forward


def cnn(side, *filters):
    """Pooling halves the image after each convolution."""

    def forward(net, x):
        x = net.image(x)
        for channels, out in zip((1, *filters), filters):
            x = net.max_pool(net.relu(net.conv(x, channels, out, 3)), 2)
        side_after = side >> len(filters)
        return net.dense(net.flatten(x), filters[-1] * side_after**2, 10)

    return forward


def transformer(tokens, given, wide, heads, hidden):
    """One block, and the mean of its outputs over the tokens."""

    def forward(net, x):
        x = net.places(net.dense(x, given, wide), tokens, wide)
        y = net.norm(x, wide)
        q, k, v = (net.dense(y, wide, wide) for _ in range(3))
        y = net.attention(q, k, v, tokens, wide, heads)
        x = net.sum(x, net.dense(y, wide, wide))
        y = net.gelu(net.dense(net.norm(x, wide), wide, hidden))
        x = net.sum(x, net.dense(y, hidden, wide))
        return net.dense(net.mean(x), wide, 10)

    return forward


def resnet18(net, x):
    def conv(x, channels, out, kernel, stride=1):
        return net.batch_norm(net.conv(x, channels, out, kernel, stride, bias=False), out)

    x = net.relu(conv(net.image(x), 3, 64, 7, 2))
    x = net.max_pool(x, 3)
    channels = 64
    for out in [64, 64, 128, 128, 256, 256, 512, 512]:
        stride = 1 if out == channels else 2
        y = net.relu(conv(x, channels, out, 3, stride))
        y = conv(y, out, out, 3)
        x = x if stride == 1 else conv(x, channels, out, 1, stride)
        x = net.relu(net.sum(x, y))
        channels = out
    return net.dense(net.pool_all(x), 512, 1000)


NETWORKS = {
    "digits-cnn": Network(cnn(8, 8, 16), [1, 8, 8], 10, "nesterov", 0.05),
    "digits-mlp": Network(mlp(64, 32, 10), [64], 10, "adam", 0.01),
    "digits-transformer": Network(transformer(8, 8, 32, 4, 64), [8, 8], 10, "adam", 0.001),
    "mlp": Network(mlp(784, 512, 256, 10), [784], 10, "adam", 0.001),
    "cnn": Network(cnn(28, 32, 64), [1, 28, 28], 10, "nesterov", 0.01),
    "transformer": Network(transformer(32, 64, 256, 8, 1024), [32, 64], 10, "adam", 0.0001),
    "resnet18": Network(
        resnet18, [3, 224, 224], 1000, "nesterov", 0.001, batch=8, prepare=["--training-mode"]
    ),
}
