"""An oracle that does as it is told. It has a module of its own, which a child process can import by its name."""

from __future__ import annotations

import os
import time

from rillet.frontends.verification import OracleError


def answer(what: str) -> str:
    """``what``, unless it says that the oracle dies, hangs or refuses."""
    if what == "dies":
        os.abort()
    if what == "hangs":
        time.sleep(60)
    if what == "refuses":
        raise OracleError("it cannot")
    return what
