"""Reads ONNX models: files, bytes or protos, with external data checked, and clear errors for anything else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rillet.errors import CompileError

if TYPE_CHECKING:
    import onnx

Source = "str | os.PathLike[str] | bytes | onnx.ModelProto"


def load_model(source: str | os.PathLike[str] | bytes | onnx.ModelProto) -> onnx.ModelProto:
    """The model in ``source``: a path, the bytes of a file, or a ModelProto (returned as it is).

    Raises CompileError when it cannot be read, is not an ONNX model, or has external data outside its folder.
    """
    import onnx

    if isinstance(source, onnx.ModelProto):
        _check(source, "the model")
        return source
    if isinstance(source, bytes | bytearray | memoryview):
        model = _parse(bytes(source), "the given bytes")
        if _external(model):
            raise CompileError("the model keeps tensors in external files; pass its path, not its bytes")
        return model
    path = Path(source)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CompileError(f"cannot read '{path}': {error.strerror or error}") from error
    model = _parse(data, f"'{path}'")
    if _external(model):
        _load_external(model, path)
    return model


def _parse(data: bytes, what: str) -> onnx.ModelProto:
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    if not data:
        raise CompileError(f"{what} is empty, not an ONNX model")
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError as error:
        raise CompileError(f"{what} is not an ONNX model, or is truncated: {error}") from error
    _check(model, what)
    return model


def _check(model: onnx.ModelProto, what: str) -> None:
    import onnx

    if not model.HasField("graph") or not model.ir_version:
        raise CompileError(f"{what} is not an ONNX model: it has no graph")
    if not model.graph.output:
        raise CompileError(f"{what} has a graph without outputs")
    newest = onnx.defs.onnx_opset_version()
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and not 1 <= opset.version <= newest:
            raise CompileError(
                f"{what} uses ONNX opset {opset.version}, which is not known (newest known: {newest}); "
                "convert it with onnx.version_converter or update the onnx package"
            )


def _external(model: onnx.ModelProto) -> bool:
    from onnx.external_data_helper import _get_all_tensors, uses_external_data

    return any(uses_external_data(tensor) for tensor in _get_all_tensors(model))


def _load_external(model: onnx.ModelProto, path: Path) -> None:
    """Load external tensors; onnx refuses absolute paths, ``..`` and links, and this names the tensor."""
    from onnx.external_data_helper import _get_all_tensors, load_external_data_for_tensor, uses_external_data

    folder = path.resolve().parent
    for tensor in _get_all_tensors(model):
        if not uses_external_data(tensor):
            continue
        location = next((e.value for e in tensor.external_data if e.key == "location"), "")
        _check_location(folder, location, tensor.name)
        try:
            load_external_data_for_tensor(tensor, str(folder))
        except Exception as error:  # onnx raises its own, protobuf's and OS errors here
            raise CompileError(
                f"cannot load tensor '{tensor.name}' from external file '{location}': {error}"
            ) from error
        del tensor.external_data[:]
        tensor.data_location = 0  # TensorProto.DEFAULT: the bytes are in raw_data now


def _check_location(folder: Path, location: str, name: str) -> None:
    where = f"tensor '{name}' has external data in '{location}'"
    target = Path(location)
    if not location or target.is_absolute() or ".." in target.parts:
        raise CompileError(f"{where}, outside the model's folder; keep it next to the model")
    full = folder / target
    walked = folder
    for part in target.parts:
        walked = walked / part
        if walked.is_symlink():
            raise CompileError(f"{where}, reached through a symbolic link; put the file itself next to the model")
    if not full.is_file():
        raise CompileError(f"{where}, which does not exist")
    if full.stat().st_nlink > 1:
        raise CompileError(f"{where}, which is a hard link; put a copy next to the model")
