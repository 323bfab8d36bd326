"""The modules of ONNX Runtime's package ``capi`` that client code names: its exceptions, and its classes once more."""

from __future__ import annotations

from rillet.onnxruntime.capi import _pybind_state, onnxruntime_inference_collection, onnxruntime_pybind11_state

__all__ = ["_pybind_state", "onnxruntime_inference_collection", "onnxruntime_pybind11_state"]
