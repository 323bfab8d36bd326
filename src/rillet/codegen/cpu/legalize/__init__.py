"""``legalize`` turns a kernel into ops that the processor has instructions for."""

from rillet.codegen.cpu.legalize.passes import legalize

__all__ = ["legalize"]
