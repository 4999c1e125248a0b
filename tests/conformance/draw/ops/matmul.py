"""Matrix products."""

import numpy as np

from ..registry import operator
from ..types import F64, INTEGERS, MINIFLOATS, wide
from .cast import narrowed


def matrices(d):
    """Returns the shapes of two operands."""
    rows, inner, columns = d.int(1, 4), d.int(1, 5), d.int(1, 4)
    batch = d.shape(most=2, size=(1, 3))
    a, b = (*batch, rows, inner), (*d.broadcast(batch), inner, columns)
    if d.chance(0.15):
        a = (inner,)
    if d.chance(0.15):
        b = (inner,)
    return a, b


@operator("MatMul")
def matmul(d):
    dtype = d.type()
    a, b = matrices(d)
    inputs = [d.tensor(dtype, shape, extremes=0) for shape in (a, b)]
    return d.case(inputs, wide(np.matmul))


@operator("Gemm")
def gemm(d):
    dtype = d.type()
    rows, inner, columns = d.int(0 if d.chance(0.05) else 1, 4), d.int(1, 5), d.int(1, 4)
    whole = dtype in INTEGERS
    factor = lambda: d.maybe(float(d.int(0, 3)) if whole else d.float(-2, 2))
    attributes = d.attributes(
        alpha=factor(), beta=factor(), transA=d.maybe(d.int(0, 1)), transB=d.maybe(d.int(0, 1))
    )
    a = (inner, rows) if attributes.get("transA") else (rows, inner)
    b = (columns, inner) if attributes.get("transB") else (inner, columns)
    c = d.one_of([(), (1,), (columns,), (1, columns), (rows, 1), (rows, columns)])
    if d.version < 7:
        c = d.one_of([(rows, columns), (columns,)])
        if c != (rows, columns) or d.chance(0.3):
            attributes["broadcast"] = 1
    inputs = [d.tensor(dtype, shape, extremes=0) for shape in (a, b, c)]
    if d.version >= 11 and d.chance(0.3):
        inputs[2] = None

    def reference(a, b, c=None):
        a = a.T if attributes.get("transA") else a
        b = b.T if attributes.get("transB") else b
        alpha, beta = (attributes.get(name, 1.0) for name in ("alpha", "beta"))
        if whole:
            alpha, beta = int(alpha), int(beta)
        return alpha * (a @ b) + (0 if c is None else beta * c)

    return d.case(inputs, wide(reference), attributes=attributes)


def less(x, zero, axis):
    """Subtracts the zero point, which may differ for each row or column."""
    exact = F64 if x.dtype in MINIFLOATS else np.int32
    x = x.astype(exact)
    if zero is None:
        return x
    zero = zero.astype(exact)
    if zero.ndim != 1 or zero.size == 1:
        return x - (zero.reshape(()) if zero.size == 1 else zero)
    shape = [1] * x.ndim
    shape[axis] = -1
    return x - zero.reshape(shape)


@operator("MatMulInteger")
def matmul_integer(d):
    a, b = matrices(d)
    kinds = d.type("T1"), d.type("T2")
    x, y = (d.tensor(kind, shape, -128, 255) for kind, shape in zip(kinds, (a, b)))

    def zero_point(kind, each):
        if d.chance(0.3):
            return None
        return d.tensor(kind, [each] if d.chance(0.3) else (), -20, 20)

    left = zero_point(kinds[0], a[-2] if len(a) > 1 else 1)
    right = zero_point(kinds[1], b[-1] if len(b) > 1 else 1)
    reference = lambda x, y, left=None, right=None: np.matmul(
        less(x, left, -2), less(y, right, -1)
    ).astype(np.int32)
    return d.case([x, y, left, right], reference)


def saturated(numbers, dtype):
    """Rounds to the nearest integers in the range of the type."""
    info = np.iinfo(dtype)
    return np.clip(np.rint(numbers), info.min, info.max).astype(dtype)


def zero_point(d, dtype):
    """Returns a zero point, which is 0 for floats."""
    return np.zeros((), dtype) if dtype in MINIFLOATS else d.tensor(dtype, (), -10, 10, 0)


@operator("QLinearMatMul")
def qlinear_matmul(d):
    a, b = matrices(d)
    kinds = [d.type(name, among=[*INTEGERS, *MINIFLOATS]) for name in ("T1", "T2", "T3")]
    scale_type = d.type("TS") if d.version >= 21 else np.dtype(np.float32)
    scale = lambda: np.array(2.0 ** d.int(-6, 0), scale_type)
    operands = []
    for kind, shape in zip(kinds, (a, b)):
        operands += [d.tensor(kind, shape, -100, 100, 0), scale(), zero_point(d, kind)]
    operands += [np.array(2.0 ** d.int(-2, 4), scale_type), zero_point(d, kinds[2])]
    # Constant weights run in other kernels, which keep the zero points that do not fit.
    constant = d.one_of([(), range(1, 8)])
    if kinds[1] in INTEGERS and d.chance(0.5):
        operands[5] = d.tensor(kinds[1], (), -128, 255, 0)

    def reference(x, x_scale, x_zero, y, y_scale, y_zero, scale, zero):
        product = np.matmul(less(x, x_zero, -2), less(y, y_zero, -1)).astype(F64)
        x_scale, y_scale, scale = (factor.astype(F64) for factor in (x_scale, y_scale, scale))
        if zero.dtype in MINIFLOATS:
            return narrowed(product * x_scale * y_scale / scale, zero.dtype)
        return saturated(np.rint(product * x_scale * y_scale / scale) + int(zero), zero.dtype)

    return d.case(operands, reference, constant=constant)


@operator("Einsum")
def einsum(d):
    sizes = {letter: d.int(1, 4) for letter in "abcdij"}
    equations = (
        "ab,bc->ac",
        "ab,bc",
        "ab->ba",
        "ab->",
        "aa->a",
        "aab->b",
        "ab,ab->a",
        "a,b->ab",
        "abc,abd->acd",
        "...ab,...bc->...ac",
        "...a->...",
        "ab,bc,cd->ad",
        " a b , b c -> c a ",
        "abc->cab",
        "a,a",
        "...ij->...ji",
        "abab->",
    )
    equation = d.one_of(equations)
    batch = d.shape(most=2, size=(1, 3), empty=0)
    dtype = d.type()
    inputs = []
    for term in equation.split("->")[0].replace(" ", "").split(","):
        letters = [sizes[letter] for letter in term.replace("...", "")]
        inputs.append(
            d.tensor(
                dtype, [*(d.broadcast(batch) if "..." in term else ()), *letters], -2, 3, extremes=0
            )
        )
    return d.case(
        inputs,
        wide(lambda *inputs: np.einsum(equation, *inputs)),
        attributes={"equation": equation},
        symbolic=d.chance(0.5),
    )


@operator("Det")
def det(d):
    side = d.int(1, 4)
    x = d.tensor(d.type(), [*d.shape(most=2), side, side], extremes=0)
    return d.case(
        [x], wide(np.linalg.det), tolerance=(5e-2, 5e-1) if x.dtype.itemsize == 2 else None
    )
