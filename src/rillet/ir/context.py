"""One place that makes MLIR contexts: upstream's dialects plus Rillet's four, without threads of their own."""

from __future__ import annotations

import threading

from torch_mlir import ir

from rillet.ir.mlir_lock import Turn

# A context keeps every type, attribute and location ever made in it, so it is replaced after this many uses.
_MOST_USES = 1000

# A thread that works with a context holds this (kernels are compiled in processes).
turn = Turn()


def make_context() -> ir.Context:
    """Return a context that has every dialect loaded and does not start threads of its own.

    Parallelism is over kernels, in worker processes, so MLIR's thread pool would only compete with it.
    """
    from rillet import dialects

    context = ir.Context()
    context.enable_multithreading(False)
    dialects.load(context)
    return context


class _Kept(threading.local):
    context: ir.Context | None = None
    uses: int = 0


def thread_context() -> ir.Context:
    """This thread's context. Making one costs as much as compiling a small kernel, and results do not depend on what
    was compiled in it before. It is replaced after ``_MOST_USES`` uses. It is not for text with resources: a context
    keeps their names and bytes."""
    if _kept.context is None or _kept.uses >= _MOST_USES:
        _kept.context, _kept.uses = make_context(), 0
    _kept.uses += 1
    return _kept.context


_kept = _Kept()
