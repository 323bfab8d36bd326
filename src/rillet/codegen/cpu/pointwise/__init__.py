"""Kernels without reductions: each element of a result is a function of its own position."""
