"""GatherBlockQuantized against ONNX Runtime, whose operator it is."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rillet
from rillet.errors import CompileError, UnsupportedError
from tests.support.contrib_models import assert_close, contrib_model, run_both

ROWS, COLUMNS, BLOCK = 10, 64, 16
INDICES = np.array([[1, 3, 0], [9, -1, -10]])


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    parts = [numbers[:, n :: 8 // bits].astype(np.uint32) << (bits * n) for n in range(8 // bits)]
    return np.bitwise_or.reduce(parts).astype(np.uint8)


def model(bits: int, zero: bool, dtype: type = np.float32, **attributes: object) -> onnx.ModelProto:
    r = np.random.default_rng(bits)
    inputs = {
        "data": packed(r.integers(0, 1 << bits, (ROWS, COLUMNS)), bits),
        "indices": INDICES,
        "scales": r.uniform(0.1, 0.2, (ROWS, COLUMNS // BLOCK)).astype(dtype),
        "zeros": packed(r.integers(0, 1 << bits, (ROWS, COLUMNS // BLOCK)), bits) if zero else None,
    }
    known = [n for n, a in inputs.items() if a is not None and n != "indices"]
    usual = {"bits": bits, "block_size": BLOCK, "gather_axis": 0, "quantize_axis": 1}
    shapes = {"indices": ["B", "S"]}
    return contrib_model(
        "GatherBlockQuantized", inputs, ("y",), shapes, known, dtypes={"y": dtype}, **(usual | attributes)
    )


@pytest.mark.parametrize(
    ("bits", "zero", "dtype"),
    [(4, True, np.float32), (8, False, np.float32), (2, True, np.float32), (4, False, np.float16)],
)
def test_as_onnx_runtime(bits: int, zero: bool, dtype: type) -> None:
    ((actual, expected),) = run_both(model(bits, zero, dtype), {"indices": INDICES})
    assert_close(actual, expected, 1e-3 if dtype == np.float16 else 1e-7)


def test_what_it_cannot_be() -> None:
    with pytest.raises(UnsupportedError, match=r"'n'.*data of rank 2 with axes \(1, 0\); gather rows of a matrix"):
        rillet.compile(model(4, False, gather_axis=1, quantize_axis=0))
    with pytest.raises(UnsupportedError, match=r"'n'.*uint8 in 3 bits with blocks of 16; quantize to 2, 4 or 8 bits"):
        proto = model(4, False)
        next(a for a in proto.graph.node[0].attribute if a.name == "bits").i = 3
        rillet.compile(proto)
    with pytest.raises(CompileError, match=r"'n'.*input 'scales' is \[10, 4\], not \[10, 2\]"):
        rillet.compile(model(4, False, block_size=32))
