"""Kernels with reductions over rows: softmax, normalizations, means (docs/decisions/0008-row-wise-kernels.md)."""
