"""Targets: what the compiler knows about a CPU, as data (one TOML file each under ``data/``)."""

from rillet.targets.target import Target, get, host, names

__all__ = ["Target", "get", "host", "names"]
