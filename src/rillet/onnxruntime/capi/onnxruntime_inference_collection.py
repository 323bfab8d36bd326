"""Where ONNX Runtime defines its sessions."""

from rillet.onnxruntime.session import InferenceSession
from rillet.onnxruntime.values import IOBinding, OrtValue

__all__ = ["IOBinding", "InferenceSession", "OrtValue"]
