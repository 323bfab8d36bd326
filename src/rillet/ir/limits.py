"""Bounds that one stage of the compiler sets and another relies on."""

LONGEST_ROW = 1024 * 1024
"""Bytes of a row that passes between the stages of a chain, at most, where its extent is only known at run time."""
