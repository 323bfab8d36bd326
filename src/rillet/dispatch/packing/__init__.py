"""How constants lie in memory: panels of weights, weights with block scales, transformed weights."""
