"""Holds the verdicts of `onnxc check` against those of onnx's own checker.

    python agreement.py ONNXC SUITE MALFORMED DIFFERENCES

SUITE has ONNX's official models (any `model.onnx` below it), which all are valid. MALFORMED has
models that break one rule each. Where the two differ, DIFFERENCES has to say why: a line a model,
its name, a colon and the reason. A line for a model on which they agree is a fault, too.
"""

import json
import pathlib
import subprocess
import sys

import onnx
import onnx.checker

BATCH = 200


def onnxc_refuses(onnxc, paths):
    """The first code for each of the paths that onnxc finds invalid."""
    refused = {}
    for at in range(0, len(paths), BATCH):
        command = [onnxc, "check", "--json", *map(str, paths[at : at + BATCH])]
        lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        for finding in map(json.loads, lines):
            if finding["invalid"]:
                refused.setdefault(finding["model"], finding["code"] + " " + finding["message"])
    return refused


def onnx_refuses(path, full_check):
    """The first line of what onnx's checker says, where it refuses a model."""
    try:
        onnx.checker.check_model(str(path), full_check=full_check)
    except Exception as error:  # whatever the checker raises, it is a refusal
        return (str(error).strip().splitlines() or [repr(error)])[0]
    return None


def reasons(path):
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    pairs = (line.split(":", 1) for line in lines if line)
    return {name.strip(): reason.strip() for name, reason in pairs}


def main(onnxc, suite, malformed, differences):
    official = sorted(suite.glob("**/model.onnx"))
    refused = onnxc_refuses(onnxc, official)
    # Inferring their types is beyond onnx for some of its own.
    refused |= {path: error for path in official if (error := onnx_refuses(path, full_check=False))}
    for path, finding in refused.items():
        print(f"official, but refused: {path}: {finding}")
    models = sorted(malformed.glob("*.onnx"))
    ours = onnxc_refuses(onnxc, models)
    known = reasons(differences)
    unknown, agreed = [], 0
    for path in models:
        finding, error = ours.get(str(path)), onnx_refuses(path, full_check=True)
        if (finding is None) == (error is None):
            agreed += 1
            if path.stem in known:
                unknown.append(f"{path.stem}: listed, but both say the same")
        elif path.stem not in known:
            unknown.append(f"{path.stem}: onnxc: {finding or 'valid'}; onnx: {error or 'valid'}")
    unknown += [f"{name}: listed, but there is no such model" for name in known.keys() - {path.stem for path in models}]
    print("\n".join(unknown))
    print(f"{len(official)} official models, {len(refused)} refused; {len(models)} malformed models, "
          f"{agreed} judged alike, {len(known)} differences known, {len(unknown)} not")
    return 1 if refused or unknown or not official or not models else 0


sys.exit(main(sys.argv[1], *map(pathlib.Path, sys.argv[2:])))
