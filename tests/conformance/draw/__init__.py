"""Drawn models for every operator and version of ONNX, with what they should give.

`python -m draw OUT` writes them as folders that `onnxc test` reads; `README.md` tells the rest.
"""
