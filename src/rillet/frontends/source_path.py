"""The file that a source names."""

from __future__ import annotations

import os
from pathlib import Path

from rillet.errors import CompileError
from rillet.support.files import path_text


def checked_path(source: str | os.PathLike[str]) -> Path:
    """The path of a model file, which is there and no folder. Raises ``CompileError``."""
    name = path_text(source, "cannot compile", CompileError)
    if os.path.isdir(name):
        raise CompileError(f"{name} is a folder; give a model file")
    try:
        os.stat(name)
    except FileNotFoundError:
        raise CompileError(f"{name}: no such file") from None
    except OSError as error:
        raise CompileError(f"cannot read {name}: {error.strerror}") from error
    return Path(name)
