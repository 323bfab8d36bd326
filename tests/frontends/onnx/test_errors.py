"""Every diagnostic of the ONNX frontend."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnxruntime.capi import onnxruntime_pybind11_state

import rillet
from rillet.errors import CompileError, UnsupportedError
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx import functions, registry, unknown_ops
from rillet.frontends.onnx.sequences import TensorSequence
from rillet.frontends.onnx.steps import validity
from tests.support.importing import import_model
from tests.support.onnx_models import model, single

X = {"x": ("float32", (2, 3))}


def relu(**options: Any) -> onnx.ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"], name="act")], X, ["y"], **options)


def test_every_unsupported_node_is_listed() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="fine"),
        helper.make_node("Frobnicate", ["a"], ["b"], name="first"),
        helper.make_node("Relu", ["b"], ["c"], name="after"),
        helper.make_node("Widget", ["c"], ["d"], name="second", domain="com.example"),
    ]
    proto = model(nodes, X, ["d"])
    proto.opset_import.append(helper.make_opsetid("com.example", 1))
    with pytest.raises(UnsupportedError) as caught:
        import_model(proto)
    assert [n.name for n in caught.value.nodes] == ["first", "second"]
    assert "ONNX has no op of this name" in str(caught.value)
    assert "domain 'com.example' is not known" in str(caught.value)
    assert rillet.check(proto).unsupported == caught.value.nodes
    assert not rillet.check(relu()).unsupported


def _mapped(*inputs: str) -> onnx.NodeProto:
    """A SequenceMap, whose body onnx builds from the types of its inputs."""
    value = helper.make_tensor_value_info("e", onnx.TensorProto.FLOAT, None)
    result = helper.make_tensor_value_info("r", onnx.TensorProto.FLOAT, None)
    body = helper.make_graph([helper.make_node("Neg", ["e"], ["r"])], "each", [value], [result])
    return helper.make_node("SequenceMap", list(inputs), ["m"], name="map", body=body)


def test_an_unsupported_node_before_one_whose_body_onnx_builds(tmp_path: Path) -> None:
    """Its inputs have no types then, which onnx would read through null pointers: in a process of its own."""
    nodes = [
        helper.make_node("Widget", ["x"], ["a"], name="first", domain="com.example"),
        helper.make_node("SequenceConstruct", ["a", "a"], ["s"], name="pair"),
        _mapped("s"),
        helper.make_node("SequenceAt", ["m", "i"], ["y"], name="one"),
    ]
    proto = model(nodes, {**X, "i": ("int64", ())}, ["y"], opset=18)
    proto.opset_import.append(helper.make_opsetid("com.example", 1))
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    for command in (["check"], ["compile", "-o", str(tmp_path / "model.rlt")]):
        arguments = [sys.executable, "-m", "rillet.cli", command[0], str(path), *command[1:]]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
        assert done.returncode == 1, done.stderr
        assert "domain 'com.example' is not known" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("inputs", "types", "message"),
    [
        ([], [], "it has 0 inputs; the op takes at least 1"),
        (["s"], [], "input 'input_sequence' ('s') has no type, and ONNX builds the body of SequenceMap from it"),
        (["s"], [None], "input 'input_sequence' ('s') has no type"),
        (["s", "t"], [TensorSequence], "input 'additional_inputs' ('t') has no type"),
    ],
)
def test_a_body_is_not_built_from_missing_types(inputs: list[str], types: list[Any], message: str) -> None:
    known = [None if t is None else TensorSequence("float32", ()) for t in types]
    with pytest.raises(InvalidNode, match=re.escape(message)):
        functions.body_of(_mapped(*inputs), 18, known)


def test_an_error_in_the_body_of_an_op_names_the_node() -> None:
    """Heads of no width: the body reshapes to them, where 0 stands for another extent."""
    inputs = {"q": ("float32", (1, 2, 3, 0)), "k": ("float32", (1, 2, 7, 0)), "v": ("float32", (1, 2, 7, 8))}
    proto = model([helper.make_node("Attention", ["q", "k", "v"], ["y"], name="look")], inputs, ["y"], opset=23)
    shapes = {name: shape for name, (_, shape) in inputs.items()}
    with pytest.raises(CompileError, match=r"^Attention 'look': in the body that ONNX defines for it, Reshape '"):
        import_model(proto, inputs=shapes)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan])
def test_scales_that_are_no_positive_numbers(scale: float) -> None:
    scales = {"s": np.array([1, scale], np.float32)}
    proto = model([helper.make_node("Resize", ["x", "", "s"], ["y"], name="grow")], X, ["y"], scales)
    with pytest.raises(CompileError, match=r"Resize 'grow': scale .* of axis 1 is not a positive number"):
        import_model(proto)


def test_starts_of_a_slice_without_a_dimension() -> None:
    bounds = {"s": np.array(0), "e": np.array([1])}
    proto = model([helper.make_node("Slice", ["x", "s", "e"], ["y"], name="cut")], X, ["y"], bounds)
    with pytest.raises(CompileError, match=r"Slice 'cut': starts must have one dimension, not the shape \[\]"):
        import_model(proto)


def test_sequences_where_an_op_takes_tensors() -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x"], ["s"]),
        helper.make_node("Cast", ["s"], ["y"], name="cast", to=1),
    ]
    with pytest.raises(CompileError, match="Cast 'cast': input 'input' is a sequence, which the op does not take"):
        import_model(model(nodes, X, ["y"]))


@pytest.mark.parametrize(
    ("inputs", "axis", "message"),
    [(["n", "n"], 0, "axis 0"), (["shape", "shape"], 1 << 40, "axis"), (["shape", "n"], 0, "of ranks")],
)
def test_sizes_that_cannot_be_concatenated(inputs: list[str], axis: int, message: str) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"]),
        helper.make_node("Concat", inputs, ["y"], name="join", axis=axis),
    ]
    proto = model(nodes, {"x": ("float32", ("a", "b"))}, ["y"], {"zero": np.array(0)})
    with pytest.raises(CompileError, match=f"^Concat 'join': .*{message}"):
        import_model(proto)


@pytest.mark.parametrize("op_type", ["QOrderedMatMul", "QLinearReduceSum"])
def test_another_form_of_quantization_is_advised(op_type: str) -> None:
    proto = model([helper.make_node(op_type, ["x"], ["y"], name="q", domain="com.microsoft")], X, ["y"])
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(UnsupportedError, match=r"'q'.*not among those of domain 'com.microsoft'.*; quantize with"):
        import_model(proto)


@pytest.mark.parametrize(
    ("domain", "op_type", "opset", "message"),
    [
        ("", "Elu", 1, "no implementation for opset 1; convert the model to opset 6 or newer"),
        ("", "ImageDecoder", 20, "no implementation; compute it outside the model"),
        ("ai.onnx.ml", "CastMap", 1, "no implementation; leave that step out of the export"),
        (
            "com.microsoft",
            "MurmurHash3",
            1,
            "not among those of domain 'com.microsoft' that are known; use the model as",
        ),
        ("com.microsoft", "MatMulBnb4", 1, "are known; quantize the weights in blocks with MatMulNBits"),
        ("com.microsoft", "QMoE", 1, "are known; export each expert as MatMuls"),
        ("com.microsoft", "BeamSearch", 1, "are known; export the decoder alone, and search outside the model"),
        (
            "com.microsoft.nchwc",
            "ReorderInput",
            1,
            "is not known; use the model as it was before .* saved it optimized",
        ),
        ("com.ms.internal.nhwc", "Conv", 1, "domain 'com.ms.internal.nhwc' is not known; .*for ONNX Runtime's own"),
        ("com.example", "Widget", 1, "domain 'com.example' is not known; export the model with standard ONNX ops"),
    ],
)
def test_advice_for_an_unknown_op_fits_its_domain(domain: str, op_type: str, opset: int, message: str) -> None:
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"]),  # what comes after it is not checked any further
        helper.make_node(op_type, ["a"], ["y"], name="n", domain=domain),
    ]
    proto = model(nodes, X, ["y"])
    if domain:
        proto.opset_import.append(helper.make_opsetid(domain, opset))
    else:
        proto.opset_import[0].version = opset
    with pytest.raises(UnsupportedError, match=f"'n' .*{message}"):
        import_model(proto)


def test_advice_is_for_ops_that_onnx_runtime_has_and_nothing_imports() -> None:
    schemas = onnxruntime_pybind11_state.get_all_operator_schema()
    named = set(unknown_ops.ADVICE_OF_MICROSOFT)
    assert named <= {s.name for s in schemas if s.domain == "com.microsoft"}
    assert not named & set(registry.supported("com.microsoft"))


def test_a_map_as_an_input_is_refused() -> None:
    value = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    info = helper.make_value_info("x", helper.make_map_type_proto(onnx.TensorProto.STRING, value))
    proto = relu()
    del proto.graph.input[:]
    proto.graph.input.append(info)
    with pytest.raises(CompileError, match=r"input 'x' is a map_type; .*leave the step that reads dicts"):
        import_model(proto)


def test_a_defect_of_an_importer_is_to_be_reported_with_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(*_: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(validity, "check_node", defect)
    with pytest.raises(CompileError) as caught:
        import_model(relu())
    assert str(caught.value) == (
        "Relu 'act' cannot be imported (KeyError: 'oops'): this is an error in Rillet, please report it with the node; "
        "if onnx.checker finds faults in the model, mend those first"
    )


def test_unequal_sizes_of_one_dimension_are_named_where_a_node_fails() -> None:
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[N,4] x, float[N,4] b) => (float[N,4] y) { y = NODE }'
    add = onnx.parser.parse_model(text.replace("NODE", "Add (x, b)"))
    with pytest.raises(CompileError) as caught:
        import_model(add, {"x": [2, 4], "b": [3, 4]})
    assert str(caught.value).endswith(
        ": dimensions 2 and 3 do not broadcast; inputs 'x' and 'b' share the dimension 'N' in the model, but are given "
        "2 and 3 for it: give them the same size"
    )
    import_model(add, {"x": [2, 4], "b": [1, 4]})
    gemm = onnx.parser.parse_model(text.replace("NODE", "Gemm <transB = 1> (x, b)").replace("[N,4] y", "[N,M] y"))
    import_model(gemm, {"x": [2, 4], "b": [3, 4]})


def test_a_size_of_a_named_dimension_is_that_of_the_other_inputs() -> None:
    text = (
        '<ir_version: 10, opset_import: ["" : 20]> g (float[N,M] x, float[N,M] b) => (float[N,M] y) { y = Add (x, b) }'
    )
    add = onnx.parser.parse_model(text)
    arguments = "%arg0: tensor<2x?xf32> {"
    assert arguments in str(import_model(add, {"x": [2, -1]}).module)
    assert arguments.replace("0", "1") in str(import_model(add, {"x": [2, -1]}).module)
    # What the caller says of an input stays: a dynamic dimension, and sizes of dimensions that only share a name.
    assert arguments.replace("0", "1") not in str(import_model(add, {"x": [2, -1], "b": [-1, -1]}).module)
    text = text.replace("float[N,M] b", "float[N,M] b, float[N,M] c").replace("Add (x, b)", "Sum (x, b, c)")
    assert "%arg2: tensor<?x4xf32> {" in str(
        import_model(onnx.parser.parse_model(text), {"x": [2, 4], "b": [1, 4]}).module
    )


def test_domain_without_opset() -> None:
    proto = model([helper.make_node("Widget", ["x"], ["y"], domain="com.example")], X, ["y"])
    with pytest.raises(UnsupportedError, match=r"imports no opset for domain 'com.example'"):
        import_model(proto)


def test_operand_that_must_be_known() -> None:
    proto, _ = single("Slice", [np.zeros((2, 3), np.float32), *(np.array([n]) for n in (0, 2, 1, 1))])
    with pytest.raises(UnsupportedError, match="steps must be known at compile time; make steps an initializer"):
        import_model(proto)


@pytest.mark.parametrize("data", [b"", b"hello, this is text", b"\x00" * 64, b"PK\x03\x04" + bytes(range(60))])
def test_not_an_onnx_file(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(data)
    with pytest.raises(CompileError, match="not an ONNX model"):
        import_model(path)
    with pytest.raises(CompileError, match="not an ONNX model"):
        import_model(data)


def test_truncated_file() -> None:
    data = relu().SerializeToString()
    for length in range(0, len(data), 7):
        with pytest.raises(CompileError):
            import_model(data[:length])


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"none\.onnx: no such file"):
        import_model(tmp_path / "none.onnx")


def test_unknown_opset() -> None:
    with pytest.raises(CompileError, match="uses ONNX opset 999, which is not known"):
        import_model(relu(opset=999))


def test_input_that_does_not_exist() -> None:
    with pytest.raises(CompileError, match="no input 'z'; its inputs are: x"):
        import_model(relu(), inputs={"z": (1,)})


def test_input_of_another_rank() -> None:
    with pytest.raises(CompileError, match=r"input 'x' was given 1 dimensions, but the model declares \[2, 3\]"):
        import_model(relu(), inputs={"x": (1,)})


def test_input_of_another_size() -> None:
    with pytest.raises(
        CompileError, match=r"'x' was given the shape \[4, \?\], but the model declares \[2, 3\], .* in dimension 0"
    ):
        import_model(relu(), inputs={"x": (4, -1)})
    import_model(relu(), inputs={"x": ("n", 3)})


@pytest.mark.parametrize(
    "declared, named",
    [
        ("3,2", r"\[3, 2\]"),
        ("N,4", r"\[N, 4\]"),
        ("6", r"\[6\]"),
        ("", r"\[\]"),
        ("2,3,1", r"\[2, 3, 1\]"),
        (None, None),
        ("2,3", None),
        ("N,M", None),
        ("0,3", None),  # what exporters write for a dimension that they do not know
    ],
)
def test_output_of_another_shape(declared: str | None, named: str | None) -> None:
    proto = relu()
    if declared is not None:
        dims = [int(d) if d.isdigit() else d for d in declared.split(",") if d]
        proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, dims))
    if named is None:
        import_model(proto)
        return
    message = rf"outputs have other shapes than the model declares: 'y' is declared as {named}, but the graph computes "
    with pytest.warns(RuntimeWarning, match=message + r"\[2, 3\]\. They are given as computed"):
        program = import_model(proto)
    assert "-> (tensor<2x3xf32> {rillet.dtype" in str(program.module)


@pytest.mark.parametrize(
    "type_, wrong",
    [
        ("float[3,2]", r"declared as \[3, 2\], but the graph computes \[2, 3\]"),
        ("float[N,4]", r"declared as \[N, 4\], but the graph computes \[2, 3\]"),
        ("float[6]", r"declared as \[6\], but the graph computes \[2, 3\]"),
        ("float16[2,3]", "declared as float16, but the graph computes float32"),
        ("float[2,3]", None),
        ("float[N,M]", None),
        ("float[0,3]", None),  # what exporters write for a dimension that they do not know
    ],
)
def test_value_between_nodes_of_another_type(type_: str, wrong: str | None) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[2,3] x) => (float[2,3] y) '
        f"<{type_} t> {{ t = Neg (x) y = Relu (t) }}"
    )
    if wrong is None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            import_model(proto)
        return
    with pytest.warns(RuntimeWarning, match=rf"value_info is wrong, and not used: 't' is {wrong}\. Delete value_info"):
        import_model(proto)


def test_many_values_of_other_types_are_one_warning() -> None:
    names = [f"t{i}" for i in range(5)]
    nodes = "".join(f"{name} = Neg (x) " for name in names)
    then = "g (float[2,3] x, bool c) => (float[2,3] y) <" + ", ".join(f"float[9] {n}" for n in names)
    branch = "() => (float[2,3] r) <float[7] inner> { inner = Neg (x) r = Relu (inner) }"
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 20]> {then}> {{ {nodes} '
        f"y = If (c) <then_branch = a {branch}, else_branch = b {branch}> }}"
    )
    with pytest.warns(RuntimeWarning, match=r"'t0' is .*; 't1' is .*; 't2' is .*; and 3 more\. Delete") as caught:
        import_model(proto)
    assert len(caught) == 1


def test_input_without_shape() -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("float32", None)}, ["y"])
    with pytest.raises(CompileError, match="input 'x' has no shape in the model; give one"):
        import_model(proto)
    import_model(proto, inputs={"x": (2, 3)})


def test_input_that_is_not_a_tensor() -> None:
    proto = relu()
    proto.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x", onnx.TensorProto.FLOAT, [2]))
    with pytest.raises(CompileError, match="input 'x' is a sequence_type"):
        import_model(proto)


def test_value_that_does_not_fit() -> None:
    with pytest.raises(CompileError, match=r"values\['x'\] is int64 \[1\], but the input is float32 "):
        import_model(relu(), values={"x": np.array([1])})


def test_undefined_name() -> None:
    proto = model([helper.make_node("Relu", ["nothing"], ["y"], name="act")], X, ["y"])
    with pytest.raises(CompileError, match="Relu 'act' reads 'nothing', which no input"):
        import_model(proto)


def test_name_defined_twice() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="a"), helper.make_node("Exp", ["x"], ["y"], name="b")]
    with pytest.raises(CompileError, match="Exp 'b' defines 'y', which is defined already"):
        import_model(model(nodes, X, ["y"]))


def test_output_that_nothing_computes() -> None:
    with pytest.raises(CompileError, match="output 'z' is not computed"):
        import_model(model([helper.make_node("Relu", ["x"], ["y"])], X, ["z"]))


@pytest.mark.parametrize(
    "op_type, arrays, attributes, message",
    [
        ("Add", [np.zeros((2, 3)), np.zeros(4)], {}, "dimensions 3 and 4 do not broadcast"),
        ("MatMul", [np.zeros((2, 3)), np.zeros((4, 5))], {}, "inner dimensions 3 and 4 differ"),
        ("Softmax", [np.zeros((2, 3))], {"axis": 2}, "axis 2 is out of range for rank 2"),
        ("Transpose", [np.zeros((2, 3))], {"perm": [0, 0]}, "not a permutation"),
        ("Conv", [np.zeros((1, 3, 4, 4)), np.zeros((2, 2, 3, 3))], {}, "3 input channels"),
        ("Conv", [np.zeros((1, 1, 4, 4)), np.zeros((2, 1, 3, 3)), np.zeros(())], {}, "the bias has rank 0"),
        ("Conv", [np.zeros((1, 1, 2, 2)), np.zeros((2, 1, 4, 4))], {}, "larger than the padded input"),
        ("Concat", [np.zeros((2, 3)), np.zeros((3, 3))], {"axis": 1}, "cannot concatenate"),
        ("Concat", [np.zeros((2, 3))], {}, "attribute 'axis' is missing"),
    ],
)
def test_invalid_node(op_type: str, arrays: list[np.ndarray], attributes: dict[str, Any], message: str) -> None:
    proto, _ = single(op_type, [a.astype(np.float32) for a in arrays], **attributes)
    with pytest.raises(CompileError, match=f"{op_type} 'node': .*{message}"):
        import_model(proto)


@pytest.mark.parametrize(
    "shape, message", [([-1, -1], "more than one -1"), ([4, 2], "cannot reshape"), ([0, 0, 0], "rank 2")]
)
def test_invalid_reshape(shape: list[int], message: str) -> None:
    proto, _ = single("Reshape", [np.zeros((2, 3), np.float32), np.array(shape)], known=[1])
    with pytest.raises(CompileError, match=message):
        import_model(proto)


def test_malformed_node() -> None:
    proto = model([helper.make_node("Conv", ["x"], ["y"], name="c")], {"x": ("float32", (1, 1, 3, 3))}, ["y"])
    with pytest.raises(CompileError, match="Conv 'c': it has 1 inputs"):
        import_model(proto)


def test_an_operand_in_the_middle_is_missing() -> None:
    proto = model([helper.make_node("Einsum", ["x", ""], ["y"], name="e", equation="ij,jk->ik")], X, ["y"])
    with pytest.raises(CompileError, match="Einsum 'e': input 'Inputs' is missing"):
        import_model(proto)


def test_recursive_function() -> None:
    body = [helper.make_node("F", ["a"], ["b"], domain="local")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    proto = model([helper.make_node("F", ["x"], ["y"], domain="local")], X, ["y"])
    proto.opset_import.append(opsets[1])
    proto.functions.append(helper.make_function("local", "F", ["a"], ["b"], body, opsets))
    with pytest.raises(CompileError, match="nest deeper than"):
        import_model(proto)


def _external(folder: Path, location: str) -> Path:
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], X, ["y"], {"w": np.zeros(3, np.float32)})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_external_data(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(np.arange(3, dtype=np.float32).tobytes())
    path = _external(tmp_path, "w.bin")
    program = import_model(path)
    assert program.constants["w"].tolist() == [0, 1, 2]
    with pytest.raises(CompileError, match="pass its path, not its bytes"):
        import_model(path.read_bytes())


def test_external_data_outside_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    target = tmp_path / "secret.bin"
    target.write_bytes(bytes(12))
    for location in ("../secret.bin", str(target), "a/../../secret.bin", ""):
        with pytest.raises(CompileError, match="outside the model's folder"):
            import_model(_external(folder, location))
    os.symlink(target, folder / "link.bin")
    with pytest.raises(CompileError, match=r"a link that leads to '.*secret\.bin', outside the model's folder"):
        import_model(_external(folder, "link.bin"))
    with pytest.raises(CompileError, match="does not exist"):
        import_model(_external(folder, "none.bin"))


def test_external_data_too_short(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(4))
    with pytest.raises(CompileError, match="'w'"):
        import_model(_external(tmp_path, "w.bin"))


def test_attribute_that_the_importer_does_not_know() -> None:
    """As a later opset may add one: it must not be dropped silently."""
    proto, _ = single("Relu", [np.zeros(3, np.float32)], slope=0.5)
    with pytest.raises(UnsupportedError, match=r"Relu 'node' .*: attribute 'slope' is not implemented"):
        import_model(proto)


def test_branches_of_different_ranks_need_a_known_condition() -> None:
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(op, ["x", *more], [name])], name, [], [helper.make_empty_tensor_value_info(name)]
        )
        for name, op, more in (("then", "Relu", []), ("else", "Flatten", []))
    }
    proto = model(
        [helper.make_node("If", ["c"], ["y"], name="choice", **branches)],
        {"x": ("float32", (2, 3, 4)), "c": ("bool", ())},
        ["y"],
    )
    with pytest.raises(UnsupportedError, match=r"If 'choice'.*rank 3 and float32 of rank 2.*'c'.*values=\{") as caught:
        import_model(proto)
    assert [n.name for n in caught.value.nodes] == ["choice"]
    import_model(proto, values={"c": np.array(True)})


@pytest.mark.parametrize(
    ("op", "attributes", "outputs", "message"),
    [
        ("MaxPool", {"kernel_shape": [0, 1]}, 1, r"a window of \[0, 1\] must be 2 positive numbers"),
        ("MaxPool", {"kernel_shape": [3, 3, 3]}, 1, r"a window of \[3, 3, 3\] must be 2 positive numbers"),
        ("MaxPool", {"kernel_shape": [5, 7]}, 1, "the window of 5 is larger than the padded input of 3 in dimension 0"),
        ("Split", {"axis": 3}, 3, "the parts have 3 positions together, but axis 3 has 4"),
        ("Split", {"axis": 2, "split": [1, 1]}, 2, "the parts have 2 positions together, but axis 2 has 3"),
    ],
)
def test_windows_and_parts_must_fit(op: str, attributes: dict[str, Any], outputs: int, message: str) -> None:
    opset = 11 if "split" in attributes else 17
    proto, _ = single(op, [np.zeros((1, 2, 3, 4), np.float32)], opset, outputs=outputs, **attributes)
    with pytest.raises(CompileError, match=f"{op} 'node': {message}"):
        import_model(proto)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "(float[3] x, int64 n, bool c) => (float[3] y) { y = Loop(n, c, x) "
            "<body = b (int64 i, float[3] s) => (bool k, float[3] o) { k = Identity(i) o = Add(s, s) }> }",
            "its body 'b' has 2 inputs, not 3",
        ),
        (
            "(float[1,3] x, float[1,8,3] w, float[1,8,2] r) => (float[a,b,c] y) { y = LSTM(x, w, r) }",
            "X has rank 2, not 3",
        ),
        (
            "(float[4,2,3] x, float[1,2,3] w, float[1,2,2] r) => (float[a,b,c,d] y) "
            "{ l = Constant<value_ints: ints = [4, 5]>() c = Cast<to = 6>(l) "
            "y = RNN<hidden_size = 2>(x, w, r, , c) }",
            "sequence_lens has 5, but the sequence has 4 steps",
        ),
        (
            "(float[1,4] x, float[1,1,4] s) => (int64[a,b] y) { y = NonMaxSuppression(x, s) }",
            "boxes and scores have ranks 2 and 3, not 3",
        ),
    ],
)
def test_operands_of_other_ranks(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        import_model(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> g {text}'))


def test_opset_that_cannot_be() -> None:
    proto = relu()
    proto.opset_import.append(helper.make_opsetid("other", 1 << 40))
    message = "uses opset 1099511627776 of domain 'other', which cannot be"
    with pytest.raises(CompileError, match=message):
        import_model(proto)
    proto = relu()
    body = [helper.make_node("Relu", ["a"], ["b"])]
    proto.functions.append(
        helper.make_function("local", "F", ["a"], ["b"], body, [helper.make_opsetid("other", 1 << 40)])
    )
    with pytest.raises(CompileError, match=message):
        import_model(proto)
