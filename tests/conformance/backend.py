"""onnxc as a backend of ONNX's own tools: `onnx.backend.base.Backend` over `onnxc run`.

    from backend import Onnxc
    [y] = Onnxc.run_model(onnx.load("model.onnx"), [x])

The variable `ONNXC` names the program; without it, it is found on the path.
"""

import os
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import ModelProto, OptionalProto, SequenceProto, TensorProto, helper, numpy_helper
from onnx.backend.base import Backend, BackendRep

PROGRAM = os.environ.get("ONNXC", "onnxc")

# For each kind of value: its message, and the functions that read and write it.
KINDS = {
    "tensor_type": (
        TensorProto,
        lambda v, name: numpy_helper.from_array(np.asarray(v), name),
        numpy_helper.to_array,
    ),
    "sequence_type": (SequenceProto, numpy_helper.from_list, numpy_helper.to_list),
    "optional_type": (OptionalProto, numpy_helper.from_optional, numpy_helper.to_optional),
    "map_type": (onnx.MapProto, numpy_helper.from_dict, numpy_helper.to_dict),
}


def kind(info):
    """Returns the kind of a value of the model; a value without a type counts as a tensor."""
    return KINDS[info.type.WhichOneof("value") or "tensor_type"]


class Prepared(BackendRep):
    """A model in a file, which can be run any number of times."""

    def __init__(self, model: ModelProto):
        self.folder = tempfile.TemporaryDirectory(prefix="onnxc-")
        self.model = pathlib.Path(self.folder.name, "model.onnx")
        self.model.write_bytes(model.SerializeToString())
        constants = {tensor.name for tensor in model.graph.initializer}
        self.inputs = [info for info in model.graph.input if info.name not in constants]
        self.outputs = model.graph.output

    def run(self, inputs, **_):
        is_named = isinstance(inputs, dict)
        values = inputs if is_named else {i.name: v for i, v in zip(self.inputs, inputs)}
        with tempfile.TemporaryDirectory(dir=self.folder.name) as folder:
            folder = pathlib.Path(folder)
            arguments = [PROGRAM, "run", self.model, "--format", "pb"]
            arguments += ["--output-dir", folder / "out"]
            for number, info in enumerate(self.inputs):
                if info.name in values:
                    file = folder / f"{number}.pb"
                    message = kind(info)[1](values[info.name], info.name)
                    file.write_bytes(message.SerializeToString())
                    arguments += ["--input", f"{info.name}={file}"]
            done = subprocess.run(arguments, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(done.stderr)
            return tuple(self.read(info, folder / "out") for info in self.outputs)

    @staticmethod
    def read(info, folder):
        """Returns the output of that name. Its file may have another name, but its message has this
        one.
        """
        message, _, value = kind(info)
        for file in folder.iterdir():
            found = message.FromString(file.read_bytes())
            if found.name == info.name:
                return value(found)
        raise RuntimeError(f"no file has the output {info.name}")


class Onnxc(Backend):
    """Compiles models for the sizes of their inputs, and runs them in onnxc's interpreter."""

    @classmethod
    def supports_device(cls, device):
        return device == "CPU"

    @classmethod
    def prepare(cls, model, device="CPU", **_):
        if not cls.supports_device(device):
            raise ValueError(f"onnxc has no device {device}")
        return Prepared(model)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, opset_version=None, **_):
        def info(name, value):
            value = np.asarray(value)
            dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
            return helper.make_tensor_value_info(name, dtype, value.shape)

        names = [name for name in node.input if name]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", list(map(info, names, inputs)), outputs)
        version = opset_version or onnx.defs.onnx_opset_version()
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
        return cls.run_model(onnx.shape_inference.infer_shapes(model), inputs, device)


prepare = Onnxc.prepare
run_model = Onnxc.run_model
run_node = Onnxc.run_node
supports_device = Onnxc.supports_device
