"""The schemas of the operators that ONNX Runtime adds to those of ONNX."""

from types import SimpleNamespace

import onnx

Option = onnx.defs.OpSchema.FormalParameterOption
DOMAIN = "com.microsoft"
# Operators of `ai.onnx` of which only ONNX Runtime has some versions. Others are for execution
# providers.
NAMES = [
    "Affine",
    "Crop",
    "DynamicSlice",
    "GRUUnit",
    "GivenTensorFill",
    "ImageScaler",
    "LayerNormalization",
    "MeanVarianceNormalization",
    "ParametricSoftplus",
    "Scale",
    "ScaledTanh",
    "SimplifiedLayerNormalization",
    "ThresholdedRelu",
]


def schemas():
    """The schemas, with the names of fields that ONNX's have."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    known = {(s.domain, s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history()}
    for schema in get_all_operator_schema():
        is_new = (schema.domain, schema.name, schema.since_version) not in known
        if schema.domain == DOMAIN or schema.domain == "" and schema.name in NAMES and is_new:
            yield SimpleNamespace(
                name=schema.name,
                domain=schema.domain,
                since_version=schema.since_version,
                deprecated=schema.deprecated,
                inputs=[*map(formal, schema.inputs)],
                outputs=[*map(formal, schema.outputs)],
                attributes={name: attribute(a) for name, a in schema.attributes.items()},
                type_constraints=schema.type_constraints,
            )


def attribute(schema):
    """An attribute with its default value."""
    return SimpleNamespace(
        name=schema.name,
        type=schema.type,
        required=schema.required,
        default_value=onnx.AttributeProto.FromString(schema._default_value),
    )


def formal(parameter):
    """An input or output parameter."""
    return SimpleNamespace(
        name=parameter.name,
        type_str=parameter.typeStr,
        option=getattr(Option, str(parameter.option).split(".")[-1]),
        is_homogeneous=parameter.isHomogeneous,
        min_arity=1,
    )
