"""Classical machine learning: features, categories, linear models and maps."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from ..registry import operator
from ..types import F32, F64, I32, I64, STRING, onnx_type

ML = "ai.onnx.ml"
CATEGORIES = ("cat", "dog", "Zürich", "", "owl", "a b")


def numbers(d, dtype, rows=(1, 4), columns=(1, 4)):
    """Returns a table of features."""
    return d.tensor(dtype, [d.int(*rows), d.int(*columns)], -5, 5, 0)


@operator("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(d):
    shape = d.shape(least=1, most=3, empty=0)
    at = d.integers(I64, [d.int(1, 4)], 0, shape[-1] - 1)
    take = lambda x, at: x[..., at] if x.ndim > 1 else x[None, at]
    return d.case([d.tensor(d.type(), shape, extremes=0), at], take, fixed=(0,))


@operator("Binarizer", domain=ML)
def binarizer(d):
    threshold = d.maybe(float(d.int(-2, 2)))
    reference = lambda x: (x > (threshold or 0)).astype(x.dtype)
    return d.case(
        [d.tensor(d.type(), d.shape(), extremes=0)],
        reference,
        attributes=d.attributes(threshold=threshold),
    )


@operator("FeatureVectorizer", domain=ML)
def feature_vectorizer(d):
    dtype, rows = d.type("T1"), d.int(1, 3)
    widths = [d.int(1, 3) for _ in range(d.int(1, 3))]
    inputs = [d.tensor(dtype, [rows, width], -5, 5, 0) for width in widths]
    reference = lambda *inputs: np.concatenate([x.astype(F32) for x in inputs], 1)
    return d.case(inputs, reference, attributes={"inputdimensions": widths}, symbolic=False)


@operator("Imputer", domain=ML)
def imputer(d):
    dtype = d.type()
    x = numbers(d, dtype)
    whole = dtype in (I32, I64)
    count = d.one_of([1, x.shape[1]])
    values = [d.int(-9, 9) if whole else d.float(-9, 9) for _ in range(count)]
    replaced = d.int(-1, 1) if whole else d.one_of([0.0, 1.0, float("nan")])
    some = d.rng.random(x.shape) < 0.4
    x = np.where(some, replaced, x).astype(dtype)
    names = (
        ("imputed_value_int64s", "replaced_value_int64")
        if whole
        else ("imputed_value_floats", "replaced_value_float")
    )
    missing = lambda x: np.isnan(x) if replaced != replaced else x == replaced
    reference = lambda x: np.where(
        missing(x), np.array(values, F32 if not whole else I64), x
    ).astype(dtype)
    return d.case([x], reference, attributes=dict(zip(names, (values, replaced))), fixed=(0,))


@operator("Normalizer", domain=ML)
def normalizer(d):
    x = numbers(d, d.type())
    norm = d.one_of([None, "MAX", "L1", "L2"])

    def reference(x):
        x = x.astype(F64)
        if norm == "L2":
            by = np.sqrt(np.square(x).sum(1, keepdims=True))
        else:
            by = np.abs(x).sum(1, keepdims=True) if norm == "L1" else x.max(1, keepdims=True)
        return np.where(by == 0, x, x / np.where(by == 0, 1, by)).astype(F32)

    return d.case([x], reference, attributes=d.attributes(norm=norm))


@operator("Scaler", domain=ML)
def scaler(d):
    x = numbers(d, d.type())
    count = d.one_of([1, x.shape[1]])
    line = lambda: [d.float(-3, 3) for _ in range(count)]
    offset, scale = line(), line()
    reference = lambda x: ((x.astype(F64) - np.array(offset)) * np.array(scale)).astype(F32)
    return d.case([x], reference, attributes={"offset": offset, "scale": scale}, fixed=(0,))


# Categories.


@operator("CategoryMapper", domain=ML)
def category_mapper(d):
    count = d.int(1, len(CATEGORIES))
    names, codes = list(CATEGORIES[:count]), [int(i) for i in d.rng.permutation(20)[:count]]
    attributes = {"cats_strings": names, "cats_int64s": codes}
    if d.chance(0.5):
        default = d.maybe(d.int(-9, -2))
        x = np.array([d.one_of(CATEGORIES) for _ in range(d.int(1, 6))], object)
        table = dict(zip(names, codes))
        reference = lambda x: np.array(
            [table.get(v, -1 if default is None else default) for v in x], I64
        )
        return d.case([x], reference, attributes=attributes | d.attributes(default_int64=default))
    default = d.maybe("nothing")
    x = d.integers(I64, [d.int(1, 6)], 0, 20)
    table = dict(zip(codes, names))
    reference = lambda x: np.array([table.get(int(v), default or "_Unused") for v in x], object)
    return d.case([x], reference, attributes=attributes | d.attributes(default_string=default))


KINDS = {STRING: ("strings", "string"), I64: ("int64s", "int64"), F32: ("floats", "float")}


def labels(d, dtype, count):
    """Returns different labels of a type."""
    if dtype == STRING:
        return list(CATEGORIES[:count])
    return [dtype.type(i).item() for i in d.rng.permutation(20)[:count] - 5]


@operator("LabelEncoder", domain=ML)
def label_encoder(d):
    count, shape = d.int(1, len(CATEGORIES)), d.shape(most=2)
    if d.version == 1:
        names = list(CATEGORIES[:count])
        if d.chance(0.5):
            keys, values, default = names, list(range(count)), d.maybe(d.int(-9, -2))
            attributes = d.attributes(default_int64=default)
            return encode(
                d,
                keys,
                values,
                STRING,
                I64,
                -1 if default is None else default,
                shape,
                attributes | {"classes_strings": names},
            )
        default = d.maybe("nothing")
        attributes = d.attributes(default_string=default) | {"classes_strings": names}
        return encode(
            d, list(range(count)), names, I64, STRING, default or "_Unused", shape, attributes
        )
    by_tensor = d.version >= 4 and d.chance(0.5)
    choices = [STRING, I64, F32] + ([F64, I32, np.dtype(np.int16)] if by_tensor else [])
    a, b = d.one_of(choices), d.one_of(choices)
    keys, values = labels(d, a, count), labels(d, b, count)
    if by_tensor:
        default = labels(d, b, 1)[0]
        tensors = {
            "keys_tensor": (keys, a),
            "values_tensor": (values, b),
            "default_tensor": ([default], b),
        }
        attributes = {
            name: numpy_helper.from_array(np.array(value, dtype))
            for name, (value, dtype) in tensors.items()
        }
    else:
        default = {STRING: "_Unused", I64: -1, F32: -0.0}[b]
        attributes = {f"keys_{KINDS[a][0]}": keys, f"values_{KINDS[b][0]}": values}
        if d.chance(0.5):
            default = {STRING: "nothing", I64: 77, F32: 2.5}[b]
            attributes[f"default_{KINDS[b][1]}"] = default
    return encode(d, keys, values, a, b, default, shape, attributes)


def encode(d, keys, values, a, b, default, shape, attributes):
    """Looks up keys in a table, some of which are missing."""
    missing = {STRING: ["missing"]}.get(a, [99])
    table = dict(zip(keys, values))
    x = np.array([d.one_of(keys + missing) for _ in range(int(np.prod(shape)))], a).reshape(shape)
    find = lambda x: np.array([table.get(v, default) for v in x.reshape(-1).tolist()], b).reshape(
        x.shape
    )
    return d.case([x], find, attributes=attributes)


@operator("OneHotEncoder", domain=ML)
def one_hot_encoder(d):
    dtype = d.type()
    count = d.int(1, len(CATEGORIES))
    cats = labels(d, STRING if dtype == STRING else I64, count)
    known = d.chance(0.5)
    choices = cats if known else cats + ["missing" if dtype == STRING else 99]
    shape = d.shape(most=2)
    x = np.array([d.one_of(choices) for _ in range(int(np.prod(shape)))], dtype).reshape(shape)
    attributes = {"cats_strings" if dtype == STRING else "cats_int64s": cats} | d.attributes(
        zeros=d.maybe(0) if known else d.maybe(1)
    )

    def reference(x):
        hot = [[float(v == cat) for cat in cats] for v in x.reshape(-1).tolist()]
        return np.array(hot, F32).reshape(*x.shape, count)

    return d.case([x], reference, attributes=attributes)


# Linear models.


def transformed(scores, how):
    """Transforms scores to probabilities."""
    if how == "LOGISTIC":
        return 1 / (1 + np.exp(-scores))
    if how in ("SOFTMAX", "SOFTMAX_ZERO"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        if how == "SOFTMAX_ZERO":
            powers = np.where(scores == 0, 0, powers)
        total = powers.sum(-1, keepdims=True)
        return np.where(total == 0, 1 / scores.shape[-1], powers / np.where(total == 0, 1, total))
    return scores


def post_transform(d):
    return d.one_of([None, "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])


@operator("LinearRegressor", domain=ML)
def linear_regressor(d):
    x = numbers(d, d.type())
    targets = d.int(1, 3)
    coefficients = d.tensor(F32, [targets, x.shape[1]], -1, 1, 0)
    intercepts = d.maybe(d.tensor(F32, [targets], -1, 1, 0))
    how = post_transform(d)
    attributes = d.attributes(
        coefficients=coefficients.reshape(-1).tolist(),
        intercepts=None if intercepts is None else intercepts.tolist(),
        targets=targets if targets > 1 else d.maybe(1),
        post_transform=how,
    )

    def reference(x):
        y = x.astype(F64) @ coefficients.T + (0 if intercepts is None else intercepts)
        return transformed(y, how).astype(F32)

    return d.case([x], reference, attributes=attributes, fixed=(0,))


def classes(d, count, words="ints"):
    """Returns the labels of classes, their attribute, and their type."""
    if d.chance(0.5):
        return list(CATEGORIES[:count]), "classlabels_strings", STRING
    return [int(i) for i in d.rng.permutation(20)[:count] - 5], f"classlabels_{words}", I64


@operator("LinearClassifier", domain=ML)
def linear_classifier(d):
    x = numbers(d, d.type("T1"))
    names, attribute, dtype = classes(d, d.int(2, 4))
    coefficients = d.tensor(F32, [len(names), x.shape[1]], -1, 1, 0)
    intercepts = d.tensor(F32, [len(names)], -1, 1, 0)
    how = post_transform(d)
    attributes = d.attributes(
        coefficients=coefficients.reshape(-1).tolist(),
        intercepts=intercepts.tolist(),
        post_transform=how,
        multi_class=d.maybe(d.int(0, 1)),
    )

    def reference(x):
        scores = x.astype(F64) @ coefficients.T + intercepts
        return np.array([names[i] for i in scores.argmax(1)], dtype), transformed(
            scores, how
        ).astype(F32)

    return d.case([x], reference, outputs=2, attributes=attributes | {attribute: names}, fixed=(0,))


# Support vector machines.


def kernel(name, a, b, gamma, base, degree):
    """Computes the kernel function of the rows of `a` and those of `b`."""
    products = a @ b.T
    if name == "POLY":
        return (gamma * products + base) ** degree
    if name == "SIGMOID":
        return np.tanh(gamma * products + base)
    if name == "RBF":
        return np.exp(-gamma * np.square(a[:, None] - b[None]).sum(-1))
    return products


def machine(d, x, count):
    """Returns support vectors, the parameters of the kernel, and their attributes."""
    name = d.one_of(["LINEAR", "POLY", "RBF", "SIGMOID"])
    numbers = [d.float(0.1, 0.5), d.float(0, 1), 2.0]
    vectors = d.tensor(F32, [count, x.shape[1]], -2, 2, 0)
    attributes = {
        "kernel_type": name,
        "kernel_params": numbers,
        "support_vectors": vectors.reshape(-1).tolist(),
    }
    return lambda x: kernel(name, x.astype(F64), vectors.astype(F64), *numbers), attributes


@operator("SVMRegressor", domain=ML)
def svm_regressor(d):
    x = numbers(d, d.type())
    count = d.int(1, 4)
    alike, attributes = machine(d, x, count)
    coefficients, rho = d.tensor(F32, [count], -1, 1, 0), d.float(-1, 1)
    one_class = d.maybe(d.int(0, 1), 0.3)
    attributes |= {
        "coefficients": coefficients.tolist(),
        "rho": [rho],
        "n_supports": count,
    } | d.attributes(one_class=one_class)

    def reference(x):
        y = alike(x) @ coefficients + rho
        return (np.where(y > 0, 1, -1) if one_class else y).astype(F32).reshape(-1, 1)

    return d.case([x], reference, attributes=attributes, fixed=(0,))


@operator("SVMClassifier", domain=ML)
def svm_classifier(d):
    x = numbers(d, d.type("T1"))
    names, attribute, dtype = classes(d, d.int(2, 4))
    each = [d.int(1, 3) for _ in names]
    count, many = sum(each), len(names)
    alike, attributes = machine(d, x, count)
    coefficients = d.tensor(F32, [many - 1, count], -1, 1, 0)
    pairs = [(i, j) for i in range(many) for j in range(i + 1, many)]
    rho = d.tensor(F32, [len(pairs)], -1, 1, 0)
    attributes |= {
        "coefficients": coefficients.reshape(-1).tolist(),
        "rho": rho.tolist(),
        "vectors_per_class": each,
        attribute: names,
    }
    starts = np.cumsum([0, *each])

    def reference(x):
        products = alike(x)
        scores, votes = np.zeros((len(x), len(pairs))), np.zeros((len(x), many), int)
        for place, (i, j) in enumerate(pairs):
            first, second = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
            score = (
                products[:, first] @ coefficients[j - 1, first]
                + products[:, second] @ coefficients[i, second]
            )
            scores[:, place] = score + rho[place]
            votes[np.arange(len(x)), np.where(scores[:, place] > 0, i, j)] += 1
        if many == 2:
            scores = np.concatenate([-scores, scores], 1)
        return np.array([names[i] for i in votes.argmax(1)], dtype), scores.astype(F32)

    return d.case([x], reference, outputs=2, attributes=attributes, fixed=(0,))


# Maps.


@operator("ZipMap", domain=ML)
def zip_map(d):
    names, attribute, _ = classes(d, d.int(1, 4), "int64s")
    x = d.tensor(F32, [d.int(1, 3), len(names)], extremes=0)
    reference = lambda x: ([dict(zip(names, row)) for row in x],)
    return d.case([x], reference, attributes={attribute: names}, running=(0,), symbolic=False)


@operator("DictVectorizer", domain=ML)
def dict_vectorizer(d):
    by_name = d.chance(0.5)
    keys = list(CATEGORIES[:4]) if by_name else [1, 5, 7, 9]
    dtype = d.one_of([I64, F32, F64] if by_name else [F32, F64, STRING])
    chosen = d.some(keys, least=1)
    values = d.tensor(dtype, [len(chosen)], -5, 5, 0)
    given = dict(zip(chosen, values))
    nothing = "" if dtype == STRING else 0
    reference = lambda given: np.array([[given.get(key, nothing) for key in keys]], dtype)
    attributes = {"string_vocabulary" if by_name else "int64_vocabulary": keys}
    key_type = TensorProto.STRING if by_name else TensorProto.INT64
    kind = helper.make_map_type_proto(key_type, helper.make_tensor_type_proto(onnx_type(dtype), []))
    return d.case([given], reference, attributes=attributes, types={0: kind})


@operator("CastMap", domain=ML)
def cast_map(d):
    texts = d.chance(0.4)
    keys = sorted(d.some([0, 1, 2, 4, 6], least=1))
    values = [d.one_of(["1", "2.5", "-3"]) if texts else np.float32(d.int(-4, 4)) for _ in keys]
    to = d.one_of(
        [None, "TO_FLOAT", "TO_INT64", "TO_STRING"]
        if not texts
        else [None, "TO_FLOAT", "TO_STRING"]
    )
    dtype = {"TO_INT64": I64, "TO_STRING": STRING}.get(to, F32)
    form = d.one_of([None, "DENSE", "SPARSE"])
    size = max(keys) + d.int(1, 3)
    attributes = d.attributes(cast_to=to, map_form=form, max_map=size if form == "SPARSE" else None)

    def text(value):
        return value if isinstance(value, str) else f"{value:g}"

    def reference(given):
        found = given if form == "SPARSE" else dict(zip(range(len(given)), given.values()))
        length = size if form == "SPARSE" else len(given)
        convert = text if dtype == STRING else float
        missing = ("" if texts else "0") if dtype == STRING else 0
        return np.array(
            [[convert(found[i]) if i in found else missing for i in range(length)]], dtype
        )

    element = TensorProto.STRING if texts else TensorProto.FLOAT
    kind = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(element, []))
    return d.case(
        [dict(zip(keys, values))], reference, attributes=attributes, types={0: kind}, dynamic=True
    )
