"""Errors of importing one node. The walk over the graph adds the node's name and turns them into public errors."""

from __future__ import annotations


class InvalidNode(Exception):
    """The node contradicts its op: shapes that do not fit, a missing attribute, an axis out of range."""


class UnsupportedFeature(Exception):
    """The node is valid but cannot be compiled: ``reason`` says why and ``advice`` what the user can do."""

    def __init__(self, reason: str, advice: str = ""):
        super().__init__(reason)
        self.reason = reason
        self.advice = advice
