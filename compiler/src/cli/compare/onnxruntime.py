"""Runs a model with ONNX Runtime, without its optimizations, and saves values of the graph.

The folder has `model.onnx`, whose outputs are the values; `job.json` with the names of the inputs
and of the values; and the inputs `0.npy`, `1.npy`, … The values go to `values.npz`, each under its
position in the list of names.
"""

import json
import pathlib
import sys

NOT_INSTALLED = 3
# The types of values that NumPy has.
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
TYPES = {f"tensor({name})" for name in ["float", "float16", "double", "bool", *INTEGERS]}

try:
    import numpy
    import onnxruntime
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(NOT_INSTALLED)


def main(folder: pathlib.Path) -> None:
    job = json.loads((folder / "job.json").read_text("utf-8"))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    inputs = {name: numpy.load(folder / f"{i}.npy") for i, name in enumerate(job["inputs"])}
    places = {name: str(i) for i, name in enumerate(job["values"])}
    wanted = [
        output.name
        for output in session.get_outputs()
        if output.type in TYPES and output.name in places
    ]
    values = session.run(wanted, inputs) if wanted else []
    numpy.savez(
        folder / "values.npz", **{places[name]: value for name, value in zip(wanted, values)}
    )


try:
    main(pathlib.Path(sys.argv[1]))
except Exception as error:
    print(f"{type(error).__name__}: {error}", file=sys.stderr)
    sys.exit(1)
