"""Being here puts this folder on the path, so that the tests of every stage share its helpers."""

from __future__ import annotations

import pytest

# Folders whose tests share something costly that two processes must not make at once: builds of the C runtime.
_TOGETHER = {"runtime": "c-runtime"}
# Folders whose tests share nothing, so that each may run anywhere.
_APART = {"conformance"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what is found as what is expected")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests for ``--dist loadgroup``: those of one file stay together, for the sake of their fixtures."""
    for item in items:
        folder = item.path.parent.name
        if folder not in _APART:
            item.add_marker(pytest.mark.xdist_group(_TOGETHER.get(folder, str(item.path))))
