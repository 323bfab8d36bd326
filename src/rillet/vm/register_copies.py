"""Parallel moves as a sequence."""

from __future__ import annotations


def sequentialize(moves: dict[int, int], scratch: int) -> tuple[list[tuple[int, int]], bool]:
    """Order ``moves`` (destination → source) so that no source is overwritten before it is read.

    Cycles go through register ``scratch``. Returns the (destination, source) steps, and whether ``scratch`` is used.
    """
    pending = {d: s for d, s in moves.items() if d != s}
    steps: list[tuple[int, int]] = []
    used = False
    while pending:
        ready = next((d for d in pending if d not in pending.values()), None)
        if ready is not None:
            steps.append((ready, pending.pop(ready)))
            continue
        # Only cycles remain: free one register by saving it.
        blocked = next(iter(pending))
        steps.append((scratch, blocked))
        used = True
        pending = {d: scratch if s == blocked else s for d, s in pending.items()}
    return steps, used
