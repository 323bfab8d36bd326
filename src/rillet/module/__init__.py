"""The module file: layout and writing."""

from __future__ import annotations

from rillet.module.library import CompiledLibrary
from rillet.module.writer import ModuleFile, module_file, write_module

__all__ = ["CompiledLibrary", "ModuleFile", "module_file", "write_module"]
