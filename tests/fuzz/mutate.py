"""Mutations of protobuf messages: of their fields, found by reflection, and of their bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    12,
    16,
    100,
    255,
    1 << 16,
    (1 << 31) - 1,
    -(1 << 31),
    1 << 40,
    (1 << 63) - 1,
    -(1 << 63),
)
_REALS = (0.0, -1.0, 0.5, 1e30, float("inf"), float("-inf"), float("nan"), 1e-45)
_TEXTS = ("", "x", "y", "\0", "a\nb", "é", "..", "/etc/passwd", "x" * 3000, "ai.onnx", "ai.onnx.ml", "N")
_OPS = sorted({schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""})
_INT = (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64)


def mutant(model: onnx.ModelProto, rng: np.random.Generator) -> bytes:
    """The bytes of ``model`` after one to four mutations."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for _ in range(int(rng.integers(1, 5))):
        if rng.random() < 0.85:
            _mutate_message(copy, rng)
    data = copy.SerializeToString()
    return _mutate_bytes(data, rng) if rng.random() < 0.25 else data


def _mutate_message(root: onnx.ModelProto, rng: np.random.Generator) -> None:
    messages = list(_messages(root))
    message = messages[int(rng.integers(len(messages)))]
    fields = message.DESCRIPTOR.fields
    present = [f for f, _ in message.ListFields()]
    field = _pick(present if present and rng.random() < 0.85 else fields, rng)
    if field.name == "op_type" or (field.name == "node" and rng.random() < 0.2):
        nodes = [m for m in messages if isinstance(m, onnx.NodeProto)]
        _pick(nodes or [onnx.NodeProto()], rng).op_type = _pick(_OPS, rng)
        return
    if field.is_repeated:
        _mutate_repeated(message, field, rng, messages)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        _mutate_submessage(message, field, rng, messages)
    elif rng.random() < 0.1:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _scalar(field, rng, messages))


def _messages(message: Message) -> list[Message]:
    found, pending = [], [message]
    while pending:
        current = pending.pop()
        found.append(current)
        for field, value in current.ListFields():
            if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
                pending.extend(value if field.is_repeated else [value])
    return found


def _mutate_repeated(
    message: Message, field: FieldDescriptor, rng: np.random.Generator, messages: list[Message]
) -> None:
    items = getattr(message, field.name)
    choice = rng.random()
    if len(items) and choice < 0.25:
        del items[int(rng.integers(len(items)))]
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        added = items.add()
        same = [m for m in messages if type(m) is type(added)]
        if same:
            copied = type(added)()  # first: what is copied may contain the list
            copied.CopyFrom(_pick(same, rng))
            added.CopyFrom(copied)
    elif len(items) and choice < 0.75:
        items[int(rng.integers(len(items)))] = _scalar(field, rng, messages)
    else:
        items.insert(int(rng.integers(len(items) + 1)), _scalar(field, rng, messages))


def _mutate_submessage(
    message: Message, field: FieldDescriptor, rng: np.random.Generator, messages: list[Message]
) -> None:
    if rng.random() < 0.4:
        message.ClearField(field.name)
        return
    target = getattr(message, field.name)
    same = [m for m in messages if type(m) is type(target) and m is not target]
    if same:
        copied = type(target)()
        copied.CopyFrom(_pick(same, rng))
        target.CopyFrom(copied)


def _scalar(field: FieldDescriptor, rng: np.random.Generator, messages: list[Message]) -> Any:
    kind = field.cpp_type
    if kind in _INT:
        return abs(_pick(_INTEGERS, rng)) if kind == FieldDescriptor.CPPTYPE_UINT64 else int(_pick(_INTEGERS, rng))
    if kind == FieldDescriptor.CPPTYPE_INT32:
        return int(rng.choice([0, 1, 7, 9, 10, 11, 16, 22, 23, 99, -1, -(1 << 31)]))
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return (
            int(rng.integers(0, 15))
            if field.enum_type.is_closed is False
            else _pick(field.enum_type.values, rng).number
        )
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return _pick(_REALS, rng)
    text = _text(rng, messages)
    return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text


def _text(rng: np.random.Generator, messages: list[Message]) -> str:
    """A name that occurs in the model, mostly: swapped names make cycles, duplicates and other types."""
    nodes = [m for m in messages if isinstance(m, onnx.NodeProto)]
    names = [n for node in nodes for n in (*node.input, *node.output)]
    return _pick(names, rng) if names and rng.random() < 0.6 else _pick(_TEXTS, rng)


def _mutate_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    array = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        if not array:
            break
        at, kind = int(rng.integers(len(array))), int(rng.integers(5))
        if kind == 0:
            array[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            array[at] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF]))
        elif kind == 2:
            del array[at : at + int(rng.integers(1, 20))]
        elif kind == 3:
            array[at:at] = array[at : at + int(rng.integers(1, 40))]
        else:
            del array[at:]
    return bytes(array)


def _pick(choices: Any, rng: np.random.Generator) -> Any:
    return choices[int(rng.integers(len(choices)))]
