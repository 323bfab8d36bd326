"""Math functions as arithmetic: what ``expand`` replaces, and with what."""

from rillet.codegen.math.expand import expand

__all__ = ["expand"]
