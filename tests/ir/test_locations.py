"""What a message calls an operation: by the nodes it comes from, or by its place in a file."""

from __future__ import annotations

import pytest
from torch_mlir import ir

from rillet.ir import locations, make_context

CASES = {  # location: names, place, label
    'loc("a")': (["a"], "", "node 'a'"),
    'loc("a"("model.mlir":3:7))': (["a"], "model.mlir:3:7", "node 'a'"),
    'loc("-":12:8)': ([], "line 12:8", "line 12:8"),
    "loc(unknown)": ([], "", "the model"),
    'loc(fused["a", "b", "a"])': (["a", "b"], "", "nodes 'a', 'b'"),
    'loc(fused["a", "b", "c", "d"])': (["a", "b", "c", "d"], "", "nodes 'a', 'b', 'c', ..."),
    'loc(fused[unknown, "f":1:2])': ([], "f:1:2", "f:1:2"),
    'loc(callsite("inner" at "outer"("f":4:5)))': (["inner", "outer"], "f:4:5", "nodes 'inner', 'outer'"),
    'loc("a\\07b")': (["a\x07b"], "", "node 'a?b'"),  # no bells in a terminal
}


@pytest.mark.parametrize("text", CASES)
def test_names_places_and_labels(text: str) -> None:
    with make_context():
        module = ir.Module.parse(f"module {{}} {text}")
        location = module.operation.location
        assert (locations.names(location), locations.place(location), locations.label(location)) == CASES[text]
