#!/usr/bin/env python3
"""Trains on digits in JAX as `examples/training` does: the same network, digits and recipe, with
other random numbers. Prints the accuracy on the held-out digits for each seed, and the median.

    PYTHONPATH=tests/peers python tests/peers/training/digits.py SEED...
"""
import functools
import pathlib
import statistics
import sys

import jax
import numpy as np
from jax import numpy as jnp

from in_jax import Jax, adam

EPOCHS, BATCH, RATE = 20, 32, 0.005
# The share of the newest weights in the running mean of the weights.
SHARE = 0.01
SHAPES = [(16, 1, 3, 3), (16,), (32, 16, 3, 3), (32,), (32, 32, 3, 3), (32,), (32, 10), (10,)]


def digits(name):
    """Reads images and labels: each digit is 64 pixels from 0 to 16 and a label in the file."""
    path = pathlib.Path(__file__).parents[3] / "examples/data/src" / f"{name}.bin"
    records = np.fromfile(path, np.uint8).reshape(-1, 65)
    images = records[:, :64].reshape(-1, 1, 8, 8).astype(np.float32) / 16
    return images, records[:, 64].astype(np.int64)


def scores(weights, images):
    net = Jax(weights, [], "NHWC")
    x = net.relu(net.conv(net.image(images), 1, 16, 3))
    x = net.max_pool(net.relu(net.conv(x, 16, 32, 3)), 2)
    return net.dense(net.pool_all(net.relu(net.conv(x, 32, 32, 3))), 32, 10)


@jax.jit
def step(state, images, labels):
    weights, moments, squares, mean, number = state

    def loss_of(weights):
        likely = jax.nn.log_softmax(scores(weights, images))
        return -jnp.take_along_axis(likely, labels[:, None], axis=1).mean()

    gradients = jax.grad(loss_of)(weights)
    update = functools.partial(adam, RATE, number + 1)
    weights, moments, squares = zip(*map(update, weights, gradients, moments, squares))
    mean = [old + SHARE * (new - old) for old, new in zip(mean, weights)]
    return weights, moments, squares, mean, number + 1


def first(random):
    """Returns initial weights: uniform in ±√(6 / fan_in); biases are zero."""

    def weight(shape):
        if len(shape) == 1:
            return jnp.zeros(shape, jnp.float32)
        fan = shape[0] if len(shape) == 2 else np.prod(shape[1:])
        return jnp.asarray(random.uniform(-1, 1, shape) * (6 / fan) ** 0.5, jnp.float32)

    weights = [weight(shape) for shape in SHAPES]
    zeros = [jnp.zeros_like(w) for w in weights]
    return weights, zeros, zeros, weights, jnp.float32(0)


def moved(image, random):
    """Shifts the image by at most a pixel along each axis, mostly by none."""
    down, right = random.choice([-1, 0, 0, 0, 0, 1], 2)
    return np.pad(image[0], 1)[None, 1 - down : 9 - down, 1 - right : 9 - right]


def learn(seed):
    """Trains, and returns the final accuracy on the held-out digits."""
    random = np.random.default_rng(seed)
    images, labels = digits("training")
    state = first(random)
    for _ in range(EPOCHS):
        order = random.permutation(len(images))
        for chosen in np.split(order, range(BATCH, len(order), BATCH)):
            batch = np.stack([moved(image, random) for image in images[chosen]])
            state = step(state, batch, labels[chosen])
    images, labels = digits("held_out")
    return float((scores(state[3], images).argmax(1) == labels).mean())


def main():
    shares = [learn(int(seed)) for seed in sys.argv[1:]]
    print(*(f"{share:.1%}" for share in shares), f"median {statistics.median(shares):.1%}")


if __name__ == "__main__":
    main()
