"""Frontends: each turns a model format into the tensor form (docs/reference/tensor-form.md)."""
