"""IR helpers shared by every stage: contexts, programs, constants, element types."""

from rillet.ir.context import make_context, thread_context, turn
from rillet.ir.identity import hash_operations_by_identity
from rillet.ir.program import Constants, Program

__all__ = ["Constants", "Program", "make_context", "thread_context", "turn"]

hash_operations_by_identity()
