"""Strings during import: how a tensor of strings is held, and device loops over bytes (docs/decisions/0006)."""
