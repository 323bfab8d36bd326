"""Op importers, one family per file. ``registry.py`` says how to write one."""
