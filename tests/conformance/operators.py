"""Writes every version of every operator of ONNX, one a line, as `onnxc ops` reads them.

    pip install onnx==1.23.2
    python operators.py FILE           writes the file
    python operators.py --check FILE   fails where the file says something else

A line is `domain name version [flags] (inputs) -> (outputs) constraints`. A value is `name:type`;
behind it stands `?` where it may be left out, `*` where there may be several, and `~` where those
may be of several types. A type is that of a constraint, or one of ONNX's. Sets of types that
constraints share are written once, in front, and stand in a line by their number.
"""

import pathlib
import re
import sys

import onnx
from onnx import defs

HEADER = "# Every operator of onnx {}, written by tests/conformance/operators.py.\n"
Option = defs.OpSchema.FormalParameterOption


def spelled(kind):
    """A type as ONNX's text spells it: `seq(float)` for `seq(tensor(float))`."""
    return re.sub(r"(?<!sparse_)tensor\(([a-z0-9]+)\)", r"\1", kind).replace(", ", ",")


def value(formal):
    marks = {Option.Single: "", Option.Optional: "?", Option.Variadic: "*"}[formal.option]
    return f"{formal.name}:{spelled(formal.type_str)}{marks}{'' if formal.is_homogeneous else '~'}"


def line(schema, number):
    words = [schema.domain or "ai.onnx", schema.name, str(schema.since_version)]
    words += ["deprecated"] * schema.deprecated
    words += ["function"] * (schema.has_function or schema.has_context_dependent_function)
    for lead, values in (("", schema.inputs), ("-> ", schema.outputs)):
        words.append(f"{lead}({', '.join(map(value, values))})")
    for constraint in schema.type_constraints:
        words.append(f"{constraint.type_param_str}={number(constraint.allowed_type_strs)}")
    return " ".join(words) + "\n"


def text():
    sets = {}

    def number(types):
        return sets.setdefault(" ".join(sorted(map(spelled, types))), len(sets))

    schemas = [s for s in defs.get_all_schemas_with_history() if s.domain in DOMAINS]
    schemas.sort(key=lambda s: (DOMAINS.index(s.domain), s.name, s.since_version))
    lines = [line(schema, number) for schema in schemas]
    return HEADER.format(onnx.__version__) + "".join(f"{k} = {v}\n" for v, k in sets.items()) + "".join(lines)


DOMAINS = ["", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"]

if sys.argv[1] == "--check":
    if pathlib.Path(sys.argv[2]).read_text() != text():
        sys.exit(f"{sys.argv[2]} does not say what onnx {onnx.__version__} does")
else:
    pathlib.Path(sys.argv[1]).write_text(text())
