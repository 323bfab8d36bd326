"""Windows that leave the vectorized axis alone: depthwise convolutions, pooling (docs/decisions/0011-windows.md)."""
