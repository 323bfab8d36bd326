"""Importers of operators that take or give strings (docs/decisions/0006-strings.md)."""
