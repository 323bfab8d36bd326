"""Inputs of the pretrained models: tokenizer, file features, sound, pictures, and the state dict reader. No network."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from models import data, sound
from models.picture import CLASSES, PICTURES, preprocess
from models.tokenizer import WordPiece
from models.torch_weights import read_state_dict

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "cafe", ",", "!", "日", "the"]


@pytest.fixture
def tokenizer() -> WordPiece:
    return WordPiece({token: index for index, token in enumerate(VOCABULARY)})


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("unaffable", ["un", "##aff", "##able"]),
        ("The  CAFÉ!", ["the", "cafe", "!"]),
        ("the日the", ["the", "日", "the"]),
        ("the,zzz", ["the", ",", "[UNK]"]),
        ("un\u200baff", ["un", "##aff"]),
        ("x" * 101, ["[UNK]"]),
        ("", []),
    ],
)
def test_word_pieces(tokenizer: WordPiece, text: str, tokens: list[str]) -> None:
    assert [VOCABULARY[i] for i in tokenizer.encode(text)] == ["[CLS]", *tokens, "[SEP]"]


def test_batch_is_padded_and_masked(tokenizer: WordPiece) -> None:
    batch = tokenizer.batch(["the", "unaffable !"])
    assert batch["input_ids"].tolist() == [[2, 11, 3, 0, 0, 0], [2, 4, 5, 6, 9, 3]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0, 0], [1] * 6]
    assert all(value.dtype == np.int64 for value in batch.values())


def test_vocabulary_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    vocabulary = {token: index for index, token in enumerate(VOCABULARY)}
    path.write_text(json.dumps({"model": {"vocab": vocabulary}}), encoding="utf-8")
    assert WordPiece.from_file(path).encode("the") == [2, 11, 3]


def test_sentence_embeddings_ignore_padding() -> None:
    hidden = np.array([[[3.0, 0.0], [0.0, 4.0], [9.0, 9.0]]], np.float32)
    vectors = data.sentence_embeddings(hidden, np.array([[1, 1, 0]]))
    np.testing.assert_allclose(vectors, [[0.6, 0.8]], rtol=1e-6)


def test_file_features(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"beg_size": 4, "end_size": 4, "block_size": 8, "padding_token": 256}
    monkeypatch.setattr(data, "magika_config", lambda: config)
    rows = data.file_features([b" ab\n", b"  cdefghijkl \n", b""])["bytes"]
    assert rows.dtype == np.int32
    assert rows[0].tolist() == [97, 98, 256, 256, 256, 256, 97, 98]
    assert bytes(rows[1, :4].tolist()) == b"cdef" and bytes(rows[1, 4:].tolist()) == b"ijkl"
    assert rows[2].tolist() == [256] * 8


def test_scene_is_seeded_and_framed_with_context() -> None:
    signal, segments = sound.scene(5)
    assert np.array_equal(signal, sound.scene(5)[0]) and not np.array_equal(signal, sound.scene(6)[0])
    assert signal.dtype == np.float32 and np.abs(signal).max() <= 1
    assert signal.size == round(segments[-1][1] * sound.SAMPLE_RATE)
    windows = sound.frames(signal)
    assert windows.shape == (signal.size // 512, 576)
    assert np.array_equal(windows[1, :64], windows[0, -64:]) and not windows[0, :64].any()
    assert np.array_equal(windows[1, 64:], signal[512:1024])


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_valid(name: str) -> None:
    pixels = PICTURES[name]()
    x = preprocess(pixels)
    assert x.shape == (1, 3, 224, 224) and x.dtype == np.float32 and np.abs(x).max() <= 1.01 and x.std() > 0.1
    assert np.array_equal(pixels, PICTURES[name]()) and name in CLASSES.values()


def _state_dict(tensor_call: bytes, storage: bytes, count: int) -> bytes:
    """A state dict file with one entry "w", whose value is the given pickle opcodes."""
    head = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + pickle.dumps({"little_endian": True}, 2)
    body = b"\x80\x02ccollections\nOrderedDict\n)R(X\x01\x00\x00\x00w" + tensor_call + b"u."
    return head + body + pickle.dumps(["7"], 2) + struct.pack("<q", count) + storage


def _tensor(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> bytes:
    """Opcodes of ``torch._utils._rebuild_tensor_v2(storage "7", offset, shape, strides)``."""

    def tuple_of(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(b"K" + bytes([value]) for value in values) + b"t"

    def text(value: str) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("7") + text("cpu") + b"K\x06N" + b"tQ"
    arguments = b"(" + storage + b"K" + bytes([offset]) + tuple_of(shape) + tuple_of(strides) + b"\x89N" + b"t"
    return b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"R"


def test_state_dict_is_read_with_offsets_and_strides(tmp_path: Path) -> None:
    path = tmp_path / "w.pth"
    path.write_bytes(_state_dict(_tensor((2, 2), (1, 2), offset=1), np.arange(6, dtype="<f4").tobytes(), 6))
    assert read_state_dict(path)["w"].tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a readable PyTorch state dict"),
        (pickle.dumps(5, 2) * 2, "magic number or protocol differs"),
        (_state_dict(_tensor((2, 2), (2, 1)), b"\0" * 8, 6), "ends inside a storage"),
        (_state_dict(_tensor((4, 2), (2, 1)), b"\0" * 24, 6), "does not lie inside its storage"),
        (_state_dict(b"cos\nsystem\n(X\x04\x00\x00\x00truetR", b"\0" * 24, 6), "refers to os.system"),
    ],
)
def test_bad_state_dicts_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.pth"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_state_dict(path)
