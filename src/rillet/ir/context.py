"""One place that makes MLIR contexts: upstream's dialects plus Rillet's four, without threads of their own."""

from __future__ import annotations

from torch_mlir import ir


def make_context() -> ir.Context:
    """Return a context that has every dialect loaded and does not start threads of its own.

    Parallelism is over executables, in worker processes, so MLIR's thread pool would only compete with it.
    """
    from rillet import dialects

    context = ir.Context()
    context.enable_multithreading(False)
    dialects.load(context)
    return context
