"""Rillet beside its peers on the same machine, in the same run: ``python -m benchmarks.run``."""
