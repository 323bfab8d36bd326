"""Contractions one after the other in one kernel, a block of rows at a time (docs/decisions/0007-chains.md)."""
