"""What turns a kernel into ops that the processor has instructions for: ``legalize``."""

from rillet.codegen.cpu.legalize.passes import legalize

__all__ = ["legalize"]
