"""What a model with dynamic shapes takes for granted is checked when it runs, and the message names the node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import rillet

FLOAT, INT, INT8, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT8, TensorProto.BOOL


def compiled(
    nodes: Sequence[tuple[str, str, str, dict[str, object]]],
    inputs: dict[str, tuple[int, list[int | str]]],
    result: list[int | str],
    **constants: object,
) -> rillet.runtime.Module:
    """A model of ``nodes``: (op, inputs, outputs, attributes), named as their first output; the last is the result."""
    made = [helper.make_node(op, i.split(), o.split(), name=o.split()[0], **more) for op, i, o, more in nodes]
    values = [helper.make_tensor_value_info(n, t, dims) for n, (t, dims) in inputs.items()]
    output = helper.make_tensor_value_info(nodes[-1][2].split()[-1], FLOAT, result)
    arrays = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(made, "g", values, [output], arrays)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return rillet.compile(model, threads=1, jobs=1)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


CASES: dict[str, tuple[dict[str, Any], list[Any], list[tuple[Any, str]]]] = {
    "elementwise": (
        dict(nodes=[("Add", "a b", "add_3", {})], inputs={"a": (FLOAT, ["n"]), "b": (FLOAT, ["m"])}, result=["k"]),
        [(zeros(5), zeros(5)), (zeros(1), zeros(7)), (zeros(0), zeros(1))],
        [((zeros(5), zeros(7)), "node 'add_3': dimensions 5 and 7 do not broadcast")],
    ),
    "elementwise with a known extent": (
        dict(nodes=[("Add", "a t", "add_3", {})], inputs={"a": (FLOAT, ["n"])}, result=["k"], t=zeros(4)),
        [(zeros(4),), (zeros(1),)],
        [((zeros(5),), "node 'add_3': dimensions 5 and 4 do not broadcast")],
    ),
    "elementwise where neither can be 1": (
        dict(
            nodes=[("Concat", "a two", "c", {"axis": 0}), ("Add", "c t", "add_3", {})],
            inputs={"a": (FLOAT, ["n"])},
            result=["k"],
            t=zeros(4),
            two=zeros(2),
        ),
        [(zeros(2),)],
        [((zeros(3),), "node 'add_3': dimensions 5 and 4 do not broadcast")],
    ),
    "choice": (
        dict(
            nodes=[("Where", "c a b", "where", {})],
            inputs={"c": (BOOL, ["n"]), "a": (FLOAT, ["m"]), "b": (FLOAT, ["l"])},
            result=["k"],
        ),
        [(np.ones(3, bool), zeros(1), zeros(3))],
        [((np.ones(3, bool), zeros(3), zeros(2)), "node 'where': dimensions 3 and 2 do not broadcast")],
    ),
    "matmul": (
        dict(
            nodes=[("MatMul", "a b", "mm", {})],
            inputs={"a": (FLOAT, ["n", "k"]), "b": (FLOAT, ["l", "m"])},
            result=["n", "m"],
        ),
        [(zeros(5, 3), zeros(3, 2)), (zeros(0, 3), zeros(3, 2))],
        [((zeros(5, 4), zeros(3, 2)), "node 'mm': dimensions 4 and 3 do not agree")],
    ),
    "channels of a convolution": (
        dict(
            nodes=[("Conv", "a w", "conv", {})],
            inputs={"a": (FLOAT, ["n", "c", "h", "w0"])},
            result=["n", 8, "p", "q"],
            w=zeros(8, 4, 3, 3),
        ),
        [(zeros(1, 4, 5, 5),), (zeros(0, 4, 3, 3),)],
        [
            ((zeros(1, 3, 5, 5),), "node 'conv': dimensions 4 and 3 do not agree"),
            ((zeros(1, 4, 1, 1),), "node 'conv': the window of 3 is larger than the padded input of 1 in dimension 0"),
        ],
    ),
    "reshape with a free dimension": (
        dict(nodes=[("Reshape", "a s", "rs", {})], inputs={"a": (FLOAT, ["n", "k"])}, result=[3, "q"], s=ints(3, -1)),
        [(zeros(5, 3),), (zeros(0, 3),)],
        [((zeros(5, 4),), "node 'rs': 20 elements cannot become 18")],
    ),
    "reshape by an input": (
        dict(nodes=[("Reshape", "a s", "rs", {})], inputs={"a": (FLOAT, ["n"]), "s": (INT, [2])}, result=["p", "q"]),
        [(zeros(6), ints(2, 3)), (zeros(6), ints(3, -1))],
        [
            ((zeros(6), ints(2, 4)), "node 'rs': 6 elements cannot become 8"),
            ((zeros(0), ints(1 << 32, 1 << 32)), "node 'rs': a tensor of 4294967296 x 4294967296 is too large"),
            ((zeros(6), ints(-2, -3)), "node 'rs': a dimension of -2"),
        ],
    ),
    "concatenation": (
        dict(
            nodes=[("Concat", "a b", "cat", {"axis": 0})],
            inputs={"a": (FLOAT, ["n", "k"]), "b": (FLOAT, ["l", "m"])},
            result=["p", "q"],
        ),
        [(zeros(5, 3), zeros(2, 3)), (zeros(0, 3), zeros(2, 3))],
        [((zeros(5, 4), zeros(3, 2)), "node 'cat': dimensions 4 and 2 do not agree")],
    ),
    "positions of a table": (
        dict(
            nodes=[
                ("Shape", "a", "length", {"start": 1, "end": 2}),
                ("Slice", "t zero length", "positions", {}),
                ("Add", "a positions", "sum", {}),
            ],
            inputs={"a": (FLOAT, ["batch", "sequence", 4])},
            result=["batch", "sequence", 4],
            t=zeros(8, 4),
            zero=ints(0),
        ),
        [(zeros(2, 5, 4),), (zeros(2, 8, 4),)],
        [((zeros(2, 9, 4),), "node 'sum': dimensions 9 and 8 do not agree")],
    ),
    "expansion": (
        dict(nodes=[("Expand", "a s", "ex", {})], inputs={"a": (FLOAT, ["n"]), "s": (INT, [2])}, result=["p", "q"]),
        [(zeros(3), ints(2, 3)), (zeros(1), ints(2, 3)), (zeros(3), ints(2, 1))],
        [
            ((zeros(3), ints(2, 4)), "node 'ex': dimensions 3 and 4 do not broadcast"),
            ((zeros(1), ints(1 << 40, 1 << 40)), "node 'ex': a tensor of 1099511627776 x 1099511627776 is too large"),
            ((zeros(1), ints(-2, 3)), "node 'ex': a dimension of -2"),
        ],
    ),
    "memory": (
        dict(nodes=[("ConstantOfShape", "s", "fill", {})], inputs={"s": (INT, [2])}, result=["p", "q"]),
        [(ints(2, 3),), (ints(0, 1 << 40),)],
        [
            ((ints(1 << 33, 1 << 33),), "node 'fill': a tensor of 8589934592 x 8589934592 is too large"),
            ((ints(-1, 3),), "node 'fill': a dimension of -1"),
        ],
    ),
    "slice by inputs": (
        dict(
            nodes=[("Slice", "a s e", "cut", {})],
            inputs={"a": (FLOAT, ["n"]), "s": (INT, [1]), "e": (INT, [1])},
            result=["m"],
        ),
        [(zeros(5), ints(1), ints(4)), (zeros(5), ints(-100), ints(100)), (zeros(5), ints(4), ints(1))],
        [],
    ),
    "padding by an input": (
        dict(nodes=[("Pad", "a p", "pad", {})], inputs={"a": (FLOAT, ["n"]), "p": (INT, [2])}, result=["m"]),
        [(zeros(5), ints(1, 2)), (zeros(5), ints(-1, 2)), (zeros(5), ints(-2, -3))],
        [
            ((zeros(5), ints(-4, -4)), "node 'pad': a slice cannot have -3 positions"),
            ((zeros(5), ints(1 << 60, 1 << 60)), "node 'pad': a tensor of"),
        ],
    ),
    "split into equal parts": (
        dict(nodes=[("Split", "a", "s t", {}), ("Add", "s t", "sum", {})], inputs={"a": (FLOAT, ["n"])}, result=["m"]),
        [(zeros(4),), (zeros(0),)],
        [((zeros(5),), "node 's': the parts have 4 positions together, but axis 0 has 5")],
    ),
    "split by an input": (
        dict(
            nodes=[("Split", "a p", "s t", {}), ("Concat", "t s", "both", {"axis": 0})],
            inputs={"a": (FLOAT, ["n"]), "p": (INT, ["k"])},
            result=["m"],
        ),
        [(zeros(5), ints(2, 3)), (zeros(5), ints(0, 5)), (zeros(0), ints(0, 0))],
        [
            ((zeros(5), ints(2, 2)), "node 's': the parts have 4 positions together, but axis 0 has 5"),
            ((zeros(5), ints(6, -1)), "node 's': "),
            ((zeros(5), ints(2, 3, 0)), "node 's': dimensions 3 and 2 do not agree"),
        ],
    ),
    "scale of one element or one a channel": (
        dict(
            nodes=[("DequantizeLinear", "a s", "y", {})],
            inputs={"a": (INT8, ["n", "c"]), "s": (FLOAT, ["k"])},
            result=["n", "c"],
        ),
        [(np.zeros((2, 3), np.int8), zeros(3)), (np.zeros((2, 3), np.int8), zeros(1))],
        [((np.zeros((2, 3), np.int8), zeros(2)), "node 'y': dimensions 2 and 3 do not broadcast")],
    ),
    "gather": (
        dict(nodes=[("Gather", "a i", "g", {})], inputs={"a": (FLOAT, ["n"]), "i": (INT, ["m"])}, result=["m"]),
        [(zeros(3), ints(0, 2, -1))],
        [
            ((zeros(3), ints(3)), "node 'g': an index in the data is out of bounds"),
            ((zeros(3), ints(-4)), "node 'g': an index in the data is out of bounds"),
            ((zeros(0), ints(0)), "node 'g': an index in the data is out of bounds"),
        ],
    ),
    "gather of elements": (
        dict(
            nodes=[("GatherElements", "a i", "g", {})],
            inputs={"a": (FLOAT, ["n", "k"]), "i": (INT, ["m", "l"])},
            result=["m", "l"],
        ),
        [(zeros(3, 2), ints(0, 2).reshape(1, 2))],
        [
            ((zeros(3, 2), ints(0, 3).reshape(1, 2)), "out of bounds"),
            ((zeros(3, 2), np.zeros((1, 3), np.int64)), "out of bounds|do not agree|positions"),
        ],
    ),
    "gather of slices": (
        dict(
            nodes=[("GatherND", "a i", "g", {})],
            inputs={"a": (FLOAT, ["n", "k"]), "i": (INT, ["m", 1])},
            result=["m", "k"],
        ),
        [(zeros(3, 2), ints(0, 2).reshape(2, 1))],
        [((zeros(3, 2), ints(3).reshape(1, 1)), "out of bounds")],
    ),
    "scatter of elements": (
        dict(
            nodes=[("ScatterElements", "a i u", "s", {})],
            inputs={"a": (FLOAT, ["n"]), "i": (INT, ["m"]), "u": (FLOAT, ["l"])},
            result=["n"],
        ),
        [(zeros(3), ints(0, 2), zeros(2))],
        [
            ((zeros(3), ints(0, 3), zeros(2)), "out of bounds"),
            ((zeros(3), ints(0, 2), zeros(1)), "'updates' is 1, not 2"),
        ],
    ),
    "scatter of slices": (
        dict(
            nodes=[("ScatterND", "a i u", "s", {})],
            inputs={"a": (FLOAT, ["n", "k"]), "i": (INT, ["m", 1]), "u": (FLOAT, ["l", "j"])},
            result=["n", "k"],
        ),
        [(zeros(3, 2), ints(0, 2).reshape(2, 1), zeros(2, 2))],
        [
            ((zeros(3, 2), ints(3).reshape(1, 1), zeros(1, 2)), "out of bounds"),
            ((zeros(3, 2), ints(0, 2).reshape(2, 1), zeros(1, 2)), "'updates' is 1, not 2"),
            ((zeros(3, 2), ints(0, 2).reshape(2, 1), zeros(2, 1)), "'updates' is 1, not 2"),
        ],
    ),
    "tiles": (
        dict(nodes=[("Tile", "a r", "tile", {})], inputs={"a": (FLOAT, ["n"]), "r": (INT, [1])}, result=["m"]),
        [(zeros(3), ints(2)), (zeros(3), ints(0))],
        [((zeros(3), ints(-1)), "node 'tile': a dimension of -"), ((zeros(3), ints(1 << 61)), "node 'tile': a")],
    ),
    **{
        f"lengths of sequences of {op}": (
            dict(
                nodes=[(op, "x w r b l", "rnn", {"hidden_size": 2})],
                inputs={"x": (FLOAT, ["t", 2, 3]), "l": (TensorProto.INT32, [2])},
                result=["t", 1, 2, 2],
                w=zeros(1, gates * 2, 3),
                r=zeros(1, gates * 2, 2),
                b=zeros(1, gates * 4),
            ),
            [(zeros(4, 2, 3), ints(4, 2).astype(np.int32)), (zeros(4, 2, 3), ints(0, 1).astype(np.int32))],
            [
                ((zeros(4, 2, 3), ints(*lengths).astype(np.int32)), "node 'rnn': sequence_lens must be from 0 to")
                for lengths in ((1, 5), (-1, 4))
            ],
        )
        for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
    },
    "samples": (
        dict(
            nodes=[("GridSample", "a g", "sample", {})],
            inputs={"a": (FLOAT, ["n", 1, "h", "w"]), "g": (FLOAT, ["n", "i", "j", 2])},
            result=["n", 1, "i", "j"],
        ),
        [(zeros(1, 1, 2, 3), zeros(1, 2, 2, 2)), (zeros(1, 1, 0, 3), zeros(1, 0, 2, 2))],
        [((zeros(1, 1, 2, 0), zeros(1, 2, 2, 2)), "node 'sample': an input of 0 positions has nothing to sample")],
    ),
    "largest elements": (
        dict(
            nodes=[("TopK", "a k", "top places", {}), ("Identity", "top", "best", {})],
            inputs={"a": (FLOAT, ["n"]), "k": (INT, [1])},
            result=["m"],
        ),
        [(zeros(3), ints(2))],
        [((zeros(3), ints(4)), "node 'top'"), ((zeros(3), ints(-1)), "node 'top'")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_assertions(name: str) -> None:
    described, good, bad = CASES[name]
    model = compiled(**described)
    for arguments in good:
        model(*arguments)
    for arguments, message in bad:
        with pytest.raises(rillet.RunError, match=message):
            model(*arguments)
    for arguments in good:  # an error leaves nothing behind
        model(*arguments)


def test_a_node_name_cannot_disturb_the_message() -> None:
    node = helper.make_node("Add", ["a", "b"], ["y"], name="{} {0} %s")
    values = [helper.make_tensor_value_info(n, FLOAT, [n]) for n in "ab"]
    graph = helper.make_graph([node], "g", values, [helper.make_tensor_value_info("y", FLOAT, ["c"])])
    model = rillet.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), threads=1, jobs=1)
    with pytest.raises(rillet.RunError, match=re.escape("node '{} {0} %s': dimensions 2 and 3 do not broadcast")):
        model(zeros(2), zeros(3))
