"""Writes what ONNX says of its operators, as the checker of onnxc and `onnxc ops` read it.

    pip install onnx==1.23.2
    python operators.py > compiler/src/check/operators.txt

`tests/conformance/run` holds the file against what this prints.
"""

import re
import sys

import onnx.defs

HEAD = """\
# The operators of ONNX {version}: name, versions, inputs, outputs, attributes, types.
# `?` is optional, `...` any number from one on, `...0` any number, `~` of types that may differ; `!`
# is an attribute that must be given. A type is that of a constraint, or one of ONNX's. Types that a
# constraint allows stand in front, by number. Written by tests/conformance/operators.py.
"""
DOMAINS = ["", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"]
Option = onnx.defs.OpSchema.FormalParameterOption


def spelled(kind):
    """A type as ONNX's text spells it: `seq(float)` for `seq(tensor(float))`."""
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
        ours = sorted((s for s in schemas if s.domain == domain), key=lambda s: (s.name, s.since_version))
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
