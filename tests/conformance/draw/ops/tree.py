"""Decision trees."""

import numpy as np
from onnx import numpy_helper

from ..registry import operator
from ..types import F32, F64, I64
from .ml import ML, classes, transformed

MODES = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}


class Node:
    """A branch, or a leaf with a weight for each of some targets."""

    def __init__(self, d, depth, features, targets, every, members=False):
        self.leaf = depth == 0 or d.chance(0.2)
        if self.leaf:
            chosen = range(targets) if every else sorted(d.some(range(targets), least=1))
            self.weights = {target: d.float(0.1, 1) for target in chosen}
            return
        self.feature, self.mode = (
            d.int(0, features - 1),
            d.one_of([*MODES, *(["BRANCH_MEMBER"] if members else [])]),
        )
        self.value, self.missing = float(d.int(-3, 3)), d.int(0, 1)
        self.members = sorted({float(d.int(-3, 3)) for _ in range(d.int(1, 3))})
        self.sides = [Node(d, depth - 1, features, targets, every, members) for _ in range(2)]

    def weights_of(self, row):
        """Returns the weights of the leaf that a row reaches."""
        node = self
        while not node.leaf:
            x = row[node.feature]
            if np.isnan(x):
                yes = node.missing or node.mode == "BRANCH_NEQ"
            else:
                yes = (
                    x in node.members
                    if node.mode == "BRANCH_MEMBER"
                    else MODES[node.mode](x, node.value)
                )
            node = node.sides[0 if yes else 1]
        return node.weights


def forest(d, features, targets, every, members=False):
    return [Node(d, d.int(1, 3), features, targets, every, members) for _ in range(d.int(1, 3))]


def listed(trees, kind):
    """Returns the attributes that list trees node by node, as all versions but the last do."""
    names = (
        "treeids",
        "nodeids",
        "featureids",
        "modes",
        "values",
        "truenodeids",
        "falsenodeids",
        "missing_value_tracks_true",
    )
    lists = {f"nodes_{name}": [] for name in names}
    lists |= {f"{kind}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}

    def add(name, *values):
        for key, value in zip(name, values):
            lists[key].append(value)

    for tree, root in enumerate(trees):
        waiting, numbered = [root], {id(root): 0}
        while waiting:
            node = waiting.pop(0)
            for side in () if node.leaf else node.sides:
                numbered[id(side)] = len(numbered)
                waiting.append(side)
            number = numbered[id(node)]
            yes, no = (0, 0) if node.leaf else (numbered[id(side)] for side in node.sides)
            row = (
                (0, "LEAF", 0.0, 0, 0, 0)
                if node.leaf
                else (node.feature, node.mode, node.value, yes, no, node.missing)
            )
            add([f"nodes_{name}" for name in names], tree, number, *row)
            for target, weight in node.weights.items() if node.leaf else ():
                add(
                    [f"{kind}_{name}" for name in ("treeids", "nodeids", "ids", "weights")],
                    tree,
                    number,
                    target,
                    weight,
                )
    return lists


def table(d):
    """Returns rows of features, some of which are missing."""
    x = d.tensor(
        d.one_of([F32, F32, F64, I64, np.dtype(np.int32)]), [d.int(1, 4), d.int(1, 4)], -4, 4, 0
    )
    if x.dtype.kind == "f":
        x = np.where(d.rng.random(x.shape) < 0.5, np.rint(x), x)
        x = np.where(d.rng.random(x.shape) < d.one_of([0, 0.2]), np.nan, x)
    return x


def tensors(d, attributes, names):
    """Converts some lists of numbers to tensors, if this version has tensors."""
    result = dict(attributes)
    for name in names:
        if f"{name}_as_tensor" in d.schema.attributes and name in result and d.chance(0.4):
            result[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(result.pop(name), F32))
    return result


AGGREGATES = {"SUM": np.sum, "AVERAGE": np.mean, "MIN": np.min, "MAX": np.max}


def scores(trees, x, targets, how):
    """Returns the sum of the weights of all trees, for each row and target."""
    result = np.zeros((len(x), targets))
    for i, row in enumerate(x):
        found = [tree.weights_of(row) for tree in trees]
        for target in range(targets):
            values = [weights.get(target, 0.0) for weights in found]
            result[i, target] = AGGREGATES[how](values)
    return result


@operator("TreeEnsembleRegressor", domain=ML)
def tree_regressor(d):
    x, targets = table(d), d.int(1, 3)
    how = d.one_of([None, *AGGREGATES])
    trees = forest(d, x.shape[1], targets, every=how in ("MIN", "MAX"))
    after = d.one_of([None, "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
    base = d.maybe([d.float(-1, 1) for _ in range(targets)])
    attributes = listed(trees, "target") | d.attributes(
        aggregate_function=how, post_transform=after, base_values=base, n_targets=targets
    )

    def reference(x):
        found = scores(trees, x.astype(F32), targets, how or "SUM") + (
            0 if base is None else np.array(base)
        )
        return transformed(found, after).astype(F32)

    attributes = tensors(d, attributes, ("nodes_values", "target_weights", "base_values"))
    return d.case([x], reference, attributes=attributes, fixed=(0,))


@operator("TreeEnsembleClassifier", domain=ML)
def tree_classifier(d):
    x = table(d)
    names, attribute, dtype = classes(d, d.int(2, 4), "int64s")
    trees = forest(d, x.shape[1], len(names), every=len(names) == 2)
    after = d.one_of([None, "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
    base = d.maybe([d.float(-1, 1) for _ in names], 0.3)
    attributes = (
        listed(trees, "class")
        | d.attributes(post_transform=after, base_values=base)
        | {attribute: names}
    )

    def reference(x):
        found = scores(trees, x.astype(F32), len(names), "SUM") + (
            0 if base is None else np.array(base)
        )
        labels = np.array([names[i] for i in found.argmax(1)], dtype)
        return labels, transformed(found, after).astype(F32)

    attributes = tensors(d, attributes, ("nodes_values", "class_weights", "base_values"))
    return d.case([x], reference, outputs=2, attributes=attributes, fixed=(0,))


CODES = {
    name: code
    for code, name in enumerate(
        (
            "BRANCH_LEQ",
            "BRANCH_LT",
            "BRANCH_GTE",
            "BRANCH_GT",
            "BRANCH_EQ",
            "BRANCH_NEQ",
            "BRANCH_MEMBER",
        )
    )
}


@operator("TreeEnsemble", domain=ML)
def tree_ensemble(d):
    dtype, targets = d.type(), d.int(1, 3)
    x = d.tensor(dtype, [d.int(1, 4), d.int(1, 4)], -4, 4, 0)
    x = np.where(d.rng.random(x.shape) < 0.5, np.rint(x), x)
    x = np.where(d.rng.random(x.shape) < d.one_of([0, 0.2]), np.nan, x).astype(dtype)
    how, after = d.one_of(["AVERAGE", "SUM", "MIN", "MAX"]), d.int(0, 3)
    trees = forest(d, x.shape[1], targets, every=True, members=True)
    # A leaf of this version has one target.
    questions, leaves, roots, members = [], [], [], []

    def visit(node):
        if node.leaf:
            target, weight = d.one_of(list(node.weights.items()))
            node.weights = {target: weight}
            leaves.append((target, weight))
            return len(leaves) - 1, 1
        place = len(questions)
        questions.append(None)
        if node.mode == "BRANCH_MEMBER":
            members.extend([*node.members, float("nan")])
        (yes, yes_leaf), (no, no_leaf) = (visit(side) for side in node.sides)
        questions[place] = (
            node.feature,
            CODES[node.mode],
            node.value,
            yes,
            yes_leaf,
            no,
            no_leaf,
            node.missing,
        )
        return place, 0

    for tree in list(trees):
        if tree.leaf:
            trees.remove(tree)
        else:
            roots.append(visit(tree)[0])
    if not trees:
        return tree_ensemble(d)
    features, modes, values, yes, yes_leaf, no, no_leaf, missing = (
        list(column) for column in zip(*questions)
    )
    tensor = lambda values, dtype: numpy_helper.from_array(np.array(values, dtype))
    attributes = {
        "aggregate_function": list(("AVERAGE", "SUM", "MIN", "MAX")).index(how),
        "post_transform": after,
        "n_targets": targets,
        "tree_roots": roots,
        "nodes_featureids": features,
        "nodes_modes": tensor(modes, np.uint8),
        "nodes_splits": tensor(values, dtype),
        "nodes_truenodeids": yes,
        "nodes_trueleafs": yes_leaf,
        "nodes_falsenodeids": no,
        "nodes_falseleafs": no_leaf,
        "leaf_targetids": [target for target, _ in leaves],
        "leaf_weights": tensor([weight for _, weight in leaves], dtype),
    }
    if any(missing) or d.chance(0.5):
        attributes["nodes_missing_value_tracks_true"] = missing
    if members:
        attributes["membership_values"] = tensor(members, dtype)

    def reference(x):
        result = np.zeros((len(x), targets))
        for i, row in enumerate(x.astype(F64)):
            found = [tree.weights_of(row) for tree in trees]
            for target in range(targets):
                values = [np.float64(np.array(w[target], dtype)) for w in found if target in w]
                if values:
                    result[i, target] = (
                        np.sum(values) / len(trees) if how == "AVERAGE" else AGGREGATES[how](values)
                    )
        return transformed(result, ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")[after]).astype(
            dtype
        )

    return d.case([x], reference, attributes=attributes, fixed=(0,))
