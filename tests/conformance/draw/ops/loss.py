"""Losses."""

import numpy as np

from ..registry import operator
from ..types import F64, wide


def operands(d):
    """Returns scores for each class, labels, weights, and attributes."""
    batch, classes = d.int(1, 3), d.int(1, 4)
    inner = d.shape(most=2, size=(1, 3), empty=0)
    dtype = d.type("T")
    scores = d.tensor(dtype, [batch, classes, *inner], extremes=0)
    ignored = d.one_of([None, None, 0, -1, classes + 2])
    labels = d.integers(d.type("Tind"), [batch, *inner], 0, classes - 1)
    if ignored is not None:
        labels = np.where(d.rng.random(labels.shape) < 0.3, ignored, labels).astype(labels.dtype)
    weights = d.maybe(d.tensor(dtype, [classes], 0.25, 2, 0))
    attributes = d.attributes(
        ignore_index=ignored, reduction=d.one_of([None, "none", "sum", "mean"])
    )
    return [scores, labels, weights], attributes, ignored


def loss(log, labels, weights, attributes, ignored):
    """Computes the loss from log-probabilities."""
    kept = labels != ignored if ignored is not None else np.ones(labels.shape, bool)
    safe = np.where(kept, labels, 0).astype(int)
    picked = np.take_along_axis(log, np.expand_dims(safe, 1), 1).squeeze(1)
    weight = np.where(kept, 1.0 if weights is None else weights[safe], 0)
    result = -picked * weight
    how = attributes.get("reduction", "mean")
    if how == "none":
        return result
    return result.sum() if how == "sum" else result.sum() / weight.sum()


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood(d):
    inputs, attributes, ignored = operands(d)
    reference = lambda x, labels, weights=None: loss(x, labels, weights, attributes, ignored)
    return d.case(inputs, wide(reference), attributes=attributes)


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(d):
    inputs, attributes, ignored = operands(d)
    outputs = d.int(1, 2)

    def reference(x, labels, weights=None):
        rows = x.astype(F64)
        rows = rows - rows.max(1, keepdims=True)
        log = rows - np.log(np.exp(rows).sum(1, keepdims=True))
        weights = None if weights is None else weights.astype(F64)
        result = np.asarray(loss(log, labels, weights, attributes, ignored))
        return tuple(y.astype(x.dtype) for y in (result, log)[:outputs])

    return d.case(inputs, reference, outputs=outputs, attributes=attributes)
