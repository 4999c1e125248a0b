"""Writes random graphs."""

import argparse
import shutil
from pathlib import Path

from .. import share
from . import model
from .evaluate import OPSETS

PROGRAM = "python -m draw.graphs OUT"


def arguments():
    parser = argparse.ArgumentParser(prog="draw.graphs", description=__doc__)
    parser.add_argument("out", type=Path, help="the folder that the graphs are written to")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the random choices")
    parser.add_argument("--count", type=int, default=400, help="the number of graphs")
    share.add_argument(parser)
    parser.add_argument("--case", type=int, help="generate only the graph of this number")
    return parser.parse_args()


def main():
    options = arguments()
    shutil.rmtree(options.out, ignore_errors=True)
    numbers = options.share.of(range(options.count))
    for number in numbers if options.case is None else [options.case]:
        # The names have the form of those of operators: version, seed and number.
        name = f"v{OPSETS[0].version}_s{options.seed}_{number:05}"
        again = f"{PROGRAM} --seed {options.seed} --case {number}"
        model.draw(options.seed, number).write(options.out / name, again)


if __name__ == "__main__":
    main()
