"""An oracle that ends its process, or does not return, is reported and started again."""

from __future__ import annotations

import os
import time

import pytest

from rillet.frontends.onnx.verification.oracles import OracleError

from .isolated import Isolated


def _oracle(what: str) -> str:
    if what == "dies":
        os.abort()
    if what == "hangs":
        time.sleep(60)
    if what == "refuses":
        raise OracleError("it cannot")
    return what


def test_what_ends_the_process_is_an_error_of_the_oracle() -> None:
    oracle = Isolated(_oracle, "the oracle", seconds=10)
    assert oracle("runs") == "runs"
    with pytest.raises(OracleError, match="it cannot"):
        oracle("refuses")
    with pytest.raises(OracleError, match=r"the oracle crashes \(status -6\)"):
        oracle("dies")
    assert oracle("runs") == "runs"
    impatient = Isolated(_oracle, "the oracle", seconds=0.1)
    with pytest.raises(OracleError, match=r"takes more than 0\.1 s$"):
        impatient("hangs")
