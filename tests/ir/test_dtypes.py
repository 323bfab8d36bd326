"""Element types: the names, numbers and sizes that every stage, the file and the runtime agree on."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from torch_mlir import ir

from rillet.errors import CompileError
from rillet.ir import dtypes, make_context
from tests.support.paths import RUNTIME


@pytest.mark.parametrize("kind", dtypes.by_code.values(), ids=lambda kind: kind.name)
def test_onnx_numpy_and_mlir_mean_the_same(kind: dtypes.ElementType) -> None:
    assert np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.code)) == kind.numpy
    assert dtypes.of_numpy(kind.numpy) == kind
    with make_context():
        assert dtypes.storage_bytes(dtypes.mlir_type(kind.name)) * 8 == kind.bits


def test_the_runtime_has_the_same_numbers() -> None:
    (header,) = (RUNTIME / "include").rglob("types.h")
    codes = {int(code) for code in re.findall(r"RLT_TYPE_\w+ = (\d+)", header.read_text())}
    assert codes == set(dtypes.by_code)


def test_sizes_in_buffers() -> None:
    with make_context():
        sizes = {
            text: dtypes.storage_bytes(ir.Type.parse(text)) for text in ("i1", "i4", "i64", "index", "complex<f64>")
        }
    assert sizes == {"i1": 1, "i4": 1, "i64": 8, "index": 8, "complex<f64>": 16}


def test_elements_that_cannot_be_stored() -> None:
    with make_context(), pytest.raises(CompileError, match="elements of type none cannot be stored"):
        dtypes.storage_bytes(ir.Type.parse("none"))


def test_a_dtype_that_no_tensor_has() -> None:
    with pytest.raises(KeyError):
        dtypes.of_numpy(np.dtype("datetime64[s]"))
