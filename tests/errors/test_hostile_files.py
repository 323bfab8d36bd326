"""Files made to do harm: each is refused with a message that says what is wrong, in bounded time and memory."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from rillet.errors import CompileError
from tests.support.importing import import_model

pytestmark = pytest.mark.timeout(60)
FLOAT = TensorProto.FLOAT


@pytest.fixture(autouse=True)
def bounded_memory() -> Iterator[None]:
    """An attempt to allocate what a hostile file asks for fails at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _model(*nodes: onnx.NodeProto, initializers: tuple[onnx.TensorProto, ...] = ()) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes) or [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [4])],
        [helper.make_tensor_value_info("y", FLOAT, [4])],
        list(initializers),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def _weights() -> onnx.TensorProto:
    return numpy_helper.from_array(np.ones(4, np.float32), "w")


def _external(location: str, offset: object = 0, length: object = 16, dims: tuple[int, ...] = (4,)) -> onnx.ModelProto:
    tensor = TensorProto(name="w", data_type=FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return _model(initializers=(tensor,))


def _refused(model: onnx.ModelProto | bytes | Path, match: str, tmp_path: Path | None = None) -> None:
    source = model
    if tmp_path is not None and isinstance(model, onnx.ModelProto):
        source = tmp_path / "model.onnx"
        onnx.save(model, source)
    with pytest.raises(CompileError, match=match):
        import_model(source)


# --- external data ---


@pytest.mark.parametrize("location", ["../secret", "a/../../secret", "/etc/passwd", ""])
def test_external_data_elsewhere(tmp_path: Path, location: str) -> None:
    _refused(_external(location), "outside the model's folder", tmp_path)


def test_external_data_through_links_that_leave_the_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "data").write_bytes(bytes(16))
    (home / "link").symlink_to(tmp_path / "data")
    _refused(_external("link"), "a link that leads to '.*/data', outside the model's folder", home)
    (home / "hop").symlink_to("link")
    _refused(_external("hop"), "outside the model's folder", home)
    (home / "folder").symlink_to("/etc")
    _refused(_external("folder/passwd"), "a link that leads to '.*/passwd', outside", home)
    (home / "loop").symlink_to("loop")
    _refused(_external("loop"), "which does not exist", home)
    # A folder whose name begins like the model's is another one.
    (tmp_path / "home2").mkdir()
    (tmp_path / "home2" / "data").write_bytes(bytes(16))
    (home / "near").symlink_to(tmp_path / "home2" / "data")
    _refused(_external("near"), "outside the model's folder", home)


@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_external_data_through_links_in_the_folder(tmp_path: Path, kind: str) -> None:
    (tmp_path / "data").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    link = tmp_path / "link"
    link.symlink_to("data") if kind == "symbolic" else os.link(tmp_path / "data", link)
    onnx.save(_external("link"), tmp_path / "model.onnx")
    assert import_model(tmp_path / "model.onnx").constants["w"].tolist() == [0, 1, 2, 3]


def test_a_model_and_its_data_linked_into_a_store(tmp_path: Path) -> None:
    """As Hugging Face's cache lays files: links with names, to blobs in another folder."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "main" / "onnx"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "4b2f").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    onnx.save(_external("model.onnx_data"), blobs / "a91c")
    (snapshot / "model.onnx").symlink_to("../../../blobs/a91c")
    (snapshot / "model.onnx_data").symlink_to("../../../blobs/4b2f")
    assert import_model(snapshot / "model.onnx").constants["w"].tolist() == [0, 1, 2, 3]
    # What the links do not reach stays out of reach.
    (snapshot / "model.onnx_data").unlink()
    (snapshot / "model.onnx_data").symlink_to("/etc/passwd")
    _refused(snapshot / "model.onnx", "a link that leads to '.*passwd', outside the model's folder")


def test_data_next_to_what_a_link_leads_to(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "data").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    onnx.save(_external("data"), store / "model.onnx")
    (tmp_path / "model.onnx").symlink_to(store / "model.onnx")
    assert import_model(tmp_path / "model.onnx").constants["w"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("offset", "length"), [(8, 16), (-4, 16), (0, 1 << 62), (1 << 62, 16), (0, -16), ((1 << 64) - 16, 16)]
)
def test_external_span_out_of_range(tmp_path: Path, offset: int, length: int) -> None:
    (tmp_path / "data").write_bytes(bytes(16))
    _refused(_external("data", offset, length), "but the file has 16", tmp_path)


def test_external_span_of_another_size(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(16))
    _refused(_external("data", 0, 8), "has length 8, not 16", tmp_path)
    _refused(_external("data", "many", 16), "not a number", tmp_path)
    _refused(_external("data", 0, None, (1 << 40,)), "but the file has 16", tmp_path)


def test_external_spans_that_overlap(tmp_path: Path) -> None:
    """A small file does not stand for any amount of memory."""
    (tmp_path / "data").write_bytes(bytes(1 << 20))
    model = _external("data", 0, 1 << 20, (1 << 18,))
    for number in range(5000):
        model.graph.initializer.add().CopyFrom(model.graph.initializer[0])
        model.graph.initializer[-1].name = f"w{number}"
    _refused(model, "overlap: they have many times its size", tmp_path)


def test_external_data_that_is_missing_or_no_file(tmp_path: Path) -> None:
    _refused(_external("nothing"), "which does not exist", tmp_path)
    os.mkfifo(tmp_path / "pipe")
    _refused(_external("pipe"), "which is not a regular file", tmp_path)
    _refused(_external("data\n"), "control characters", tmp_path)


# --- files ---


def test_not_onnx(tmp_path: Path) -> None:
    _refused(b"", "empty, not an ONNX model")
    _refused(b"\x89PNG\r\n\x1a\n" * 100, "the given bytes: not an ONNX model")
    _refused(bytes(4096), "the given bytes: not an ONNX model")
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    _refused(pipe, "is not a regular file")


def test_truncated() -> None:
    data = _model(initializers=(_weights(),)).SerializeToString()
    refused = 0
    for end in range(1, len(data)):
        try:
            import_model(data[:end])  # cut between two fields it is still a model, of the first opset
        except CompileError:
            refused += 1
    assert refused > len(data) - 10


def test_file_larger_than_protobuf_allows(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    with open(path, "wb") as file:
        file.truncate(5 << 30)
    _refused(path, "an ONNX file has less than 2 GiB")


def test_protobuf_nested_too_deeply() -> None:
    """Bytes that nest messages a thousand deep: graph { node { attribute { g { node ... } } } }."""
    body = b""
    for _ in range(1000):
        for field in (6, 5, 1):
            body = bytes([field << 3 | 2]) + _varint(len(body)) + body
    _refused(b"\x08\x08" + b"\x3a" + _varint(len(body)) + body, "the given bytes: not an ONNX model")


def _varint(value: int) -> bytes:
    digits = []
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


# --- graphs ---


def test_subgraphs_nested_too_deeply() -> None:
    """Protobuf refuses to copy or to parse such a model, but one can be built in place."""
    model = _model(helper.make_node("Add", ["x", "w"], ["y"]), initializers=(_weights(),))
    node = model.graph.node[0]
    for _ in range(100):
        attribute = node.attribute.add(name="body", type=onnx.AttributeProto.GRAPH)
        node = attribute.g.node.add(op_type="If")
    _refused(model, "nest deeper than 64")


def test_recursive_function() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18, "l" : 1]> g (float[4] x) => (float[4] y) { y = l.f(x) }
        <domain: "l", opset_import: ["" : 18, "l" : 1]> f (x) => (y) { y = l.f(x) }"""
    )
    _refused(model, "is a function recursive")


def test_functions_that_multiply() -> None:
    """Each function calls the next one ten times: 10^12 nodes from 120."""
    parts = ["""<ir_version: 8, opset_import: ["" : 18, "l" : 1]> g (float[4] x) => (float[4] y) { y = l.f0(x) }"""]
    for level in range(12):
        called = f"l.f{level + 1}" if level < 11 else "Neg"
        chain = " ".join(f"t{i} = {called}({'x' if i == 0 else f't{i - 1}'})" for i in range(10))
        parts.append(f'<domain: "l", opset_import: ["" : 18, "l" : 1]> f{level} (x) => (t9) {{ {chain} }}')
    _refused(parser.parse_model("\n".join(parts)), "more than .* nodes once its functions are expanded")


def test_cycle() -> None:
    model = _model(helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Neg", ["a"], ["b"]))
    model.graph.node.append(helper.make_node("Neg", ["a"], ["y"]))
    _refused(model, "graph 'g' has a cycle, in which each node reads the next: Add 'a' → Neg 'b' → Add 'a'")
    _refused(
        _model(helper.make_node("Add", ["x", "z"], ["y"])), "reads 'z', which no input, initializer or node defines"
    )
    _refused(_model(helper.make_node("Add", ["x", "y"], ["y"], name="own")), "Add 'own' → Add 'own'")
    chain = [helper.make_node("Neg", [f"t{(i + 1) % 20}"], [f"t{i}"]) for i in range(20)]
    _refused(_model(*chain), "Neg 't0' → .* → Neg 't7' → 12 more → Neg 't0'")


def test_duplicate_names() -> None:
    twice = _model(initializers=(_weights(), _weights()))
    _refused(twice, "two initializers named 'w'")
    outputs = _model(initializers=(_weights(),))
    outputs.graph.output.append(outputs.graph.output[0])
    _refused(outputs, "two outputs named 'y'")
    inputs = _model(initializers=(_weights(),))
    inputs.graph.input.append(inputs.graph.input[0])
    _refused(inputs, "two inputs named 'x'")
    _refused(_model(helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])), "is defined already")


def test_a_name_of_a_dimension_that_is_no_text() -> None:
    data = _model(helper.make_node("Neg", ["x"], ["y"]))
    data.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "qqqq"
    _refused(data.SerializeToString().replace(b"qqqq", b"qq\xff\xfe"), "a dimension named .*, which is not UTF-8")


@pytest.mark.parametrize("name", ["a\0b", "a\nb", "\x1b[31m"])
def test_names_with_control_characters(name: str) -> None:
    _refused(_model(helper.make_node("Neg", ["x"], ["y"], name=name)), "control characters")
    _refused(
        _model(helper.make_node("Neg", ["x"], [name]), helper.make_node("Neg", [name], ["y"])), "control characters"
    )


def test_name_that_is_not_utf8() -> None:
    data = _model(helper.make_node("Neg", ["x"], ["y"], name="@@@@")).SerializeToString()
    _refused(data.replace(b"@@@@", b"\xff\xfe\xff\xfe"), "not UTF-8|not an ONNX model")


def test_unknown_opset_op_and_domain() -> None:
    model = _model(helper.make_node("Neg", ["x"], ["y"]))
    model.opset_import[0].version = 9999
    _refused(model, "ONNX opset 9999, which is not known")
    _refused(_model(helper.make_node("Frobnicate", ["x"], ["y"])), "ONNX has no op of this name")
    _refused(_model(helper.make_node("Neg", ["x"], ["y"], domain="acme")), "imports no opset for domain 'acme'")


# --- tensors ---


def _with_dims(*dims: int) -> onnx.ModelProto:
    return _model(initializers=(TensorProto(name="w", data_type=FLOAT, dims=dims, raw_data=bytes(16)),))


def test_raw_data_of_another_size() -> None:
    _refused(_with_dims(3), "has 16 bytes, not 12")
    _refused(_with_dims(1 << 40), "has 16 bytes")
    _refused(_with_dims(1 << 32, 1 << 32), "has 16 bytes")
    _refused(_with_dims(-1), "impossible dimensions")
    _refused(_with_dims(*[1] * 1000), "impossible dimensions")


def test_typed_data_of_another_size() -> None:
    tensor = TensorProto(name="w", data_type=FLOAT, dims=(1 << 40,), float_data=[1.0])
    _refused(_model(initializers=(tensor,)), "initializer 'w' is damaged")
    node = helper.make_node("Constant", [], ["y"], value=tensor)
    _refused(_model(node), "attribute 'value' is damaged")


def test_huge_inputs_and_results() -> None:
    model = _model(helper.make_node("Neg", ["x"], ["y"]))
    for dim in (1 << 62, 1 << 31):
        model.graph.input[0].type.CopyFrom(helper.make_tensor_type_proto(FLOAT, [dim, dim]))
        _refused(model, "bytes; the limit is 70,368,744,177,664")
    model.graph.input[0].type.CopyFrom(helper.make_tensor_type_proto(FLOAT, [1] * 1000))
    _refused(model, "1000 dimensions")
    shape = numpy_helper.from_array(np.array([1 << 30, 1 << 30], np.int64), "s")
    _refused(_model(helper.make_node("ConstantOfShape", ["s"], ["y"]), initializers=(shape,)), "is too large")


@pytest.mark.parametrize(
    "build",
    [
        lambda: helper.make_node("HannWindow", ["n"], ["y"]),
        lambda: helper.make_node("Range", ["z", "n", "d"], ["y"]),
        lambda: helper.make_node("Expand", ["d", "s"], ["y"]),
        lambda: helper.make_node("ConstantOfShape", ["s"], ["y"]),
        lambda: helper.make_node("MatMul", ["column", "row"], ["y"]),
    ],
    ids=lambda build: build().op_type,
)
def test_constants_that_grow(build: Callable[[], onnx.NodeProto]) -> None:
    """Folding does not compute a result of gigabytes from a few numbers; it is computed at run time or refused."""
    arrays = {"n": np.int64(1 << 33), "z": np.int64(0), "d": np.int64(1), "s": np.array([1 << 33], np.int64)}
    arrays |= {"column": np.ones((1 << 17, 1), np.float32), "row": np.ones((1, 1 << 17), np.float32)}
    node = build()
    held = tuple(numpy_helper.from_array(np.asarray(arrays[n]), n) for n in node.input)
    model = _model(node, initializers=held)
    del model.graph.input[:]
    try:
        import_model(model)
    except CompileError as error:
        assert "MemoryError" not in str(error)


def _sparse(dims: list[int], positions: list[int]) -> onnx.ModelProto:
    values = helper.make_tensor("w", FLOAT, [len(positions)], [1.0] * len(positions))
    indices = helper.make_tensor("i", TensorProto.INT64, [len(positions)], positions)
    model = _model()
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, dims))
    return model


def test_sparse_tensors() -> None:
    _refused(_sparse([1 << 40], [1]), "is too large")
    _refused(_sparse([1 << 31, 1 << 31], [1]), "is too large")
    _refused(_sparse([4], [7]), "an index is out of range")
    _refused(_sparse([4], [-1]), "an index is out of range")
    broken = _sparse([4], [1, 2])
    broken.graph.sparse_initializer[0].indices.dims[0] = 1
    _refused(broken, "damaged|do not fit")


def test_import_in_a_thread_with_a_small_stack() -> None:
    """Nesting is bounded well below what exhausts a stack."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            test_recursive_function()
        except BaseException as error:
            errors.append(error)

    threading.stack_size(1 << 20)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(0)
    assert not errors
