"""ai.onnx.ml's ops that prepare features, against ONNX Runtime; against numpy where it lacks a type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import rillet
from rillet.errors import CompileError, RunError
from tests.support.ml_models import MlGraph, assert_same

INT, FLOAT, DOUBLE, STRING = TensorProto.INT64, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.STRING
ROWS = np.array([[-3, 1, 2], [0, 0, 0], [-1, -2, -4], [0.5, 7, 1]], np.float32)


def check(graph: MlGraph) -> None:
    found, expected = graph.run(), graph.run_peer()
    for name, want in expected.items():
        assert_same(found[name], want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_rows_of_every_type(dtype: str) -> None:
    graph = MlGraph({"x": ROWS.astype(dtype), "row": ROWS[3].astype(dtype)})
    for name in graph.arrays:
        graph.add("Scaler", name, scale=[2.5, 3.0, 4.0], offset=[0.5, 0.0, -1.0])
        graph.add("Scaler", name, scale=[2.5], offset=[0.5])
        for norm in ("MAX", "L1", "L2"):
            graph.add("Normalizer", name, norm=norm)
        graph.add("FeatureVectorizer", [name, name], inputdimensions=[2, 5])
    check(graph)


def test_imputer_and_binarizer() -> None:
    holes = np.where(ROWS == 0, np.float32(np.nan), ROWS)
    whole = ROWS.astype(np.int64)
    graph = MlGraph({"x": ROWS, "holes": holes, "i": whole, "row": ROWS[3]})
    graph.add("Imputer", "x", imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=0.0)
    graph.add("Imputer", "holes", imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=float("nan"))
    graph.add("Imputer", "holes", imputed_value_floats=[7.0], replaced_value_float=1.0)
    graph.add("Imputer", "row", imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=7.0)
    graph.add("Imputer", "i", INT, imputed_value_int64s=[7], replaced_value_int64=-3)
    graph.add("Binarizer", "x", threshold=0.5)
    check(graph)


def test_types_that_the_peer_lacks() -> None:
    x, i = ROWS.astype(np.float64), ROWS.astype(np.int32)
    graph = MlGraph({"x": x, "i": i})
    (a,) = graph.add("Imputer", "x", DOUBLE, imputed_value_floats=[7.0], replaced_value_float=-3.0)
    (b,) = graph.add("Imputer", "i", TensorProto.INT32, imputed_value_int64s=[9], replaced_value_int64=0)
    (c,) = graph.add("Binarizer", "i", TensorProto.INT32, threshold=-0.5)
    (d,) = graph.add("Binarizer", "x", DOUBLE, threshold=-0.5)
    (e,) = graph.add("Scaler", "x", scale=[1.0, 2.0, 3.0])
    (f,) = graph.add("FeatureVectorizer", "i")
    found = graph.run()
    assert_same(found[a], np.where(x == -3, 7.0, x))
    assert_same(found[b], np.where(i == 0, np.int32(9), i))
    assert_same(found[c], (i > -0.5).astype(np.int32))
    assert_same(found[d], (x > -0.5).astype(np.float64))
    assert_same(found[e], (x * [1, 2, 3]).astype(np.float32))
    assert_same(found[f], i.astype(np.float32))


def test_array_feature_extractor() -> None:
    cube = np.arange(30, dtype=np.float32).reshape(2, 3, 5)
    words = np.array([["a", "b", "c"], ["d", "e", "f"]], dtype=object)
    graph = MlGraph({"x": cube, "row": cube[0, 0], "words": words, "at": np.array([[2, 0, 0]])}, dynamic=False)
    graph.add("ArrayFeatureExtractor", ["x", "at"])
    graph.add("ArrayFeatureExtractor", ["row", "at"])
    graph.add("ArrayFeatureExtractor", ["words", "at"], STRING)
    check(graph)


def test_label_encoder_of_numbers() -> None:
    """Keys at both ends, missing ones, NaN, and defaults of each type."""
    floats = np.array([3, np.nan, -1, 0.5, np.inf], np.float32)
    graph = MlGraph({"f": floats, "d": floats.astype(np.float64), "i": np.array([2, 9, -5, 3, 4])}, opset=4)
    tensors = {name: helper.make_tensor(name, DOUBLE, [3], [3.0, np.nan, -1.0]) for name in ("keys", "values")}
    graph.add("LabelEncoder", "f", FLOAT, keys_floats=[3.0, np.nan, 0.5], values_floats=[5.0, 6.0, 7.0])
    graph.add("LabelEncoder", "f", INT, keys_floats=[np.inf, -1.0], values_int64s=[5, 6], default_int64=3)
    graph.add("LabelEncoder", "i", FLOAT, keys_int64s=[9, -5, 2, 7], values_floats=[5.0, 6.0, 7.0, 8.0])
    graph.add("LabelEncoder", "i", STRING, keys_int64s=[0, 1, 2], values_strings=["a", "b", "c"])
    graph.add("LabelEncoder", "i", INT, keys_int64s=[4], values_int64s=[2])
    graph.add("LabelEncoder", "d", DOUBLE, keys_tensor=tensors["keys"], values_tensor=tensors["values"])
    check(graph)


def test_labels_of_many_keys() -> None:
    keys = np.random.default_rng(3).permutation(1000)[:300] * 7 - 2000
    graph = MlGraph({"i": np.concatenate([keys, keys + 1, [-(2**63), 2**63 - 1]])}, opset=2)
    graph.add("LabelEncoder", "i", INT, keys_int64s=keys.tolist(), values_int64s=list(range(300)))
    check(graph)


def test_labels_of_types_that_the_peer_lacks() -> None:
    """Narrow integers, and the default of integer values in a tensor, which is -1."""
    graph = MlGraph({"i": np.array([1, 2, 9], np.int16), "s": np.array(["a", "b"], dtype=object)}, opset=4)
    keys = helper.make_tensor("keys", TensorProto.INT16, [3], [1, 4, 2])
    texts = helper.make_tensor("keys", STRING, [2], ["b", "a"])
    (a,) = graph.add("LabelEncoder", "i", TensorProto.INT16, keys_tensor=keys, values_tensor=keys)
    (b,) = graph.add("LabelEncoder", "i", STRING, keys_tensor=keys, values_strings=["x", "y", "z"])
    (c,) = graph.add("LabelEncoder", "s", STRING, keys_tensor=texts, values_tensor=texts)
    (d,) = graph.add("LabelEncoder", "i", INT, keys_int64s=[1, 2, 65545], values_int64s=[7, 8, 9])
    found = graph.run()
    assert found[a].tolist() == [1, 2, -1] and found[a].dtype == np.int16
    assert found[b].tolist() == ["x", "z", "_Unused"]
    assert found[c].tolist() == ["a", "b"]
    assert found[d].tolist() == [7, 8, -1]  # 65545 is 9 in 16 bits


def test_first_version_and_categories() -> None:
    graph = MlGraph({"s": np.array(["a", "b", ""], dtype=object), "i": np.array([1, 0, 2, -1])})
    for code, name in ((INT, "s"), (STRING, "i")):
        graph.add("LabelEncoder", name, code, classes_strings=["a", "c"])
        graph.add("CategoryMapper", name, code, cats_strings=["b", "", "q"], cats_int64s=[2, -1, 5])
    check(graph)


def test_one_hot_encoder() -> None:
    graph = MlGraph({"i": np.array([[2, 7], [5, 2]]), "f": np.array([[2.5, 7]], np.float32)}, dynamic=False)
    for name in graph.arrays:
        graph.add("OneHotEncoder", name, cats_int64s=[2, 5], zeros=1)
    check(graph)
    strict = MlGraph({"x": np.array([[2, 5], [5, 2]])})
    (y,) = strict.add("OneHotEncoder", "x", cats_int64s=[2, 5], zeros=0)
    module = rillet.compile(strict.model(), jobs=1, threads=1)
    np.testing.assert_array_equal(module.run(strict.arrays)[y][0], np.eye(2))
    with pytest.raises(RunError, match="node 'node0': an element is of no category"):
        module.run({"x": np.array([[2, 7]])})


@pytest.mark.parametrize(
    ("op_type", "attributes", "message"),
    [
        ("Scaler", {"scale": [1.0, 2.0], "offset": [0.0]}, "scale has 2 numbers for 3 features"),
        ("Normalizer", {"norm": "L3"}, "norm 'L3' is not one of MAX, L1, L2"),
        ("Imputer", {"imputed_value_int64s": [1]}, "'imputed_value_floats' is missing, and the input is float32"),
        ("FeatureVectorizer", {"inputdimensions": [1, 2]}, r"inputdimensions \[1, 2\] are not the widths of 1 inputs"),
        ("FeatureVectorizer", {"inputdimensions": [-1]}, r"inputdimensions \[-1\] are not the widths"),
        ("LabelEncoder", {"keys_floats": [1.0, 2.0]}, "keys and values are missing or have different lengths"),
        ("LabelEncoder", {"keys_strings": ["a"], "values_floats": [1.0]}, "must both be strings or both numbers"),
        ("OneHotEncoder", {"cats_strings": ["a"]}, "the categories must be strings for an input of strings"),
    ],
)
def test_contradictions_are_refused(op_type: str, attributes: dict[str, Any], message: str) -> None:
    graph = MlGraph({"x": ROWS}, opset=4)
    graph.add(op_type, "x", **attributes)
    with pytest.raises(CompileError, match=message):
        rillet.compile(graph.model(), jobs=1)


def test_a_number_is_no_row() -> None:
    graph = MlGraph({"x": np.array(1.0, np.float32)})
    graph.add("Scaler", "x", scale=[2.0], offset=[0.0])
    with pytest.raises(CompileError, match="its input is a single number; the op takes rows"):
        rillet.compile(graph.model(), jobs=1)


def test_unknown_numbers_of_features() -> None:
    """Inputs are cut or filled at run time."""
    graph = MlGraph({"x": ROWS})
    graph.add("FeatureVectorizer", ["x", "x"], inputdimensions=[2, 5])
    graph.add("Scaler", "x", scale=[2.5, 3.0, 4.0], offset=[0.5, 0.0, -1.0])
    model = graph.model()
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "F"
    found, expected = rillet.compile(model, jobs=1, threads=1).run(graph.arrays), graph.run_peer()
    for name, want in expected.items():
        assert_same(found[name], want)


def test_categories_that_do_not_pair_up_are_refused() -> None:
    graph = MlGraph({"i": np.array([1])})
    graph.add("CategoryMapper", "i", STRING, cats_strings=["a", "b"], cats_int64s=[1])
    with pytest.raises(CompileError, match="2 strings for 1 integers"):
        rillet.compile(graph.model(), jobs=1)


def test_a_known_position_out_of_range_is_refused() -> None:
    model = MlGraph({"x": ROWS, "at": np.array([3])})
    model.add("ArrayFeatureExtractor", ["x", "at"])
    proto = model.model()
    proto.graph.initializer.append(helper.make_tensor("at", INT, [1], [3]))
    del proto.graph.input[1]
    with pytest.raises(CompileError, match="position 3 is out of range for 3 features"):
        rillet.compile(proto, jobs=1)
