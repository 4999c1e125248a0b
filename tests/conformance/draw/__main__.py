"""Writes random cases, and prints the number of cases of each operator."""

import argparse
import shutil
import sys
import traceback
from collections import Counter
from pathlib import Path

import runtime_schemas

from . import oracle, registry, share
from . import ops  # noqa: F401 (each family registers its operators)

PROGRAM = "python -m draw OUT"


def arguments():
    parser = argparse.ArgumentParser(prog="draw", description=__doc__)
    parser.add_argument("out", type=Path, help="the folder that the cases are written to")
    parser.add_argument(
        "--only", nargs="+", metavar="OPERATOR", help="generate only these operators"
    )
    parser.add_argument("--since", type=int, help="generate only this version")
    parser.add_argument("--case", type=int, help="generate only the case of this number")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the random choices")
    parser.add_argument(
        "--times", type=int, default=1, help="generate TIMES the usual number of cases"
    )
    share.add_argument(parser)
    parser.add_argument(
        "--oracles", action="store_true", help="print where other implementations differ"
    )
    return parser.parse_args()


def wanted(options):
    """Lists the requested cases: operator, version, the last operator set of it, number."""
    for (domain, op), since in registry.versions():
        if op not in options.only if options.only else (domain, op) in registry.AWAITED:
            continue
        for version, until in since:
            if options.since not in (None, version):
                continue
            numbers = range(registry.count(domain, since) * options.times)
            for number in options.share.of(numbers) if options.case is None else [options.case]:
                yield domain, op, version, until, number


def write(options, domain, op, version, until, number):
    """Generates one case and writes it."""
    case = registry.draw(domain, op, version, until, options.seed, number)
    if options.oracles:
        for who, how, what in oracle.disagreements(case):
            print(f"{who:<12} {how:<8} {op} {version} case {number}: {what}")
        return
    again = f"{PROGRAM} --only {op} --since {version} --seed {options.seed} --case {number}"
    # Some operators of `ai.onnx` and of ONNX Runtime have the same name.
    name = f"{domain}.{op}" if domain == runtime_schemas.DOMAIN else op
    case.write(
        options.out / name / f"v{version}_s{options.seed}_{number:03}", oracle.expected(case), again
    )


def table(drawn):
    """Prints the number of cases of each operator and version; returns those with too few."""
    short = []
    for (domain, op), since in registry.versions():
        counts = {version: drawn[domain, op, version] for version, _ in since}
        total = sum(counts.values())
        print(
            f"{domain or 'ai.onnx':<24} {op:<28} {total:>4}  "
            + " ".join(f"{v}:{n}" for v, n in counts.items())
        )
        if (domain, op) in registry.AWAITED:
            continue
        if total < registry.least(domain) or min(counts.values()) < registry.CASES_OF_VERSION:
            short.append(f"{op} has {total} cases: {counts}")
    return short


def main():
    options = arguments()
    shutil.rmtree(options.out, ignore_errors=True)
    drawn, failed = Counter(), []
    for domain, op, version, until, number in wanted(options):
        try:
            write(options, domain, op, version, until, number)
            drawn[domain, op, version] += 1
        except Exception as error:  # a case without an expected output is not written
            failed.append(f"{op} {version} seed {options.seed} case {number}: {error!r}")
            if options.case is not None:
                traceback.print_exc()
    print(*failed, sep="\n", file=sys.stderr)
    if options.only or options.oracles:
        return
    short = table(drawn)
    print(f"{drawn.total()} cases of {len(drawn)} versions")
    if short and options.share.is_whole():
        sys.exit("\n".join(["too few cases:", *short]))


main()
