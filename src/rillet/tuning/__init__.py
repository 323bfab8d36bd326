"""Tuning: choices about kernels that were measured to beat the cost model's, their record, and the search for them.

``compile`` reads records (``record``); ``rillet tune`` writes them (``search``, over the variants of ``space``, with
the clock of ``measure``). See docs/tuning.md.
"""

from rillet.tuning.record import Entry, Record, default_path

__all__ = ["Entry", "Record", "default_path"]
