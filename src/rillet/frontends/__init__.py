"""Frontends: each turns a model format into the tensor form (docs/architecture.md, section 2)."""
