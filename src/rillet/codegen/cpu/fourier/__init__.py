"""Fast Fourier transforms (docs/decisions/0024-fourier-transforms.md)."""
