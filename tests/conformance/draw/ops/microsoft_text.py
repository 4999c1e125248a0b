"""Operators of ONNX Runtime on text, on words, on their hashes, and on matrices."""

import numpy as np

from ..types import F32, F64, I8, I32, I64, U8
from .microsoft import floats, ours

TEXTS = ("a b", " aa  b ", "", "one", "x,y,,z", ",", "日本,国", "a--b--c", "  ", "ab_1 É!", "a\nb")
SEPARATORS = (
    [" "],
    [","],
    [" ", ","],
    ["-+"],
    [r"\s+", "--"],
    [""],
    ["[^a-z]"],
    ["a|ab", "b"],
    [r"\b"],
)
TOKENS = (
    "[a-zA-Z0-9_]+",
    ".",
    r"\w+",
    "a|aa|ab",
    "[^, ]+",
    "^a",
    "..",
    "(?i)[A-Z]*",
    r"\ba\w*",
    "b$",
)


@ours("Tokenizer")
def tokenizer(d):
    shape = d.one_of([[d.int(1, 4)], [d.int(1, 3), d.int(1, 3)]])
    count = int(np.prod(shape))
    x = np.array([d.one_of(TEXTS) for _ in range(count)], object).reshape(shape)
    least, mark, pad = d.int(1, 3), d.int(0, 1), d.one_of(["#", "", "pad"])
    attributes = {"mark": mark, "mincharnum": least, "pad_value": pad}
    rule = d.one_of(SEPARATORS) if d.chance(0.5) else d.one_of(TOKENS)
    if rule in ([""], "."):
        attributes["mincharnum"] = 1
    attributes["tokenexp" if isinstance(rule, str) else "separators"] = rule
    return d.case([x], attributes=attributes, dynamic=True)


@ours("WordConvEmbedding")
def word_conv_embedding(d):
    length, width, window = d.int(2, 6), d.int(1, 4), d.int(1, 3)
    window, filters, characters = min(window, length), d.int(1, 4), d.int(2, 9)
    words = d.integers(I32, [d.int(1, 5), length], 1, characters - 1)
    # Characters after the end are 0. The result of a word without characters is undefined.
    for word in words:
        word[d.int(1, length) :] = 0
    weights = [
        floats(d, [filters, 1, window, width]),
        floats(d, [filters]),
        floats(d, [characters, width]),
    ]
    sizes = {
        "embedding_size": filters,
        "conv_window_size": window,
        "char_embedding_size": width,
    }
    attributes = {name: size for name, size in sizes.items() if d.chance(0.5)}
    return d.case([words, *weights], attributes=attributes, fixed=[1, 3])


@ours("QEmbedLayerNormalization")
def quantized_embed_layer_normalization(d):
    batch, length, width, words = d.int(1, 3), d.int(1, 5), d.int(1, 6), d.int(2, 9)
    dtype = d.one_of([I8, U8])
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    has_segments, has_mask = d.chance(0.5), d.chance(0.5)
    table = lambda rows: d.integers(dtype, rows, least, most)
    scale = lambda: np.array(d.float(0.005, 0.05), F32)
    zero = lambda: d.integers(dtype, [], -9, 9)
    given = lambda x: x if has_segments else None
    inputs = [
        d.integers(I32, [batch, length], 0, words - 1),
        given(d.integers(I32, [batch, length], 0, 1)),
        table([words, width]),
        table([length + d.int(0, 3), width]),
        given(table([2, width])),
        table([width]),
        table([width]),
        d.integers(I32, [batch, length], 0, 1) if has_mask else None,
        scale(),
        scale(),
        given(scale()),
        scale(),
        scale(),
        zero(),
        zero(),
        given(zero()),
        zero(),
        zero(),
    ]
    attributes = d.attributes(epsilon=d.maybe(d.float(1e-5, 1e-2)))
    tolerance = (1e-3, 1e-3)
    tables = [2, 3, 4, 5, 6]
    return d.case(inputs, outputs=2, attributes=attributes, tolerance=tolerance, fixed=tables)


@ours("MurmurHash3")
def murmur_hash(d):
    x = d.tensor(d.type("T1"), d.shape(empty=0), extremes=0)
    attributes = d.attributes(positive=d.maybe(d.int(0, 1)), seed=d.maybe(d.int(0, 2**31 - 1)))
    return d.case([x], attributes=attributes)


@ours("NGramRepeatBlock")
def ngram_repeat_block(d):
    batch, length, words = d.int(1, 3), d.int(1, 8), d.int(1, 5)
    inputs = [d.integers(I64, [batch, length], 0, words - 1), floats(d, [batch, words])]
    return d.case(inputs, attributes={"ngram_size": d.int(1, 4)})


@ours("DynamicTimeWarping")
def dynamic_time_warping(d):
    shape = [d.int(1, 6), d.int(1, 6)]
    shape = [1, *shape] if d.chance(0.5) else shape
    # Whole costs, so that paths of equal sums occur.
    x = d.integers(I32, shape, 0, 4).astype(F32) if d.chance(0.5) else floats(d, shape)
    return d.case([x], dynamic=True)


@ours("Inverse")
def inverse(d):
    size = d.int(1, 5)
    x = d.tensor(d.type(), [*d.shape(most=2, empty=0), size, size], -1, 1, extremes=0)
    x = x + (3 * np.eye(size)).astype(x.dtype)
    reference = lambda x: np.linalg.inv(x.astype(F64)).astype(x.dtype)
    return d.case([x], reference)
