"""What to install where the compiler's packages are missing, for each way to install Rillet."""

from __future__ import annotations

import importlib.metadata
import json
from typing import Any

import pytest

from rillet.errors import compiler_installation


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'rillet[compiler]'"),
        ({"url": "file:///my%20code/rillet", "dir_info": {}}, "pip install '/my code/rillet[compiler]'"),
        ({"url": "file:///r", "dir_info": {"editable": True}}, "pip install -e '/r[compiler]'"),
        (
            {"url": "https://host/r.git", "vcs_info": {"vcs": "git", "commit_id": "a1"}},
            "pip install 'rillet[compiler] @ git+https://host/r.git@a1'",
        ),
        ({"url": "file:///r-1.whl", "archive_info": {}}, "pip install 'rillet[compiler] @ file:///r-1.whl'"),
    ],
)
def test_the_command_fits_the_installation(
    origin: dict[str, Any] | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Distribution:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return json.dumps(origin) if origin else None

    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Distribution())
    assert compiler_installation() == command


def test_a_source_folder_on_the_path_is_no_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert compiler_installation() == "pip install '.[compiler]' in Rillet's source folder"
