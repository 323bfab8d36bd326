"""Export: a model with static shapes as C sources and objects, for machines without an operating system.

The program after stage ``hal`` becomes ``emitc`` (``convert_to_emitc``), which is printed as C (``print_c``); kernels
and constants become objects; ``folder`` writes all of it.
"""

from rillet.export.build import Build, build
from rillet.export.folder import LAYOUTS, Exported, export
from rillet.export.module import CrossModule

__all__ = ["LAYOUTS", "Build", "CrossModule", "Exported", "build", "export"]
