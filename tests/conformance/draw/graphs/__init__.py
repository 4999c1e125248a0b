"""Random graphs that combine the patterns that the compiler's passes match.

`python -m draw.graphs OUT` writes them as folders that `onnxc test` reads; see `../README.md`.
"""
