"""Rillet compiles trained models into small native programs and runs them.

``rillet.compile`` needs the compiler half (MLIR, LLVM, ONNX); ``rillet.load`` and calling a module need numpy only, and
importing this package imports neither half until it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rillet.errors import CompileError, LoadError, RilletError, RunError, SaveError, UnsupportedError, missing_package

if TYPE_CHECKING:
    from rillet.analysis import check
    from rillet.driver.compile import compile
    from rillet.onnxruntime.session import InferenceSession
    from rillet.runtime import Module, load

__version__ = "0.1.0"
__all__ = [
    "CompileError",
    "InferenceSession",
    "LoadError",
    "Module",
    "RilletError",
    "RunError",
    "SaveError",
    "UnsupportedError",
    "check",
    "compile",
    "load",
]

_LAZY = {
    "check": "rillet.analysis",
    "compile": "rillet.driver.compile",
    "InferenceSession": "rillet.onnxruntime.session",
    "load": "rillet.runtime",
    "Module": "rillet.runtime",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'rillet' has no attribute '{name}'")
    from importlib import import_module

    try:
        value = getattr(import_module(_LAZY[name]), name)
    except ModuleNotFoundError as error:
        advice = missing_package(error)
        if advice is None:
            raise
        raise ImportError(f"rillet.{name} {advice}") from error
    globals()[name] = value
    return value
