"""Runs ONNX's own backend test runner on onnxc.

    python score.py [--onnxc PROGRAM] [--include PATTERN] [-v]

Fails if a case fails that `not_ok` does not list, or passes although it is listed.
"""

import argparse
import os
import pathlib
import sys
import unittest


# The runner asks for the length of a scalar tensor, so no backend passes.
NOT_COMPARABLE = "^test_loop16_seq_none_"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--onnxc", help="the program (default: $ONNXC, or onnxc on the path)")
    parser.add_argument("--include", default="", help="run only cases whose names have this")
    parser.add_argument("-v", action="store_true", help="name each case")
    options = parser.parse_args()
    if options.onnxc:
        os.environ["ONNXC"] = os.path.abspath(options.onnxc)

    # The backend reads the variable when it is imported.
    from backend import Onnxc
    from onnx.backend.test import BackendTest

    runner = BackendTest(Onnxc, __name__).include(options.include)
    runner = runner.exclude("_cuda$").exclude(NOT_COMPARABLE)
    lines = pathlib.Path(__file__).with_name("not_ok").read_text().splitlines()
    for case in (line.split()[0] for line in lines if line and not line.startswith("#")):
        runner.xfail(f"^{case.rsplit('/')[-1]}_cpu$")
    suite = unittest.TestSuite(test for test in cases(runner.test_suite) if not skipped(test))
    result = unittest.TextTestRunner(verbosity=2 if options.v else 0).run(suite)
    wrong = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    print(f"{result.testsRun - wrong - len(result.expectedFailures)} of {result.testsRun} pass")
    return 0 if wrong == 0 else 1


def cases(suite):
    """Yields the tests of a suite and of those nested in it, one by one."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases(test)
        else:
            yield test


def skipped(test):
    return getattr(getattr(test, test._testMethodName), "__unittest_skip__", False)


if __name__ == "__main__":
    sys.exit(main())
