"""Compares a run of the official suite with the list of known failures.

    python judge.py SUITE RESULTS REPORT

RESULTS is the output of `onnxc test --json`. Writes REPORT: a table by operator and element type.
Fails if a case fails that `not_ok` does not list, if a case passes that it lists, or if a case did
not run.
"""

import collections
import json
import pathlib
import sys

import onnx
from onnx import TensorProto

KNOWN = pathlib.Path(__file__).with_name("not_ok")


def known():
    lines = (line.split(maxsplit=1) for line in KNOWN.read_text().splitlines())
    return {words[0]: words[1] for words in lines if words and not words[0].startswith("#")}


def results(suite, path):
    """Reads the result of each case, by its folder in the suite."""
    lines = (json.loads(line) for line in path.read_text().splitlines())
    return {str(pathlib.Path(line["path"]).resolve().relative_to(suite)): line for line in lines}


def tested(model):
    """Returns the operators that a case tests: the one in its name, or each of its operators."""
    functions = {function.name for function in model.functions}
    operators = {node.op_type for node in model.graph.node} - {"Constant"} - functions
    return operators or {"Constant"}


def types(values):
    """Returns the element types of the inputs."""
    for value in values:
        kind = value.type
        while (which := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
            kind = getattr(kind, which).elem_type
        if which == "map_type":
            yield "map"
        elif which:
            yield TensorProto.DataType.Name(getattr(kind, which).elem_type).lower()


def write_report(suite, found, path):
    by_operator = collections.defaultdict(collections.Counter)
    by_type = collections.defaultdict(collections.Counter)
    for case, line in found.items():
        model = onnx.load(suite / case / "model.onnx", load_external_data=False)
        for operator in tested(model):
            by_operator[operator][line["status"]] += 1
        for kind in set(types(model.graph.input)):
            by_type[kind][line["status"]] += 1
    with path.open("w") as file:
        for what, table in (("operator", by_operator), ("type of an input", by_type)):
            print(f"| {what} | ok | not ok |\n|---|---|---|", file=file)
            for name, counts in sorted(table.items()):
                print(f"| {name} | {counts['ok']} | {counts.total() - counts['ok']} |", file=file)
            print(file=file)


def main(suite, results_path, report):
    suite = suite.resolve()
    found, expected = results(suite, results_path), known()
    cases = {str(path.parent.relative_to(suite)) for path in suite.rglob("model.onnx")}
    write_report(suite, found, report)
    missing = sorted(cases - set(found))
    wrong = [f"{len(missing)} cases were not run, such as {missing[0]}"] if missing else []
    for case, line in sorted(found.items()):
        ok = line["status"] == "ok"
        if ok and case in expected:
            wrong.append(f"{case}: is ok now, so it must leave `not_ok`")
        if not ok and case not in expected:
            wrong.append(f"{case}: {line['status']}: {line['reason']}")
    good = sum(line["status"] == "ok" for line in found.values())
    print(f"{good} of {len(cases)} ok, {len(expected)} known not to be")
    print("\n".join(wrong), end="\n" if wrong else "")
    return not wrong


sys.exit(0 if main(*map(pathlib.Path, sys.argv[1:4])) else 1)
