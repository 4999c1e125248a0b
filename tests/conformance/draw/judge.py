"""Holds runs of drawn cases against what is wanted: every case is good in every run.

    python -m draw.judge DRAWN REPORT RUN=RESULTS ...

RESULTS is what `onnxc test --json` says of the folder DRAWN. REPORT is written: how many cases of
each version of each operator there are, and how many of them are good in each run. Of a case that
is not, the command is printed that draws it again.
"""

import json
import sys
from collections import Counter
from pathlib import Path

# How many cases that are not good are printed.
SHOWN = 20


def version(folder):
    """The operator and the version that a case is of."""
    return folder.parent.name, int(folder.name.split("_")[0].removeprefix("v"))


def read(path):
    """What a run says of each case."""
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
    """Prints what is not good in a run; says whether all is."""
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
