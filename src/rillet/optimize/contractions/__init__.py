"""Passes that change what is contracted: slices, windows, phases."""
