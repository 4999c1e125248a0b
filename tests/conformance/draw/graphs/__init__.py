"""Drawn graphs: many nodes, chosen so that what the compiler's passes look for meets.

`python -m draw.graphs OUT` writes them as folders that `onnxc test` reads; `README.md` of the folder
above tells the rest.
"""
