"""Writes ONNX's operator schemas in the form that onnxc's checker and `onnxc ops` read.

    pip install onnx==1.23.2 onnxruntime==1.31.1
    python operators.py > compiler/src/check/operators.txt
    python operators.py --runtime > compiler/src/check/microsoft.txt

With `--runtime`, writes the operators that ONNX Runtime adds to those of ONNX.
`tests/conformance/run` compares the files with the output of this program.
"""

import re
import sys
from importlib.metadata import version

import onnx.defs
import runtime_schemas

HEAD = """\
# The operators of ONNX {version}: name, versions, inputs, outputs, attributes, types.
# `?` marks an optional parameter, `...` a variadic one (`...0` may be empty) and `~` one whose
# types may differ; `!` marks a required attribute. A type is that of a constraint, or one of
# ONNX's. The sets of types that constraints allow come first, by number. Written by
# tests/conformance/operators.py.
"""
RUNTIME_HEAD = """\
# The operators that ONNX Runtime {version} adds to those of ONNX, in the form of operators.txt.
# Written by tests/conformance/operators.py --runtime.
"""
DOMAINS = ["", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"]
Option = onnx.defs.OpSchema.FormalParameterOption


def spelled(kind):
    """Formats a type as in ONNX's text: `seq(float)` for `seq(tensor(float))`."""
    return re.sub(r"(?<!sparse_)tensor\(([a-z0-9]+)\)", r"\1", kind).replace(", ", ",")


def parameter(formal):
    name = "".join(c if c.isalnum() or c == "_" else "_" for c in formal.name)
    marks = {Option.Single: "", Option.Optional: "?", Option.Variadic: "..."}[formal.option]
    if formal.option == Option.Variadic:
        marks += ("" if formal.min_arity else "0") + ("" if formal.is_homogeneous else "~")
    return f"{name}:{spelled(formal.type_str)}{marks}"


def attribute(attribute):
    kind = str(attribute.type).split(".")[-1].lower()
    return f"{attribute.name}:{kind}" + ("!" if attribute.required else "")


def signature(schema, number):
    if schema.deprecated:
        return "removed"
    words = [*map(parameter, schema.inputs), "->", *map(parameter, schema.outputs), "|"]
    words += [attribute(schema.attributes[name]) for name in sorted(schema.attributes)]
    for constraint in schema.type_constraints:
        words.append(f"{constraint.type_param_str}={number(constraint.allowed_type_strs)}")
    return " ".join(words).removesuffix(" |")


def table(schemas, domains):
    """Formats the table: the sets of types, then the operators of each domain."""
    sets, text = {}, ""

    def number(types):
        return sets.setdefault(" ".join(sorted(map(spelled, types))), len(sets))

    for domain in domains:
        text += f"\n[{domain or 'ai.onnx'}]\n"
        ours = sorted(
            (s for s in schemas if s.domain == domain), key=lambda s: (s.name, s.since_version)
        )
        lines = []
        for schema in ours:
            form = signature(schema, number)
            if lines and lines[-1][0] == schema.name and lines[-1][2] == form:
                lines[-1][1].append(schema.since_version)
            else:
                lines.append((schema.name, [schema.since_version], form))
        for name, versions, form in lines:
            text += f"{name} {','.join(map(str, versions))}: {form}\n"
    return "".join(f"{i} = {types}\n" for types, i in sets.items()) + text


def main():
    if "--runtime" in sys.argv[1:]:
        print(RUNTIME_HEAD.format(version=version("onnxruntime")))
        print(table([*runtime_schemas.schemas()], ["", runtime_schemas.DOMAIN]), end="")
    else:
        print(HEAD.format(version=onnx.__version__))
        print(table(onnx.defs.get_all_schemas_with_history(), DOMAINS), end="")
    return 0


sys.exit(main())
