"""The modules of ONNX Runtime's package ``capi`` have its names, and its exceptions are Rillet's."""

from __future__ import annotations

import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_inference_collection as their_collection
from onnxruntime.capi import onnxruntime_pybind11_state as theirs

import rillet
from rillet.onnxruntime import capi


def test_every_name_is_one_of_theirs() -> None:
    assert set(capi.onnxruntime_pybind11_state.__all__) <= set(dir(theirs))
    assert set(capi.onnxruntime_inference_collection.__all__) <= set(dir(their_collection))
    assert capi._pybind_state.Fail is capi.onnxruntime_pybind11_state.Fail
    assert onnxruntime.InferenceSession is their_collection.InferenceSession


@pytest.mark.parametrize(
    ("name", "kind"),
    [("InvalidProtobuf", rillet.CompileError), ("InvalidArgument", rillet.RunError), ("Fail", rillet.RilletError)],
)
def test_exceptions_are_ours(name: str, kind: type) -> None:
    assert getattr(capi.onnxruntime_pybind11_state, name) is kind
