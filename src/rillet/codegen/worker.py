"""A worker process that compiles executables."""

from rillet import workers
from rillet.codegen.pool import outcome_of

if __name__ == "__main__":
    workers.serve(outcome_of)
