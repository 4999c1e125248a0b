"""Random models for every operator and version of ONNX, with their expected outputs.

`python -m draw OUT` writes them as folders that `onnxc test` reads; see `README.md`.
"""
