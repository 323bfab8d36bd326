"""An oracle that ends its process, or does not return, is reported and started again."""

from __future__ import annotations

import pytest

from rillet.frontends.verification import OracleError
from tests.fuzz.isolated import Isolated
from tests.support.unreliable_oracle import answer


def test_what_ends_the_process_is_an_error_of_the_oracle() -> None:
    oracle = Isolated(answer, "the oracle", seconds=10)
    assert oracle("runs") == "runs"
    with pytest.raises(OracleError, match="it cannot"):
        oracle("refuses")
    with pytest.raises(OracleError, match=r"the oracle crashes \(status -6\)"):
        oracle("dies")
    assert oracle("runs") == "runs"
    impatient = Isolated(answer, "the oracle", seconds=0.1)
    with pytest.raises(OracleError, match=r"takes more than 0\.1 s$"):
        impatient("hangs")
