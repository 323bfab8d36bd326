"""IR helpers shared by every stage: contexts, programs, constants, element types."""

from rillet.ir.context import make_context, thread_context, turn
from rillet.ir.program import Constants, Program

__all__ = ["Constants", "Program", "make_context", "thread_context", "turn"]
