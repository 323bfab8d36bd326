"""A worker process that compiles kernels."""

from rillet.codegen.pool import outcome_of
from rillet.support import worker_process

if __name__ == "__main__":
    worker_process.serve(outcome_of)
