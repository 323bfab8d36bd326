"""The options of sessions and runs. Those that mean nothing here are kept as given and have no effect."""

from __future__ import annotations

import logging
from enum import IntEnum
from typing import Any

LOG = logging.getLogger("rillet.onnxruntime")
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)


class GraphOptimizationLevel(IntEnum):
    """How much the graph is optimized. Rillet always compiles with all it has."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Whether independent nodes run at once. The compiled program decides."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """In which order nodes run. The compiled program decides."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class SessionOptions:
    """Options of a session.

    These have an effect: ``intra_op_num_threads`` (0: one thread a core), ``add_free_dimension_override_by_name`` (pins
    a dynamic dimension).
    """

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.execution_order = ExecutionOrder.DEFAULT
        self.enable_cpu_mem_arena = True
        self.enable_mem_pattern = True
        self.enable_mem_reuse = True
        self.enable_profiling = False
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.optimized_model_filepath = ""
        self.profile_file_prefix = "onnxruntime_profile_"
        self.use_deterministic_compute = False
        self.use_per_session_threads = True
        self.free_dimensions: dict[str, int] = {}
        self._entries: dict[str, str] = {}

    def add_free_dimension_override_by_name(self, dim_name: str, dim_value: int) -> None:
        """Give a dynamic dimension of this name a size; a name that the model lacks is ignored."""
        self.free_dimensions[dim_name] = dim_value

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry. None has an effect."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """The entry's value. Raises RuntimeError when there is none."""
        if key not in self._entries:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}")
        return self._entries[key]

    def register_custom_ops_library(self, path: str) -> None:
        """Raises NotImplementedError: a library of ONNX Runtime's kernels cannot be called by compiled code."""
        raise NotImplementedError(
            f"Rillet cannot use ONNX Runtime's custom operators ({path}); see docs/how-to/add-an-op.md"
        )


class RunOptions:
    """Options of a run. None has an effect."""

    def __init__(self) -> None:
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self.terminate = False
        self.training_mode = False
        self._entries: dict[str, str] = {}

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry. None has an effect."""
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """The entry's value. Raises RuntimeError when there is none."""
        if key not in self._entries:
            raise RuntimeError(f"RunOptions does not have configuration with key: {key}")
        return self._entries[key]


def set_default_logger_severity(severity: int) -> None:
    """Set the level of the log ``rillet.onnxruntime``: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal."""
    LOG.setLevel(_LEVELS[severity])


def set_default_logger_verbosity(verbosity: int) -> None:
    """Does nothing: there is one level of verbose messages."""


def checked(options: Any) -> SessionOptions:
    """``options``, or the defaults for None. Raises TypeError for another object, a real SessionOptions say."""
    if options is None:
        return SessionOptions()
    if not isinstance(options, SessionOptions):
        raise TypeError(f"sess_options must be a rillet.onnxruntime.SessionOptions, not {type(options)!r}")
    return options
