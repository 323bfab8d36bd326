"""Finds out what a kernel is. Nothing is built here."""
