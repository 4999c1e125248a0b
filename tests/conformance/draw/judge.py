"""Checks that every random case passes in every run.

    python -m draw.judge DRAWN REPORT RUN=RESULTS ...

RESULTS is the output of `onnxc test --json` for the folder DRAWN. Writes REPORT: the number of
cases of each version of each operator, and how many of them pass in each run. For a case that
fails, prints the command that generates it.
"""

import json
import sys
from collections import Counter
from pathlib import Path

# The number of failing cases that are printed.
SHOWN = 20


def version(folder):
    """Returns the operator and the version of a case."""
    return folder.parent.name, int(folder.name.split("_")[0].removeprefix("v"))


def read(path):
    """Reads the status of each case of a run."""
    lines = map(json.loads, Path(path).read_text().splitlines())
    return {Path(line["path"]).resolve(): line for line in lines}


def write_report(folders, runs, path):
    drawn = Counter(map(version, folders))
    good = {
        name: Counter(version(folder) for folder, line in run.items() if line["status"] == "ok")
        for name, run in runs.items()
    }
    with path.open("w") as file:
        print("| operator | version | drawn |", " | ".join(runs), "|", file=file)
        print("|---|---|---|" + "---|" * len(runs), file=file)
        for (operator, since), count in sorted(drawn.items()):
            each = " | ".join(str(good[name][operator, since]) for name in runs)
            print(f"| {operator} | {since} | {count} | {each} |", file=file)


def judge(folders, name, run):
    """Prints the failing cases of a run; returns whether all cases pass."""
    bad = [folder for folder in folders if run.get(folder, {}).get("status") != "ok"]
    print(f"{name}: {len(folders) - len(bad)} of {len(folders)} drawn cases ok")
    for folder in bad[:SHOWN]:
        line = run.get(folder, {"status": "not run", "reason": ""})
        again = json.loads((folder / "data.json").read_text())["again"]
        print(f"{folder}: {line['status']}: {line['reason']}\n    {again}")
    return not bad


def main(drawn, report, *runs):
    folders = sorted(path.parent.resolve() for path in Path(drawn).rglob("model.onnx"))
    runs = {name: read(path) for name, path in (run.split("=", 1) for run in runs)}
    write_report(folders, runs, Path(report))
    return all([judge(folders, name, run) for name, run in runs.items()])


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
