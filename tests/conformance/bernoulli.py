"""Shows that the expected results of ONNX's Bernoulli cases do not follow from the models.

    python bernoulli.py SUITE
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

CASES = ["", "_double", "_seed", "_expanded", "_double_expanded", "_seed_expanded"]


def tensor(path):
    return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


def main(suite):
    for case in CASES:
        folder = suite / "node" / f"test_bernoulli{case}"
        x = tensor(folder / "test_data_set_0/input_0.pb")
        expected = tensor(folder / "test_data_set_0/output_0.pb")

        # The expected results are the numbers of a generator after those of the input.
        source = np.random.RandomState(0)
        assert (source.random_sample(10).astype(x.dtype) == x).all()
        assert (source.binomial(1, p=x) == expected).all()

        # With the seed of the model, 0, the results differ.
        assert (np.random.RandomState(0).binomial(1, p=x) != expected).any()

        # ONNX's reference evaluator does not reproduce them either.
        model = ReferenceEvaluator(onnx.load(folder / "model.onnx"))
        [found] = model.run(None, {model.input_names[0]: x})
        expected, found = expected.astype(int), found.astype(int)
        print(f"{folder.name}: expected {expected}, the reference evaluator returns {found}")
        assert case.startswith("_seed") <= (found != expected).any()


main(pathlib.Path(sys.argv[1]))
