"""Builds kernels on scf, arith, vector and memref. Nothing here knows a particular processor."""
