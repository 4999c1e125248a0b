"""Writes ONNX's operator schemas in the form that onnxc's checker and `onnxc ops` read.

    pip install onnx==1.23.2
    python operators.py > compiler/src/check/operators.txt

`tests/conformance/run` compares the file with the output of this program.
"""

import re
import sys

import onnx.defs

HEAD = """\
# The operators of ONNX {version}: name, versions, inputs, outputs, attributes, types.
# `?` marks an optional parameter, `...` a variadic one (`...0` may be empty) and `~` one whose
# types may differ; `!` marks a required attribute. A type is that of a constraint, or one of
# ONNX's. The sets of types that constraints allow come first, by number. Written by
# tests/conformance/operators.py.
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


def main():
    schemas = onnx.defs.get_all_schemas_with_history()
    sets, text = {}, ""

    def number(types):
        return sets.setdefault(" ".join(sorted(map(spelled, types))), len(sets))

    for domain in DOMAINS:
        text += f"\n[{domain or 'ai.onnx'}]\n"
        ours = (s for s in schemas if s.domain == domain)
        ours = sorted(ours, key=lambda s: (s.name, s.since_version))
        lines = []
        for schema in ours:
            said = signature(schema, number)
            if lines and lines[-1][0] == schema.name and lines[-1][2] == said:
                lines[-1][1].append(schema.since_version)
            else:
                lines.append((schema.name, [schema.since_version], said))
        for name, versions, said in lines:
            text += f"{name} {','.join(map(str, versions))}: {said}\n"
    print(HEAD.format(version=onnx.__version__))
    for types, i in sets.items():
        print(f"{i} = {types}")
    print(text, end="")
    return 0


sys.exit(main())
