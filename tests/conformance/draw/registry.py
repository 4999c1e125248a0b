"""The operators, and the functions that generate their cases."""

from collections import defaultdict

import runtime_schemas
from onnx import defs

from .draw import NEWEST, RUNTIME_SCHEMAS, Draw

# The function that generates cases of an operator, by domain and name.
DRAWS = {}

# Operators that the compiler does not support yet: `--only` generates their cases.
AWAITED = set()

# The least number of cases of each operator, and of each version. The operators of ONNX Runtime are
# compositions of others, so they need fewer.
CASES_OF_OPERATOR, CASES_OF_VERSION, CASES_OF_RUNTIME = 20, 4, 8


def operator(*names, domain=""):
    """Declares that a function generates the cases of these operators."""

    def register(function):
        for name in names:
            assert (domain, name) not in DRAWS, f"{name} is drawn twice"
            DRAWS[domain, name] = function
        return function

    return register


def versions():
    """Every version of every operator, by domain and name, each with the last operator set that has
    it.

    Versions that remove an operator are not included: ONNX's checker and the compiler's reject
    them.
    """
    found = defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain in NEWEST:
            found[schema.domain, schema.name].append(schema.since_version)
    for domain, name, since in RUNTIME_SCHEMAS:
        if (domain, name) in DRAWS:
            found[domain, name].append(since)
    for key, since in sorted(found.items()):
        since.sort()
        until = [*(next - 1 for next in since[1:]), NEWEST[key[0]]]
        yield key, [pair for pair in zip(since, until) if not removed(*key, pair[0])]


def removed(domain, op, version):
    """Whether that version removes the operator from its set."""
    schema = RUNTIME_SCHEMAS.get((domain, op, version)) or defs.get_schema(op, version, domain)
    return schema.deprecated


def least(domain):
    """Returns the least number of cases of an operator of this domain."""
    return CASES_OF_RUNTIME if domain == runtime_schemas.DOMAIN else CASES_OF_OPERATOR


def count(domain, since):
    """Returns the number of cases for each of these versions of an operator."""
    return max(CASES_OF_VERSION, -(-least(domain) // len(since)))


def draw(domain, op, version, until, seed, number):
    """Generates the case of this number."""
    return DRAWS[domain, op](Draw(domain, op, version, until, seed, number))
