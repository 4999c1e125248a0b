"""Checks a report of `onnxc test --json`: errors relative to the largest expected result.

    python judge.py REPORT           # fails if the error of a model is too large
    python judge.py --dims FOLDER    # prints the options for the dimensions of a test folder
"""
import json, math, os, sys

# Elements of 16 bits are rounded after every node.
FLOAT, HALF = 1e-4, 2e-2


def share(result):
    """Returns the error relative to the largest expected result; NaN if the model fails."""
    if result["status"] == "ok" and result["max_expected"] in (None, 0):
        return 0.0
    if result["status"] not in ("ok", "differs") or not result["max_expected"]:
        return math.nan
    return result["max_abs"] / result["max_expected"]


def judge(path):
    wrong = 0
    with open(path) as report:
        results = [json.loads(line) for line in report]
    for result in results:
        name = result["path"].split("/")[-1]
        found, most = share(result), HALF if name.startswith("half_") else FLOAT
        good = found <= most
        print(f"{name:24} {found:.1e} {'' if good else result['reason']}")
        wrong += not good
    sys.exit(f"{wrong} of {len(results)} models differ" if wrong or not results else 0)


def dims(folder):
    with open(os.path.join(folder, "data.json")) as file:
        for name, size in json.load(file)["dims"].items():
            print(f"--dim={name}={size}")


if __name__ == "__main__":
    dims(sys.argv[2]) if sys.argv[1] == "--dims" else judge(sys.argv[1])
