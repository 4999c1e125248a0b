"""Text."""

import re

import numpy as np

from ..registry import operator
from ..types import F32, I32, I64, STRING


@operator("StringConcat")
def string_concat(d):
    shape = d.shape()
    inputs = [d.tensor(STRING, d.broadcast(shape)) for _ in range(2)]
    join = np.frompyfunc(lambda a, b: a + b, 2, 1)
    return d.case(inputs, lambda a, b: np.asarray(join(a, b), object))


@operator("StringSplit")
def string_split(d):
    words = ("a b", " a  b ", "", "one", "x,y,,z", ",", "日本,国", "a--b--c", "  ")
    shape = d.shape(most=2, empty=0)
    x = np.array([d.one_of(words) for _ in range(int(np.prod(shape)))], object).reshape(shape)
    delimiter, most = d.one_of([None, "", ",", "--"]), d.maybe(d.int(1, 3))

    def reference(x):
        parts = [
            text.split(delimiter or None, -1 if most is None else most) for text in x.reshape(-1)
        ]
        if not delimiter:
            # White space at the end also ends the last part.
            parts = [[part.rstrip() for part in row] for row in parts]
        length = max(map(len, parts), default=0)
        padded = [[*row, *[""] * (length - len(row))] for row in parts]
        counts = np.array([len(row) for row in parts], I64).reshape(x.shape)
        return np.array(padded, object).reshape(*x.shape, length), counts

    return d.case(
        [x],
        reference,
        outputs=2,
        attributes=d.attributes(delimiter=delimiter, maxsplit=most),
        dynamic=True,
    )


@operator("RegexFullMatch")
def regex_full_match(d):
    patterns = (
        "a+",
        "[a-z]*",
        r"\d{2,3}",
        "(ab|cd)?x",
        ".*",
        r"\w+@\w+\.com",
        "",
        "[^a]b",
        "(?i)cat",
        r"日.",
        r"a|b|",
        r"\s*x",
    )
    words = (
        "a",
        "aaa",
        "abc",
        "12",
        "1234",
        "abx",
        "x",
        "me@b.com",
        "",
        "xb",
        "CAT",
        "日本",
        "b",
        " x",
        "a\nb",
    )
    shape = d.shape(most=2)
    x = np.array([d.one_of(words) for _ in range(int(np.prod(shape)))], object).reshape(shape)
    pattern = d.one_of(patterns)
    match = np.vectorize(lambda text: re.fullmatch(pattern, text) is not None, otypes=[bool])
    return d.case([x], lambda x: match(x), attributes={"pattern": pattern})


@operator("StringNormalizer")
def string_normalizer(d):
    words = ("monday", "Tuesday", "WEDNESDAY", "the", "THE", "Zürich", "ÉTÉ", "")
    x = np.array([d.one_of(words) for _ in range(d.int(1, 6))], object)
    x = x.reshape(d.one_of([(-1,), (1, -1)]))
    case, sensitive = d.one_of([None, "NONE", "LOWER", "UPPER"]), d.maybe(d.int(0, 1))
    stops = d.maybe(d.some(["monday", "the", "ZÜRICH", "été"], least=1))
    attributes = d.attributes(
        case_change_action=case,
        is_case_sensitive=sensitive,
        stopwords=stops,
        locale=d.maybe("en_US"),
    )

    def reference(x):
        same = (lambda text: text) if sensitive else str.lower
        kept = [
            text for text in x.reshape(-1) if same(text) not in {same(stop) for stop in stops or ()}
        ]
        change = {"LOWER": str.lower, "UPPER": str.upper}.get(case, lambda text: text)
        kept = [change(text) for text in kept] or [""]
        return np.array(kept, object).reshape((-1,) if x.ndim == 1 else (1, -1))

    return d.case([x], reference, attributes=attributes, dynamic=True)


@operator("TfIdfVectorizer")
def tf_idf(d):
    longest, skip = d.int(1, 3), d.int(0, 2)
    shortest, mode = d.int(1, longest), d.one_of(["TF", "IDF", "TFIDF"])
    texts = d.chance(0.4)
    choices = ["a", "b", "c", "d"] if texts else [1, 2, 3, 4]
    grams = {n: [] for n in range(1, longest + 1)}
    for n in grams:
        for _ in range(d.int(1, 3)):
            gram = tuple(d.one_of(choices) for _ in range(n))
            if gram not in grams[n]:
                grams[n].append(gram)
    flat, starts = [], []
    for n in grams:
        starts.append(len(flat))
        flat += [word for gram in grams[n] for word in gram]
    pool = [gram for n in grams for gram in grams[n]]
    places = [int(i) for i in d.rng.permutation(len(pool))]
    weights = d.maybe([d.float(0.5, 2) for _ in pool])
    attributes = {
        "max_gram_length": longest,
        "max_skip_count": skip,
        "min_gram_length": shortest,
        "mode": mode,
        "ngram_counts": starts,
        "ngram_indexes": places,
        "pool_strings" if texts else "pool_int64s": flat,
    } | d.attributes(weights=weights)
    shape = d.one_of([(d.int(1, 7),), (d.int(1, 2), d.int(1, 7))])
    x = np.array(
        [d.one_of(choices) for _ in range(int(np.prod(shape)))],
        STRING if texts else d.one_of([I32, I64]),
    ).reshape(shape)

    def counts(row):
        result = np.zeros(len(pool))
        for place, gram in enumerate(pool):
            n = len(gram)
            if n < shortest:
                continue
            for step in range(1, (skip if n > 1 else 0) + 2):
                for start in range(len(row) - (n - 1) * step):
                    result[places[place]] += tuple(row[start : start + n * step : step]) == gram
        factor = np.ones(len(pool))
        for place, weight in enumerate(weights or ()):
            factor[places[place]] = weight
        return {"TF": result, "IDF": (result > 0) * factor, "TFIDF": result * factor}[mode]

    def reference(x):
        rows = x.tolist() if x.ndim == 2 else [x.tolist()]
        return np.array([counts(row) for row in rows], F32).reshape(*x.shape[:-1], len(pool))

    return d.case([x], reference, attributes=attributes)
