"""Every family of operators, one file each, as in the compiler."""

from importlib import import_module
from pathlib import Path

for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
    import_module(f".{path.stem}", __package__)
