"""Which operators there are, and who draws each."""

from collections import defaultdict

from onnx import defs

from .draw import NEWEST, Draw

# What draws a case of an operator, by domain and name.
DRAWS = {}

# Operators that the compiler does not have yet: their cases are drawn where `--only` names them.
AWAITED = set()

# How many cases each operator and each of its versions has, at least.
CASES_OF_OPERATOR, CASES_OF_VERSION = 20, 4


def operator(*names, domain=""):
    """Says that a function draws the cases of these operators."""

    def register(function):
        for name in names:
            assert (domain, name) not in DRAWS, f"{name} is drawn twice"
            DRAWS[domain, name] = function
        return function

    return register


def versions():
    """Every version of every operator, by domain and name, each with the last operator set that has it.

    Versions that take an operator out of its set are none: ONNX's checker and the compiler's refuse them.
    """
    found = defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain in NEWEST:
            found[schema.domain, schema.name].append(schema.since_version)
    for key, since in sorted(found.items()):
        since.sort()
        until = [*(next - 1 for next in since[1:]), NEWEST[key[0]]]
        yield key, [pair for pair in zip(since, until) if not removed(*key, pair[0])]


def removed(domain, op, version):
    """Whether that version takes the operator out of its set."""
    return defs.get_schema(op, version, domain).deprecated


def count(since):
    """How many cases each of these versions of an operator gets."""
    return max(CASES_OF_VERSION, -(-CASES_OF_OPERATOR // len(since)))


def draw(domain, op, version, until, seed, number):
    """The case of this number."""
    return DRAWS[domain, op](Draw(domain, op, version, until, seed, number))
