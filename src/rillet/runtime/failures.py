"""Errors of kernels, told in the terms of the source model."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rillet.errors import RunError

# How the runtime's message about a kernel begins: its name, then what happened.
_KERNEL = re.compile(r"'(?P<kernel>[^']+)'(?:: | )(?P<what>an index in the data is out of bounds|failed with code .*)")


def explained(error: RunError, sources: Mapping[str, str]) -> RunError:
    """The error with the source nodes of the kernel that failed; itself when it is of something else.

    ``sources`` has the nodes of each kernel, comma-separated.
    """
    found = _KERNEL.search(str(error))
    nodes = sources.get(found["kernel"], "") if found else ""
    if not found or not nodes:
        return error
    names = nodes.split(", ")
    label = f"node{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"
    return RunError(f"{label}: {found['what']} (kernel '{found['kernel']}')")
