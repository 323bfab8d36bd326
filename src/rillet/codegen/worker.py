"""A compile worker: reads jobs from standard input, writes results to standard output, one pickle after another.

A separate interpreter, not a fork: MLIR and LLVM state cannot be shared across a fork, and ``multiprocessing``'s spawn
would import the caller's ``__main__`` again. Both ends are this package, so pickle crosses no trust boundary.
"""

from __future__ import annotations

import os
import pickle
import sys

from rillet.codegen.pool import outcome_of


def main() -> None:
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print must not corrupt the replies
    while True:
        try:
            text, target, options = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(outcome_of(text, target, options), replies)
        replies.flush()


if __name__ == "__main__":
    main()
