"""The element types of ONNX in numpy."""

import numpy as np
from onnx import TensorProto, helper

# The name of an element type in `tensor(...)`, and numpy's type for it.
BY_NAME = {
    name.lower(): np.dtype(helper.tensor_dtype_to_np_dtype(number))
    for name, number in TensorProto.DataType.items()
    if name != "UNDEFINED"
}

BOOL, STRING = BY_NAME["bool"], BY_NAME["string"]
F16, BF16, F32, F64 = (BY_NAME[name] for name in ("float16", "bfloat16", "float", "double"))
I8, I16, I32, I64 = (BY_NAME[f"int{bits}"] for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (BY_NAME[f"uint{bits}"] for bits in (8, 16, 32, 64))
FLOATS = (F32, F64, F16, BF16)
SIGNED, UNSIGNED = (I32, I64, I8, I16), (U8, U16, U32, U64)
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS
COMPLEX = (BY_NAME["complex64"], BY_NAME["complex128"])
NIBBLES = tuple(BY_NAME[name] for name in ("int4", "uint4", "int2", "uint2"))
MINIFLOATS = tuple(
    BY_NAME[name]
    for name in BY_NAME
    if name.startswith("float") and name[5:6] in "468" and name != "float" and "_" not in name
)


def onnx_type(dtype):
    """Returns the number of the type in ONNX's files."""
    return (
        TensorProto.STRING if dtype == STRING else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    )


def is_float(dtype):
    return dtype in FLOATS


def is_minifloat(dtype):
    return dtype in MINIFLOATS


def limits(dtype):
    """Returns the least and the greatest number of an integer type."""
    if dtype in NIBBLES:
        bits, signed = int(str(dtype)[-1]), str(dtype)[0] == "i"
        return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def finest(dtype):
    """Returns the relative and the absolute tolerance of results of this type."""
    if dtype in MINIFLOATS or dtype == BF16:
        return 2e-2, 3e-2
    return {F16: (4e-3, 2e-3), F32: (1e-4, 1e-5), F64: (1e-9, 1e-10)}.get(dtype, (1e-4, 1e-5))


def wide(function):
    """Computes `function` in twice the width, and converts the result to the type of the first
    argument.
    """

    def widened(first, *others):
        widen = lambda x: x.astype(F64) if x is not None and is_float(x.dtype) else x
        with np.errstate(all="ignore"):
            result = function(widen(first), *(widen(x) for x in others))
            return np.asarray(result).astype(first.dtype)

    return widened
