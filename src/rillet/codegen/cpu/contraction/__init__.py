"""Contractions: register tiles over m and n, a loop over k, the epilogue in registers."""
