"""Passes that compute now what is known now."""
