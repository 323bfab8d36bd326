"""Tensors of strings, from numpy arrays in to numpy arrays out."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import rillet
from rillet import onnx_backend

STRING = TensorProto.STRING
WORDS = ["", "a", "Straße", "日本", "AB ab", "\U00010400x", "é\u2003b", "b"]


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[Any]]],
    outputs: Sequence[str],
    initializers: Mapping[str, Any] | None = None,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, code, shape) for n, (code, shape) in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in (initializers or {}).items()],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def compiled(*args: Any, **kwargs: Any) -> Any:
    return rillet.compile(model(*args, **kwargs), jobs=1, threads=1)


def single(op_type: str, inputs: Mapping[str, tuple[int, Sequence[Any]]], outputs: int = 1, **attributes: Any) -> Any:
    names = [f"y{i}" for i in range(outputs)]
    domain = "ai.onnx.ml" if op_type in ("LabelEncoder", "CategoryMapper") else ""
    node = helper.make_node(op_type, list(inputs), names, "node", domain=domain, **attributes)
    return compiled([node], inputs, names)


def texts(*values: Any) -> np.ndarray:
    return np.array(values, dtype=object)


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
    with pytest.raises(rillet.RunError, match=r"b\[ends\]"):
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
INT = TensorProto.INT64


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


def test_types_are_checked() -> None:
    with pytest.raises(rillet.CompileError, match="Add 'node': input 'A' is string, which the op does not take"):
        single("Add", {"x": N3, "y": N3})


def test_the_normalizer_takes_one_row() -> None:
    with pytest.raises(rillet.CompileError, match="StringNormalizer 'node': the input must be of shape"):
        single("StringNormalizer", {"x": (STRING, [2, 3])})


# --- numbers as text ---


def as_text(code: int) -> Any:
    return single("Cast", {"x": (code, ["n"])}, to=STRING)


@pytest.mark.parametrize(
    ("code", "dtype"), [(INT, np.int64), (TensorProto.INT8, np.int8), (TensorProto.UINT64, np.uint64)]
)
def test_integers_as_text(code: int, dtype: Any) -> None:
    info = np.iinfo(dtype)
    values = np.array([0, 9, 10, 99, 100, info.max, info.min, info.min + 1], dtype)
    assert as_text(code)(values).tolist() == [str(int(v)) for v in values]


def test_bools_as_text() -> None:
    assert as_text(TensorProto.BOOL)([True, False]).tolist() == ["True", "False"]


def test_doubles_as_text_are_what_python_prints() -> None:
    generator = np.random.default_rng(0)
    values = np.concatenate(
        [
            np.array([0, -0.0, 25, 0.1, 1e-4, 9.9e-5, 1e15, 1e16, 1e23, 5e-324, 1.7976931348623157e308, 1 / 3]),
            np.array([np.nan, -np.nan, np.inf, -np.inf]),
            generator.integers(0, 1 << 63, 500, dtype=np.uint64).view(np.float64),
            -np.exp2(generator.integers(-1074, 1023, 100).astype(np.float64)),
        ]
    )
    assert as_text(TensorProto.DOUBLE)(values).tolist() == [repr(float(v)) for v in values]


@pytest.mark.parametrize(("code", "dtype"), [(TensorProto.FLOAT, np.float32), (TensorProto.FLOAT16, np.float16)])
def test_narrow_floats_as_text_are_the_shortest(code: int, dtype: Any) -> None:
    bits = np.dtype(dtype).itemsize * 8
    patterns = np.random.default_rng(0).integers(0, 1 << bits, 500).astype(f"uint{bits}")
    values = patterns.view(dtype)
    for text, value in zip(as_text(code)(values), values, strict=True):
        if not np.isfinite(value):
            assert text == repr(float(value))
            continue
        assert dtype(text) == value
        shortest = np.format_float_scientific(value, unique=True, trim="-")
        digits = [t.partition("e")[0].replace(".", "").strip("-0") for t in (text, shortest)]
        assert digits[0] == digits[1]


def test_narrow_floats_that_have_no_text() -> None:
    with pytest.raises(rillet.UnsupportedError, match="cast from bfloat16 to string; cast to float32 first"):
        as_text(TensorProto.BFLOAT16)


# --- text as numbers ---


def as_number(code: int) -> Any:
    return single("Cast", {"x": (STRING, ["n"])}, to=code)


HARD = [
    "0",
    "-0",
    " 1. ",
    "-.5",
    "+3.25E2",
    "inf",
    "-Infinity",
    "NaN",
    "1e400",
    "-1e-400",
    "2.4703282292062327e-324",  # just below half of the smallest double
    "2.4703282292062328e-324",
    "2.2250738585072011e-308",
    "1.7976931348623158e308",
    "1.7976931348623159e308",
    "9007199254740993",  # between two doubles
    "9007199254740993.0000000000000000000000000001",
    "0e99999999",
    "0." + "0" * 400 + "1e401",
    "1" + "0" * 350 + "e-350",
    "1" * 900,
    "123456789" * 30 + "e-200",
]


def test_text_as_doubles_is_rounded_to_nearest() -> None:
    generator = random.Random(1)
    values = [struct.unpack("<d", struct.pack("<Q", generator.getrandbits(64)))[0] for _ in range(200)]
    digits = ["".join(generator.choice("0123456789") for _ in range(generator.randrange(1, 60))) for _ in range(200)]
    strings = [*HARD, *map(repr, values), *(f"{d}e{generator.randrange(-370, 320)}" for d in digits)]
    for pattern in (generator.getrandbits(62) for _ in range(100)):  # halfway between two doubles
        low, high = (struct.unpack("<d", struct.pack("<Q", p))[0] for p in (pattern, pattern + 1))
        middle = (Fraction(low) + Fraction(high)) / 2
        places = middle.denominator.bit_length() - 1
        strings.append(f"{middle.numerator * 5**places}e-{places}")
    got = as_number(TensorProto.DOUBLE)(np.array(strings, dtype=object))
    np.testing.assert_array_equal(got, np.array([float(s) for s in strings]))
    assert np.signbit(got[1])


def test_narrow_floats_are_rounded_once() -> None:
    strings = texts("16777217", "16777217.0000000001", "3.4028235677973366e38", "3.4028235677973367e38", "8e-46")
    got = as_number(TensorProto.FLOAT)(strings)
    largest = np.finfo(np.float32).max
    assert got.tolist() == [16777216, 16777218, largest, np.inf, np.float32(1e-45)]
    half = as_number(TensorProto.FLOAT16)(texts("65519.99", "65520", "1e-7", "2.98e-8", "2049"))
    assert half.tolist() == [65504, np.inf, np.float16(1e-7), 0, 2048]


@pytest.mark.parametrize(("code", "dtype"), [(INT, np.int64), (TensorProto.UINT8, np.uint8)])
def test_text_as_integers(code: int, dtype: Any) -> None:
    info = np.iinfo(dtype)
    module = as_number(code)
    values = [info.min, info.max, 0, 7]
    assert module(texts(*(f" {v}\n" for v in values), "-0", "+3")).tolist() == [*values, 0, 3]
    for text in (str(info.max + 1), str(info.min - 1), "9" * 30):
        with pytest.raises(
            rillet.RunError, match=f"node 'node': a string is a number out of the range of {info.dtype}"
        ):
            module([text])
    for text in ("1.5", "", "x", "1 2"):
        with pytest.raises(rillet.RunError, match=f"node 'node': a string is no {info.dtype}"):
            module([text])


def test_text_that_is_no_float() -> None:
    module = as_number(TensorProto.FLOAT)
    for text in ("1,5", "e5", ".", "0x10", "1_0", "na"):
        with pytest.raises(rillet.RunError, match="node 'node': a string is no float32"):
            module([text])


def test_types_that_text_cannot_become() -> None:
    with pytest.raises(rillet.UnsupportedError, match="cast from string to bool"):
        as_number(TensorProto.BOOL)


def test_cast_like() -> None:
    module = single("CastLike", {"x": (TensorProto.FLOAT, ["n"]), "like": (STRING, [])})
    assert module(np.array([1.5, 2], np.float32), "").tolist() == ["1.5", "2.0"]


def test_bare_metal_takes_no_strings() -> None:
    proto = model([helper.make_node("Size", ["x"], ["y"])], {"x": N3}, ["y"])
    with pytest.raises(rillet.CompileError, match="has static memory, but input 'x' holds strings"):
        rillet.compile(proto, target="cortex-m4", inputs={"x": (2, 3)}).export("unused")  # type: ignore[union-attr]
