"""Passes that compute quantized graphs in integers (docs/decisions/0014-quantized-graphs.md)."""
