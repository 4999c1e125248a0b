"""Writes the signatures of ONNX's operators as the checker of onnxc reads them.

    pip install onnx==1.23.2
    python signatures.py > compiler/src/check/operators.txt

`tests/conformance/run` holds the file against what this prints.
"""

import sys

import onnx.defs

HEAD = """\
# The operators of ONNX {version}: name, versions, inputs, outputs, attributes.
# `?` is optional, `...` any number from one on, `...0` any number; `!` is an attribute that must be
# given. Written by tests/conformance/signatures.py.
"""
DOMAINS = ["", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"]
Option = onnx.defs.OpSchema.FormalParameterOption


def parameter(formal):
    name = "".join(c if c.isalnum() or c == "_" else "_" for c in formal.name)
    if formal.option == Option.Variadic:
        return name + "..." + ("" if formal.min_arity else "0")
    return name + ("?" if formal.option == Option.Optional else "")


def attribute(attribute):
    kind = str(attribute.type).split(".")[-1].lower()
    return f"{attribute.name}:{kind}" + ("!" if attribute.required else "")


def signature(schema):
    if schema.deprecated:
        return "removed"
    inputs = [parameter(formal) for formal in schema.inputs]
    outputs = [parameter(formal) for formal in schema.outputs]
    attributes = [attribute(schema.attributes[name]) for name in sorted(schema.attributes)]
    return " ".join(inputs + ["->"] + outputs + (["|"] + attributes if attributes else []))


def main():
    schemas = onnx.defs.get_all_schemas_with_history()
    print(HEAD.format(version=onnx.__version__), end="")
    for domain in DOMAINS:
        print(f"\n[{domain or 'ai.onnx'}]")
        ours = sorted((s for s in schemas if s.domain == domain), key=lambda s: (s.name, s.since_version))
        lines = []
        for schema in ours:
            text = signature(schema)
            if lines and lines[-1][0] == schema.name and lines[-1][2] == text:
                lines[-1][1].append(schema.since_version)
            else:
                lines.append((schema.name, [schema.since_version], text))
        for name, versions, text in lines:
            print(f"{name} {','.join(map(str, versions))}: {text}")
    return 0


sys.exit(main())
