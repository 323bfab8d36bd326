"""Passes that choose layouts and move data as little as possible."""
