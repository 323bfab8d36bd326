"""Tensors of strings, from numpy arrays in to numpy arrays out."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import rillet
from rillet import onnx_backend
from rillet.cli import main
from tests.support.string_models import INT, STRING, compiled, model, single, texts

WORDS = ["", "a", "Straße", "日本", "AB ab", "\U00010400x", "é\u2003b", "b"]


# --- the edge ---


def test_specs_say_string_and_the_shape() -> None:
    module = single("StringConcat", {"a": (STRING, ["n", 2]), "b": (STRING, [2])})
    assert [(s.name, s.type_name, s.shape) for s in module.inputs] == [
        ("a", "string", ("n", 2)),
        ("b", "string", (2,)),
    ]
    assert "y0: string[n, 2]" in repr(module)
    result = module(np.array([["x", "é"], ["", "日"]]), ["1", ""])  # numpy's text type and a list
    assert result.dtype == object
    assert result.tolist() == [["x1", "é"], ["1", "日"]]
    assert module.run({"a": texts(["p", "q"]), "b": texts("r", "s")})["y0"].tolist() == [["pr", "qs"]]
    assert module(np.zeros((0, 2), object), ["", ""]).shape == (0, 2)


def test_a_saved_module_takes_strings(tmp_path: Any) -> None:
    single("Identity", {"x": (STRING, ["n"])}).save(tmp_path / "m.rlm")
    assert list(rillet.load(tmp_path / "m.rlm")(WORDS)) == WORDS


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.5], "input 'x': expected strings, got float64"),
        (texts("a", 2), "input 'x': element 1 is of type int, not a string"),
        (texts("\ud800"), "input 'x': element 0 cannot be encoded in UTF-8"),
        (texts(["a"]), "input 'x"),
    ],
)
def test_what_is_no_tensor_of_strings(value: Any, message: str) -> None:
    with pytest.raises(rillet.RunError, match=message.replace("[", r"\[")):
        single("Identity", {"x": (STRING, ["n"])})(value)


@pytest.mark.parametrize("ends", [[2, 1], [1, 4], [-1, 3]])
def test_ends_that_do_not_fit_the_bytes(ends: list[int]) -> None:
    module = single("Identity", {"x": (STRING, ["n"])})
    with pytest.raises(rillet.RunError, match="input 'x': the ends of its strings must ascend and stay within"):
        module._invoke(0, (np.array(ends), np.frombuffer(b"abc", np.uint8)))


def test_the_shape_must_agree() -> None:
    module = single("StringConcat", {"a": (STRING, ["n"]), "b": (STRING, ["n"])})
    with pytest.raises(rillet.RunError, match=r"input 'b': dimension 0 .'n'. is 3, but dimension 0 of input 'a'"):
        module(["p", "q"], ["r", "s", "t"])


def test_sequences_of_strings_in_and_out() -> None:
    graph = helper.make_graph(
        [helper.make_node("SequenceInsert", ["s", "x"], ["t"])],
        "test",
        [
            helper.make_tensor_sequence_value_info("s", STRING, None),
            helper.make_tensor_value_info("x", STRING, [2]),
        ],
        [helper.make_tensor_sequence_value_info("t", STRING, None)],
    )
    prepared = onnx_backend.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    (result,) = prepared.run([[texts("a"), texts("b", "c")], texts("d", "é")])
    assert [r.tolist() for r in result] == [["a"], ["b", "c"], ["d", "é"]]


# --- ops that move strings ---

X = texts(["a", "bé", "c"], ["", "dd", "日本"])
Y = texts(["q", "a", "s"])
N3, ONE3 = (STRING, ["n", 3]), (STRING, [1, 3])


@pytest.mark.parametrize(
    ("op_type", "inputs", "arrays", "attributes", "expected"),
    [
        ("Concat", {"x": N3, "y": ONE3}, [X, Y], {"axis": 0}, np.concatenate([X, Y])),
        (
            "Where",
            {"c": (TensorProto.BOOL, ["n", 3]), "x": N3, "y": ONE3},
            [X == "dd", X, Y],
            {},
            np.where(X == "dd", X, Y),
        ),
        ("Gather", {"x": N3, "i": (INT, ["k"])}, [X, np.array([2, 0, -1])], {"axis": 1}, X[:, [2, 0, -1]]),
        ("Transpose", {"x": N3}, [X], {}, X.T),
        ("Pad", {"x": N3, "p": (INT, [4])}, [X, np.array([0, 1, 0, 0])], {}, np.pad(X, ((0, 0), (1, 0)))),
        ("ScatterND", {"x": N3, "i": (INT, [1, 1]), "y": ONE3}, [X, np.array([[1]]), Y], {}, texts(X[0], Y[0])),
        ("OneHot", {"i": (INT, ["k"]), "d": (INT, []), "v": (STRING, [2])}, [[0], 2, ["n", "y"]], {}, [["y", "n"]]),
        ("Shape", {"x": N3}, [X], {}, [2, 3]),
    ],
)
def test_moves(op_type: str, inputs: Any, arrays: Any, attributes: Any, expected: Any) -> None:
    expected = np.asarray(expected, dtype=object)
    expected[expected == 0] = ""  # what np.pad fills in
    assert single(op_type, inputs, **attributes)(*arrays).tolist() == expected.tolist()


def test_structures_and_constants() -> None:
    nodes = [
        helper.make_node("Constant", [], ["c"], value_strings=["p", "q", "r"]),
        helper.make_node("SequenceEmpty", [], ["e"], dtype=STRING),
        helper.make_node("SequenceInsert", ["e", "x"], ["s"]),
        helper.make_node("SequenceInsert", ["s", "k"], ["t"]),
        helper.make_node("ConcatFromSequence", ["t"], ["u"], axis=0),
        helper.make_node("StringConcat", ["u", "c"], ["y"]),
    ]
    module = compiled(nodes, {"x": N3}, ["y"], {"k": Y})
    assert module(X).tolist() == (np.concatenate([X, Y]) + texts("p", "q", "r")).tolist()


def test_branches_that_give_strings() -> None:
    then = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["t"])], "then", [], [helper.make_empty_tensor_value_info("t")]
    )
    constant = helper.make_node("Constant", [], ["e"], value_strings=["no", "nein"])
    other = helper.make_graph([constant], "else", [], [helper.make_empty_tensor_value_info("e")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    module = compiled([node], {"c": (TensorProto.BOOL, []), "x": (STRING, ["n"])}, ["y"])
    assert module(True, WORDS).tolist() == WORDS
    assert module(False, WORDS).tolist() == ["no", "nein"]


def appending(*collected: str) -> onnx.GraphProto:
    """A loop's body that appends ``x`` to its state, which is also collected by ops of these types."""
    outputs = ["going_out", "state_out", *(f"c{i}" for i in range(len(collected)))]
    return helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["going_out"]),
            helper.make_node("StringConcat", ["state", "x"], ["state_out"]),
            *(helper.make_node(op_type, ["state_out"], [f"c{i}"]) for i, op_type in enumerate(collected)),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", STRING, ["n"]),
        ],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
    )


def test_a_loop_that_carries_strings() -> None:
    node = helper.make_node("Loop", ["count", "", "x"], ["y", "sizes"], body=appending("Size"))
    module = compiled([node], {"count": (INT, []), "x": (STRING, ["n"])}, ["y", "sizes"])
    for count in (0, 1, 3):
        y, sizes = module(np.array(count), ["a", "", "日"])
        assert y.tolist() == ["a" * (count + 1), "", "日" * (count + 1)]
        assert sizes.tolist() == [3] * count


def test_loops_that_cannot_hold_strings() -> None:
    collects = helper.make_node("Loop", ["count", "", "x"], ["y", "all"], "first", body=appending("Identity"))
    body = helper.make_graph(
        [helper.make_node("Identity", ["e"], ["f"])],
        "body",
        [helper.make_tensor_value_info("e", STRING, [])],
        [helper.make_empty_tensor_value_info("f")],
    )
    scans = helper.make_node("Scan", ["x"], ["z"], "second", body=body, num_scan_inputs=1)
    with pytest.raises(rillet.UnsupportedError) as caught:
        compiled([collects, scans], {"count": (INT, []), "x": (STRING, ["n"])}, ["y", "z"])
    assert [(n.name, n.reason) for n in caught.value.nodes] == [
        ("first", "it collects strings or a carried value becomes one"),
        ("second", "it scans or carries strings"),
    ]


# --- ops that look into strings ---


def test_equal_broadcasts() -> None:
    module = single("Equal", {"a": (STRING, ["n", 1]), "b": (STRING, ["m"])})
    a, b = texts(*[[w] for w in WORDS]), texts("日本", "", "A", "日木")
    np.testing.assert_array_equal(module(a, b), a == b)


@pytest.mark.parametrize("limit", [None, 0, 1])
@pytest.mark.parametrize("delimiter", [None, "--"])
def test_split(delimiter: str | None, limit: int | None) -> None:
    attributes: dict[str, Any] = {} if delimiter is None else {"delimiter": delimiter}
    if limit is not None:
        attributes["maxsplit"] = limit
    module = single("StringSplit", {"x": (STRING, ["n"])}, 2, **attributes)
    for values in (["a--b---c-", "--", "", "-", "日--本----"], [" a\u3000b  c ", "\t", "", "\u00a0日 本"], []):
        pieces, counts = module(np.array(values, dtype=object))
        expected = [v.split(delimiter, -1 if limit is None else limit) for v in values]
        width = max(map(len, expected), default=0)
        assert counts.tolist() == [len(e) for e in expected]
        assert pieces.shape == (len(values), width)
        assert pieces.tolist() == [e + [""] * (width - len(e)) for e in expected]


@pytest.mark.parametrize("action", ["UPPER", "LOWER"])
def test_normalizer(action: str) -> None:
    module = single(
        "StringNormalizer", {"x": (STRING, ["n"])}, case_change_action=action, stopwords=["B", "é\u2003b", "none"]
    )
    change = str.upper if action == "UPPER" else str.lower
    assert module(WORDS).tolist() == [change(w) for w in WORDS if w not in ("b", "é\u2003b")]
    assert module(texts("b", "B")).tolist() == [""]
    assert module(np.zeros(0, object)).tolist() == [""]


def test_normalizer_of_one_row() -> None:
    module = single("StringNormalizer", {"x": (STRING, [1, "n"])}, is_case_sensitive=1, stopwords=["B"])
    assert module([["b", "B", "c"]]).tolist() == [["b", "c"]]


def test_labels() -> None:
    encode = single(
        "LabelEncoder", {"x": (STRING, ["n"])}, keys_strings=["b", "", "日本", "b"], values_int64s=[5, 6, 7, 8]
    )
    assert encode(WORDS).tolist() == [6, -1, -1, 7, -1, -1, -1, 8]
    rename = single("LabelEncoder", {"x": (STRING, ["n"])}, keys_strings=["b", "a"], values_strings=["é", ""])
    assert rename(texts("a", "c", "b")).tolist() == ["", "_Unused", "é"]
    name = single(
        "LabelEncoder", {"x": (INT, ["n"])}, keys_int64s=[3, 4], values_strings=["c", "d"], default_string="?"
    )
    assert name(np.array([4, 5, 3])).tolist() == ["d", "?", "c"]
    category = single("CategoryMapper", {"x": (STRING, ["n"])}, cats_int64s=[1, 2], cats_strings=["a", "b"])
    assert category(WORDS).tolist() == [-1, 1, -1, -1, -1, -1, -1, 2]


def test_labels_of_the_first_version() -> None:
    module = single("LabelEncoder", {"x": (STRING, ["n"])}, ml_opset=1, classes_strings=["", "b"])
    assert module(texts("b", "c", "")).tolist() == [1, -1, 0]


def test_one_hot() -> None:
    module = single("OneHotEncoder", {"x": (STRING, ["n"])}, cats_strings=["b", "", "日本"])
    assert module(texts("", "日本", "?")).tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    numbers = single("OneHotEncoder", {"x": (INT, ["n"])}, cats_int64s=[4, 2], zeros=0)
    assert numbers(np.array([2, 4])).tolist() == [[0, 1], [1, 0]]
    with pytest.raises(rillet.RunError, match="node 'node': an element is of no category"):
        numbers(np.array([2, 3]))
    with pytest.raises(rillet.CompileError, match="OneHotEncoder 'node': the categories must be strings"):
        single("OneHotEncoder", {"x": (STRING, ["n"])}, cats_int64s=[1])


def test_n_grams() -> None:
    module = single(
        "TfIdfVectorizer",
        {"x": (STRING, ["n"])},
        mode="TF",
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=0,
        ngram_counts=[0, 2],
        ngram_indexes=[0, 1, 2],
        pool_strings=["a", "日", "a", "日"],
    )
    assert module(texts("a", "日", "x", "a", "日", "日")).tolist() == [2, 3, 2]


def test_unique() -> None:
    module = single("Unique", {"x": (STRING, ["n"])}, 4)
    x = texts("b", "", "ab", "b", "日", "a", "")
    for got, want in zip(module(x), np.unique(x, True, True, True), strict=True):
        assert got.tolist() == want.tolist()


def test_regex() -> None:
    module = single("RegexFullMatch", {"x": (STRING, ["n"])}, pattern=r"(?i)\w+( [ab])?|日.")
    assert module(texts("Ab B", "x", "", "日本", "日", "a b c")).tolist() == [True, True, False, True, False, False]


# --- diagnostics ---


def test_ops_that_cannot_work_on_strings_are_all_named() -> None:
    nodes = [
        helper.make_node("Resize", ["x", "", "s"], ["y"], "first"),
        helper.make_node("RegexFullMatch", ["x"], ["z"], "second", pattern="(?=a)"),
    ]
    with pytest.raises(rillet.UnsupportedError) as caught:
        compiled(nodes, {"x": N3}, ["y", "z"], {"s": np.ones(2, np.float32)})
    assert [n.name for n in caught.value.nodes] == ["first", "second"]
    assert "it is not supported on tensors of strings" in str(caught.value)
    assert "a lookahead '(?='" in str(caught.value)


def test_sums_of_strings() -> None:
    with pytest.raises(rillet.UnsupportedError, match="reduction 'add' is not supported on tensors of strings"):
        single("ScatterND", {"x": N3, "i": (INT, [1, 1]), "y": ONE3}, reduction="add")


def test_a_sequence_of_strings_and_numbers() -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x"], ["first"]),
        helper.make_node("SequenceInsert", ["first", "i"], ["s"]),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], "node", axis=0),
    ]
    with pytest.raises(rillet.CompileError, match="ConcatFromSequence 'node': the sequence holds strings and numbers"):
        compiled(nodes, {"x": N3, "i": (INT, [1, 3])}, ["y"])


def test_types_are_checked() -> None:
    with pytest.raises(rillet.CompileError, match="Add 'node': input 'A' is string, which the op does not take"):
        single("Add", {"x": N3, "y": N3})


def test_the_normalizer_takes_one_row() -> None:
    with pytest.raises(rillet.CompileError, match="StringNormalizer 'node': the input must be of shape"):
        single("StringNormalizer", {"x": (STRING, [2, 3])})


# --- around the compiler ---


def tokens() -> onnx.ModelProto:
    nodes = [
        helper.make_node("StringSplit", ["x"], ["pieces", "counts"]),
        helper.make_node("Equal", ["pieces", "k"], ["hits"]),
    ]
    return model(nodes, {"x": (STRING, ["n"])}, ["pieces", "hits"], {"k": texts("the")})


def test_the_coverage_report() -> None:
    report = rillet.check(tokens())
    assert report.supported
    assert {op.op: op.dtypes for op in report.ops} == {"StringSplit": ("int64", "string"), "Equal": ("bool", "string")}
    assert report.inputs == {"x": ["n"]}
    assert report.weight_bytes == 3
    image, grid = (STRING, [1, 1, 3, 3]), (TensorProto.FLOAT, [1, 3, 3, 2])
    refused = model([helper.make_node("GridSample", ["x", "g"], ["y"], "node")], {"x": image, "g": grid}, ["y"])
    report = rillet.check(refused)
    assert [(n.name, n.reason) for n in report.unsupported] == [("node", "it is not supported on tensors of strings")]


def test_the_command_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(tokens(), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.array(["see the cat", "the"]))
    assert main(["run", str(tmp_path / "m.onnx"), "--input", f"x={tmp_path / 'x.npy'}", "--output", str(tmp_path)]) == 0
    assert "pieces: string [2, 3]" in capsys.readouterr().out
    assert np.load(tmp_path / "pieces.npy").tolist() == [["see", "the", "cat"], ["the", "", ""]]
    assert main(["verify", str(tmp_path / "m.onnx")]) == 0
    assert "all agree; the outputs' largest absolute error is 0" in capsys.readouterr().out


def test_the_backend_takes_text_in_any_form() -> None:
    node = helper.make_node("Equal", ["a", "b"], ["c"])
    assert onnx_backend.run_node(node, [["x", "y"], np.array("x")])[0].tolist() == [True, False]


def test_empty_initializers() -> None:
    module = compiled(
        [helper.make_node("Concat", ["x", "k"], ["y"], axis=0)],
        {"x": (STRING, ["n"])},
        ["y", "k"],
        {"k": np.zeros(0, object)},
    )
    y, k = module(["é"])
    assert (y.tolist(), k.tolist()) == (["é"], [])


def test_bare_metal_takes_no_strings() -> None:
    proto = model([helper.make_node("Size", ["x"], ["y"])], {"x": N3}, ["y"])
    with pytest.raises(rillet.CompileError, match="has static memory, but input 'x' holds strings"):
        rillet.compile(proto, target="cortex-m4", inputs={"x": (2, 3)}).export("unused")  # type: ignore[union-attr]


def test_sequences_of_too_many_parts() -> None:
    with pytest.raises(rillet.UnsupportedError, match=r"it makes 1,000,000 parts; at most 4,096 are supported"):
        single("SplitToSequence", {"x": (STRING, [1_000_000])})
