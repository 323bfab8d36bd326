"""Real ONNX files out of packages: each compiles, agrees with ONNX Runtime, and is timed beside it.

``python -m benchmarks.real_models``; see ``benchmarks/real_models/__main__.py``.
"""
