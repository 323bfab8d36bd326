"""The module file: layout, writing and reading back."""

from __future__ import annotations

from rillet.module.library import CompiledLibrary
from rillet.module.reader import Contents, read_module
from rillet.module.writer import ModuleFile, module_file, write_module

__all__ = ["CompiledLibrary", "Contents", "ModuleFile", "module_file", "read_module", "write_module"]
