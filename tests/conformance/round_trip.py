"""Checks the models that onnxc writes with ONNX's own checker and parser.

Usage: round_trip.py ONNXC SUITE WORK

Every model of SUITE, a folder of folders in ONNX's test layout, is

- optimized and written: the checker must accept the copy with full shape inference, and
  `onnxc test` must get the results of the original;
- printed as text: ONNX's parser must read the original model from it, and `onnxc` must read a
  model from it that prints as the same text and has the same results.

`round_trip_known` lists the known failures, one a line: the check, the case, and the reason.
"""

import os
import pathlib
import shutil
import subprocess
import sys
from multiprocessing.pool import ThreadPool

import onnx
import onnx.checker
import onnx.numpy_helper
import onnx.parser

KNOWN = pathlib.Path(__file__).parent / "round_trip_known"

# The parts of models that the textual syntax cannot express.
WORDLESS = {
    "doc_string",
    "denotation",
    "quantization_annotation",
    "training_info",
    "device_configurations",
    "configuration",
}


def cases(suite):
    """Returns the folders with models, relative to the suite."""
    return sorted(model.parent.relative_to(suite) for model in suite.rglob("model.onnx"))


def with_data(suite, copies):
    """Puts the data of each test next to the copy of its model."""
    for case in cases(copies):
        for beside in (suite / case).iterdir():
            if beside.name != "model.onnx" and not (copies / case / beside.name).exists():
                os.symlink(beside.resolve(), copies / case / beside.name)


def run(onnxc, copies, report):
    """Returns the lines of the failing cases, and the last line."""
    with open(report, "w") as out:
        subprocess.run([onnxc, "test", "--interpret", copies], stdout=out, check=False)
    lines = report.read_text().splitlines()
    bad = [line.split()[1] for line in lines if line.startswith(("differs ", "failed "))]
    return [pathlib.Path(path).relative_to(copies) for path in bad], lines[-1]


def rejected(path):
    """Returns why ONNX's checker rejects a model."""
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:
        return str(error).strip().splitlines()[0]
    return None


def meaning(proto):
    """Returns the content of a message, independent of its form."""
    if isinstance(proto, onnx.TensorProto) and proto.data_location != onnx.TensorProto.EXTERNAL:
        data = onnx.numpy_helper.to_array(proto)
        elements = data.tolist() if data.dtype == object else data.tobytes()
        return (proto.name, proto.data_type, list(proto.dims), elements)
    said = {}
    for field, value in proto.ListFields():
        if field.name in WORDLESS or value == "":
            continue
        if field.name == "metadata_props" and not isinstance(proto, onnx.ModelProto):
            continue
        if field.message_type is None:
            # As text, because NaN is not equal to itself.
            said[field.name] = repr(list(value) if field.is_repeated else value)
        elif field.is_repeated:
            said[field.name] = [meaning(inner) for inner in value]
        else:
            said[field.name] = meaning(value)
    return said


def first_difference(a, b, path=""):
    """Returns the first difference between two contents."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys()):
            if a.get(key) != b.get(key):
                return first_difference(a.get(key), b.get(key), f"{path}.{key}")
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            if x != y:
                return first_difference(x, y, f"{path}[{i}]")
    return f"{path}: {str(a)[:80]} but {str(b)[:80]}"


def check_optimized(onnxc, suite, work, failing):
    copies = work / "optimized"
    shutil.rmtree(copies, ignore_errors=True)
    command = [onnxc, "optimize", suite, "--types", "-o", copies]
    result = subprocess.run(command, capture_output=True, text=True)
    (work / "optimize.log").write_text(result.stderr)
    with_data(suite, copies)
    for case in cases(suite):
        copy = copies / case / "model.onnx"
        if not copy.exists():
            yield "optimize", case, f"not written, see {work}/optimize.log"
        elif (why := rejected(copy)) and not rejected(suite / case / "model.onnx"):
            yield "check", case, why
    bad, summary = run(onnxc, copies, work / "report.optimized")
    print("optimized:", summary)
    for case in set(bad) - failing:
        yield "run", case, f"see {work}/report.optimized"


def shown(onnxc, path):
    return subprocess.run([onnxc, "show", "--full", path], capture_output=True, text=True).stdout


def check_text(onnxc, suite, work, failing):
    copies = work / "text"
    shutil.rmtree(copies, ignore_errors=True)

    def one(case):
        text = shown(onnxc, suite / case / "model.onnx")
        (copies / case).mkdir(parents=True)
        copy = copies / case / "model.onnx"
        copy.write_text(text)
        if not text or shown(onnxc, copy) != text:
            yield "reread", case, "what is shown is not what is read"
        try:
            found = meaning(onnx.parser.parse_model(text))
        except Exception as error:
            yield "parse", case, " ".join(str(error).split())
            return
        original = meaning(onnx.load(suite / case / "model.onnx", load_external_data=False))
        if found != original:
            yield "parse", case, first_difference(original, found)

    with ThreadPool() as pool:
        for failures in pool.map(lambda case: list(one(case)), cases(suite)):
            yield from failures
    with_data(suite, copies)
    bad, summary = run(onnxc, copies, work / "report.text")
    print("text:", summary)
    for case in set(bad) - failing:
        yield "run-text", case, f"see {work}/report.text"


def main():
    onnxc, suite, work = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    work.mkdir(parents=True, exist_ok=True)
    known = [line.split()[:2] for line in KNOWN.read_text().splitlines() if line]
    failing = set(run(onnxc, suite, work / "report.original")[0])
    new = 0
    for check in (check_optimized, check_text):
        for kind, case, why in check(onnxc, suite, work, failing):
            if [kind, case.name] not in known:
                new += 1
                print(kind, case, why)
    print(f"{len(cases(suite))} models, {new} that are not known fail")
    sys.exit(1 if new else 0)


main()
