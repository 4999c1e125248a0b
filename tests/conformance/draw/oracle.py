"""The expected outputs of a case: from its reference, or from another implementation."""

import warnings

import numpy as np
import runtime_schemas
from onnx.reference import ReferenceEvaluator

from .case import as_value
from .types import is_float


def expected(case):
    """Returns the expected outputs of a case."""
    if case.reference:
        return by_reference(case)
    if case.domain == runtime_schemas.DOMAIN:
        return [as_value(x) for x in by_runtime(case, case.model())]
    return by_evaluator(case)


def by_reference(case):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = case.reference(*case.inputs)
    return [as_value(x) for x in (result if isinstance(result, tuple) else [result])]


def by_evaluator(case):
    """Returns the outputs of onnx's reference evaluator."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = ReferenceEvaluator(case.model()).run(None, case.feeds())
    return [as_value(x) for x in results]


def by_runtime(case, model=None):
    """Returns the outputs of ONNX Runtime, if it is installed."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    model = model or case.model(expected(case))
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, case.feeds())


def disagreements(case):
    """Returns how each implementation differs from the expected outputs, or why it fails."""
    right = expected(case)
    for name, oracle in (("onnx", by_evaluator), ("onnxruntime", by_runtime)):
        try:
            found = oracle(case)
        except Exception as error:  # any failure of an implementation is reported
            yield name, "fails", (
                str(error).strip().splitlines()[0][:120] if str(error) else repr(error)
            )
            continue
        rtol, atol = case.tolerance or case.usual_tolerance(right)
        for i, (a, b) in enumerate(zip(found, right, strict=False)):
            if not near(a, b, rtol, atol):
                yield name, "differs", f"output {i}"
                break


def near(a, b, rtol, atol):
    if isinstance(b, list):
        return len(a) == len(b) and all(near(x, y, rtol, atol) for x, y in zip(a, b))
    if isinstance(b, dict):
        return list(a) == list(b) and near(list(a.values()), list(b.values()), rtol, atol)
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return False
    if is_float(b.dtype):
        with np.errstate(all="ignore"):
            return np.allclose(
                a.astype(np.float64), b.astype(np.float64), rtol, atol, equal_nan=True
            )
    return bool(np.array_equal(a, b)) if b.dtype == object else a.tobytes() == b.tobytes()
