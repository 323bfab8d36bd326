"""Reductions whose elements are found by a loop: walks through trees."""
