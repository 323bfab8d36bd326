"""How a node is imported: a file for each step. ``importer.STEPS`` has their order.

A step returns the node's outputs, refuses the node (InvalidNode, UnsupportedFeature), or returns None, which leaves it
to the next one. A node that no step takes has an unknown op.
"""
