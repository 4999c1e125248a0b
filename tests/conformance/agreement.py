"""Compares the results of `onnxc check` with those of onnx's own checker.

    python agreement.py ONNXC SUITE MALFORMED DIFFERENCES

SUITE has ONNX's official models (any `model.onnx` below it), which are all valid. MALFORMED has
models that break one rule each. DIFFERENCES explains where the two checkers differ: a line for each
model, with its name, a colon and the reason. A line for a model on which they agree is an error.
"""

import json
import pathlib
import subprocess
import sys

import onnx
import onnx.checker

BATCH = 200


def find_codes(onnxc, paths):
    """Returns the first error code for each of the paths that onnxc finds invalid."""
    rejected = {}
    for at in range(0, len(paths), BATCH):
        command = [onnxc, "check", "--json", *map(str, paths[at : at + BATCH])]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = run.stdout.splitlines()
        for diagnostic in map(json.loads, lines):
            if diagnostic["invalid"]:
                rejected.setdefault(
                    diagnostic["model"], diagnostic["code"] + " " + diagnostic["message"]
                )
    return rejected


def onnx_error(path, full_check):
    """Returns the first line of the message if onnx's checker rejects a model."""
    try:
        onnx.checker.check_model(str(path), full_check=full_check)
    except Exception as error:  # any exception is a rejection
        return (str(error).strip().splitlines() or [repr(error)])[0]
    return None


def reasons(path):
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    pairs = (line.split(":", 1) for line in lines if line)
    return {name.strip(): reason.strip() for name, reason in pairs}


def main(onnxc, suite, malformed, differences):
    official = sorted(suite.glob("**/model.onnx"))
    rejected = find_codes(onnxc, official)
    # onnx cannot infer the types of some of its own models.
    rejected |= {path: error for path in official if (error := onnx_error(path, full_check=False))}
    for path, code in rejected.items():
        print(f"official, but rejected: {path}: {code}")
    models = sorted(malformed.glob("*.onnx"))
    ours = find_codes(onnxc, models)
    known = reasons(differences)
    unknown, agreed = [], 0
    for path in models:
        code, error = ours.get(str(path)), onnx_error(path, full_check=True)
        if (code is None) == (error is None):
            agreed += 1
            if path.stem in known:
                unknown.append(f"{path.stem}: listed, but both say the same")
        elif path.stem not in known:
            unknown.append(f"{path.stem}: onnxc: {code or 'valid'}; onnx: {error or 'valid'}")
    names = {path.stem for path in models}
    unknown += [f"{name}: listed, but there is no such model" for name in known.keys() - names]
    print("\n".join(unknown))
    print(f"{len(official)} official models, {len(rejected)} rejected; {len(models)} malformed "
          f"models, {agreed} with the same result, {len(known)} known differences, "
          f"{len(unknown)} unknown")
    return 1 if rejected or unknown or not official or not models else 0


sys.exit(main(sys.argv[1], *map(pathlib.Path, sys.argv[2:])))
