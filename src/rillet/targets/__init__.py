"""Targets: what the compiler generates code for, as data (one TOML file each under ``data/``)."""

from rillet.targets.catalog import get, host, names
from rillet.targets.dispatch_options import DispatchOptions
from rillet.targets.target import Deployment, Machine, Packing, Target

__all__ = ["Deployment", "DispatchOptions", "Machine", "Packing", "Target", "get", "host", "names"]
