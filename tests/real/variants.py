"""Writes each model with free dimensions as test folders, one for each way to compile it.

    python variants.py MODELS OUT        # needs: numpy onnx onnxruntime

For MODELS/NAME, writes OUT/NAME_free (free dimensions), OUT/NAME_bound (bounded dimensions) and,
for each of two choices of sizes, OUT/NAME_fixed_K. The first two contain the inputs of both
choices, with the results of ONNX Runtime; a folder of fixed sizes contains those of its choice.

OUT/NAME_filled is a model whose last layer is exported as zeros, which would hide every error
before it, with random weights instead.
"""
import json, os, shutil, sys, zlib
import numpy as np, onnx, onnxruntime as ort
from onnx import numpy_helper

# Two choices of sizes; the second equals the bounds.
SIZES = {
    "dyn_bert": [{"batch": 1, "seq": 5}, {"batch": 4, "seq": 32}],
    "dyn_gpt_kv": [{"past": 1}, {"past": 32}],
    "dyn_lstm_ts": [{"batch": 3, "time": 11}, {"batch": 4, "time": 32}],
}

# Models whose last layer has only zeros as weights.
EMPTY = ["tv_vit_b_16"]


def inputs(model, sizes, seed):
    for value in model.graph.input:
        tensor = value.type.tensor_type
        dims = tensor.shape.dim
        shape = [d.dim_value if d.HasField("dim_value") else sizes[d.dim_param] for d in dims]
        rng = np.random.default_rng([seed, zlib.crc32(value.name.encode())])
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if "mask" in value.name:
            x = np.ones(shape)
            x[..., shape[-1] - shape[-1] // 3 :] = 0
        elif np.issubdtype(dtype, np.integer):
            x = rng.integers(0, 100, shape)
        else:
            x = rng.standard_normal(shape)
        yield value.name, np.asarray(x).astype(dtype)


def write(folder, names, arrays, kind):
    os.makedirs(folder, exist_ok=True)
    for i, (name, array) in enumerate(zip(names, arrays)):
        with open(os.path.join(folder, f"{kind}_{i}.pb"), "wb") as file:
            file.write(numpy_helper.from_array(array, name).SerializeToString())


def variants(source, out, name):
    path = os.path.join(source, name, "model.onnx")
    model = onnx.load(path)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    outputs = [value.name for value in model.graph.output]
    choices = SIZES[name]
    ways = {"free": {}, "bound": {dim: f"1..={size}" for dim, size in choices[-1].items()}}
    for k, sizes in enumerate(choices):
        ways[f"fixed_{k}"] = {dim: str(size) for dim, size in sizes.items()}
    for way, dims in ways.items():
        folder = os.path.join(out, f"{name}_{way}")
        os.makedirs(folder, exist_ok=True)
        shutil.copy(path, folder)
        with open(os.path.join(folder, "data.json"), "w") as file:
            json.dump({"dims": dims}, file)
        chosen = choices if not way.startswith("fixed") else [choices[int(way[-1])]]
        for k, sizes in enumerate(chosen):
            feed = dict(inputs(model, sizes, k))
            data = os.path.join(folder, f"test_data_set_{k}")
            write(data, feed.keys(), feed.values(), "input")
            write(data, outputs, session.run(outputs, feed), "output")


def filled(source, out, name):
    model = onnx.load(os.path.join(source, name, "model.onnx"))
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and not numpy_helper.to_array(tensor).any():
            rng = np.random.default_rng(zlib.crc32(tensor.name.encode()))
            weights = rng.standard_normal(tensor.dims) * 0.02
            tensor.CopyFrom(numpy_helper.from_array(weights.astype(np.float32), tensor.name))
    folder = os.path.join(out, f"{name}_filled")
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data, exist_ok=True)
    path = os.path.join(folder, "model.onnx")
    onnx.save(model, path)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    feed = dict(inputs(model, {}, 0))
    given = session.run(None, feed)
    assert all(array.any() for array in given), f"{name} still gives nothing but zeros"
    write(data, feed.keys(), feed.values(), "input")
    write(data, [value.name for value in model.graph.output], given, "output")


if __name__ == "__main__":
    for name in SIZES:
        variants(sys.argv[1], sys.argv[2], name)
    for name in EMPTY:
        filled(sys.argv[1], sys.argv[2], name)
