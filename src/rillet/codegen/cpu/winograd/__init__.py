"""Convolutions by Winograd's algorithm (docs/decisions/0017-winograd.md)."""
