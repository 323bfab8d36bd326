"""Reads ONNX models: files, bytes or protos, with external data checked, and clear errors for anything else."""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillet.errors import CompileError
from rillet.frontends.onnx.node_order import is_sorted, sort_nodes

if TYPE_CHECKING:
    import onnx

Source = "str | os.PathLike[str] | bytes | onnx.ModelProto"
_MAX_FILE = (1 << 31) - 1  # protobuf's limit for one message
_MAX_DEPTH = 64  # nesting of subgraphs
_MAX_RANK = 64
_MAX_NODES = 200_000  # with functions expanded
# External data may be shared by tensors, but not so that a small file stands for any amount of memory.
_MAX_SHARING = 4
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def load_model(source: str | os.PathLike[str] | bytes | onnx.ModelProto) -> onnx.ModelProto:
    """The model in ``source``: a path, the bytes of a file, or a ModelProto (returned as it is, or as a copy).

    Nodes of graphs and functions that are in another order are sorted.

    Raises CompileError when it cannot be read, is not an ONNX model, has external data outside its folder, or holds
    tensors, names or a nesting that no valid model has.
    """
    import onnx

    if isinstance(source, onnx.ModelProto):
        _check(source, "the given ModelProto")
        return _sorted(source)
    if isinstance(source, bytes | bytearray | memoryview):
        model = _parse(bytes(source), "the given bytes")
        if next(_external(model), None) is not None:
            raise CompileError("the model keeps tensors in external files; pass its path, not its bytes")
    else:
        path = Path(source)
        model = _parse(_read(path), f"'{path}'")
        _load_external(model, path)
    for graph in _graphs(model):
        if not is_sorted(graph):
            sort_nodes(graph)
    return model


def _sorted(model: onnx.ModelProto) -> onnx.ModelProto:
    """The caller's model, or a copy of it in which each node is behind those that it reads."""
    if all(map(is_sorted, _graphs(model))):
        return model
    copy = type(model)()
    copy.CopyFrom(model)
    for graph in _graphs(copy):
        sort_nodes(graph)
    return copy


def _read(path: Path) -> bytes:
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise CompileError(f"'{path}' is not a regular file")
        if facts.st_size > _MAX_FILE:
            raise CompileError(
                f"'{path}' has {facts.st_size:,} bytes; an ONNX file has less than 2 GiB and keeps larger tensors in "
                "external files"
            )
        return path.read_bytes()
    except OSError as error:
        raise CompileError(f"cannot read '{path}': {error.strerror or error}") from error
    except ValueError as error:  # a NUL in the path
        raise CompileError(f"cannot read {str(path)!r}: {error}") from error


def _parse(data: bytes, what: str) -> onnx.ModelProto:
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    if not data:
        raise CompileError(f"{what}: empty, not an ONNX model")
    if data.startswith(b"RLM1"):
        raise CompileError(
            f"{what}: compiled already, so it can be run ('rillet run', rillet.load); give the model it came from"
        )
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError as error:
        raise CompileError(f"{what}: not an ONNX model, or truncated: {error}") from error
    _check(model, what)
    return model


def _check(model: onnx.ModelProto, what: str) -> None:
    import onnx

    if not model.HasField("graph") or not model.ir_version:
        raise CompileError(f"{what}: not an ONNX model: it has no graph")
    if not model.graph.output:
        raise CompileError(f"{what}: the graph has no outputs")
    newest = onnx.defs.onnx_opset_version()
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and not 1 <= opset.version <= newest:
            raise CompileError(
                f"{what}: the model uses ONNX opset {opset.version}, which is not known (newest known: {newest}); "
                "convert it with onnx.version_converter or update the onnx package"
            )
    for opset in (*model.opset_import, *(o for f in model.functions for o in f.opset_import)):
        if not 0 <= opset.version < 1 << 31:
            raise CompileError(
                f"{what}: the model uses opset {opset.version} of domain '{opset.domain}', which cannot be"
            )
    for graph in _graphs(model):
        _check_names(graph)
    for tensor in _tensors(model):
        _check_tensor(tensor)
    _check_expansion(model)


# --- names ---


def _check_names(graph: Any) -> None:
    """Refuse control characters in names, and two inputs, outputs or initializers of one name."""
    import onnx

    lists = {"node": [node.name for node in graph.node]}
    if isinstance(graph, onnx.GraphProto):
        for info in (*graph.input, *graph.output, *graph.value_info):
            for dim in info.type.tensor_type.shape.dim:
                _check_text(dim.dim_param, "dimension")
        lists["input"] = [i.name for i in graph.input]
        lists["output"] = [o.name for o in graph.output]
        lists["initializer"] = [t.name for t in graph.initializer]
        lists["initializer"] += [t.values.name for t in graph.sparse_initializer]
    else:
        lists["input"], lists["output"] = list(graph.input), list(graph.output)
    for kind, names in lists.items():
        for name in names:
            _check_text(name, kind)
        if kind != "node" and len(set(names)) != len(names):
            repeated = next(n for n in names if names.count(n) > 1)
            raise CompileError(f"graph '{graph.name}' has two {kind}s named '{repeated}'")
    for node in graph.node:
        for name in (*node.input, *node.output, node.op_type, node.domain):
            _check_text(name, "value" if name != node.op_type else "op")


def _check_text(name: str | bytes, kind: str) -> None:
    if isinstance(name, bytes):  # what protobuf gives for a string that is not UTF-8
        raise CompileError(f"the model has a {kind} named {name[:80]!r}, which is not UTF-8; rename it")
    if _CONTROL.search(name):
        raise CompileError(f"the model has a {kind} named {name[:80]!r}, with control characters; rename it")


# --- functions ---


def _check_expansion(model: onnx.ModelProto) -> None:
    """Refuse functions that call themselves, or that expand to too many nodes by calling each other."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    known: dict[tuple[str, str, str], int] = {}

    def count(graph: Any, depth: int) -> int:
        if depth > _MAX_DEPTH:
            raise CompileError(f"functions and subgraphs nest deeper than {_MAX_DEPTH}; is a function recursive?")
        total = 0
        for node in graph.node:
            key = (node.domain, node.op_type, node.overload)
            if key in functions and key not in known:
                known[key] = count(functions[key], depth + 1)
            total += 1 + known.get(key, 0)
            for attribute in node.attribute:
                inner = [attribute.g] if attribute.HasField("g") else []
                total += sum(count(g, depth + 1) for g in (*inner, *attribute.graphs))
        return total

    if count(model.graph, 0) > _MAX_NODES:
        raise CompileError(f"the model has more than {_MAX_NODES:,} nodes once its functions are expanded")


# --- tensors ---


def _graphs(model: onnx.ModelProto) -> Iterator[Any]:
    """The graphs and functions of a model, subgraphs included."""
    pending: list[tuple[Any, int]] = [(model.graph, 0), *((f, 0) for f in model.functions)]
    while pending:
        graph, depth = pending.pop()
        if depth > _MAX_DEPTH:
            raise CompileError(f"the model's subgraphs nest deeper than {_MAX_DEPTH}")
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    pending.append((attribute.g, depth + 1))
                pending.extend((inner, depth + 1) for inner in attribute.graphs)


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of a model: initializers and attributes, sparse ones' parts, in functions and subgraphs too."""
    import onnx

    for graph in _graphs(model):
        if isinstance(graph, onnx.GraphProto):
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors
                for sparse in (
                    *([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else ()),
                    *attribute.sparse_tensors,
                ):
                    yield from (sparse.values, sparse.indices)


def _check_tensor(tensor: onnx.TensorProto) -> None:
    """Require possible dimensions and ``raw_data`` of their size; reading the tensor checks the rest."""
    what = f"tensor '{tensor.name}'"
    dims = list(tensor.dims)
    if len(dims) > _MAX_RANK or any(d < 0 for d in dims):
        raise CompileError(f"{what} has impossible dimensions {dims[:8]}")
    if tensor.HasField("raw_data") and not _is_external(tensor):
        expected = _byte_count(tensor)
        if expected is not None and len(tensor.raw_data) != expected:
            raise CompileError(
                f"{what} of shape {dims} is damaged: it has {len(tensor.raw_data)} bytes, not {expected}"
            )


def _byte_count(tensor: onnx.TensorProto) -> int | None:
    """The bytes that the tensor's raw data must have; None for types without raw data."""
    from rillet.ir import dtypes

    count = math.prod(tensor.dims)
    if tensor.data_type not in dtypes.by_code:
        return None
    name = dtypes.by_code[tensor.data_type].name
    if name in _SUB_BYTE:
        return -(-count // _SUB_BYTE[name])
    return count * dtypes.by_code[tensor.data_type].bits // 8


_SUB_BYTE = {"int4": 2, "uint4": 2, "float4_e2m1fn": 2, "int2": 4, "uint2": 4}  # elements in a byte


# --- external data ---


def _is_external(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location == 1  # TensorProto.EXTERNAL


def _external(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    return (tensor for tensor in _tensors(model) if _is_external(tensor))


def _load_external(model: onnx.ModelProto, path: Path) -> None:
    """Read external tensors into the model.

    Its folder is the one that ``path`` names. Where that is a link, the folder that it leads to counts as well: Hugging
    Face's cache links the model and its data, each by itself, into one folder of blobs.
    """
    folders = list(dict.fromkeys([path.parent.resolve(), path.resolve().parent]))
    read: dict[str, int] = {}
    for tensor in _external(model):
        facts = {entry.key: entry.value for entry in tensor.external_data}
        location = facts.get("location", "")
        source = _located(folders, location, tensor.name)
        try:
            with open(source, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                offset, length = _span(tensor, facts, size)
                read[location] = read.get(location, 0) + length
                if read[location] > _MAX_SHARING * size:
                    raise CompileError(
                        f"the tensors in external file '{location}' overlap: they have many times its size"
                    )
                file.seek(offset)
                data = file.read(length)
        except OSError as error:
            raise CompileError(f"cannot read external file '{location}': {error.strerror or error}") from error
        tensor.raw_data = data
        del tensor.external_data[:]
        tensor.data_location = 0  # TensorProto.DEFAULT: the bytes are in raw_data now
        _check_tensor(tensor)


def _span(tensor: onnx.TensorProto, facts: dict[str, str], size: int) -> tuple[int, int]:
    """Offset and length of a tensor in its file of ``size`` bytes."""
    where = f"tensor '{tensor.name}' in external file '{facts['location']}'"
    try:
        offset = int(facts.get("offset", "0"))
        length = int(facts["length"]) if "length" in facts else _byte_count(tensor)
    except ValueError as error:
        raise CompileError(f"{where} has an offset or length that is not a number") from error
    if length is None:
        raise CompileError(f"{where} is of a type that external data cannot hold")
    if offset < 0 or length < 0 or offset + length > size:
        raise CompileError(f"{where} takes bytes {offset} to {offset + length}, but the file has {size}")
    expected = _byte_count(tensor)
    if expected is not None and length != expected:
        raise CompileError(f"{where} of shape {list(tensor.dims)} has length {length}, not {expected}")
    return offset, length


def _located(folders: Sequence[Path], location: str, name: str) -> Path:
    """The external file, in one of the model's ``folders`` or below; links may lead from one place in there to another.

    Raises CompileError for anything else.
    """
    where = f"tensor '{name}' has external data in '{location}'"
    _check_text(location, "external file")
    target = Path(location)
    if not location or target.is_absolute() or ".." in target.parts:
        raise CompileError(f"{where}, outside the model's folder; keep it next to the model")
    found = next((folder / target for folder in folders if (folder / target).exists()), None)
    if found is None:
        raise CompileError(f"{where}, which does not exist")
    real = found.resolve()
    if not any(real.is_relative_to(folder) for folder in folders):
        raise CompileError(
            f"{where}, a link that leads to '{real}', outside the model's folder; put the file itself next to the model"
        )
    if not real.is_file():
        raise CompileError(f"{where}, which is not a regular file")
    return real
