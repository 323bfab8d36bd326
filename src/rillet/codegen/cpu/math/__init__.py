"""Math functions as arithmetic: what ``expand`` replaces, and with what."""

from rillet.codegen.cpu.math.expand import expand

__all__ = ["expand"]
