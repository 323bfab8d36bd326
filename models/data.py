"""Inputs for the models: seeded noise for the generated ones; text, files, sound, pictures for the others."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import onnx

from models.fetch import fetch
from models.picture import PICTURES, preprocess
from models.sound import frames, scene
from models.tokenizer import WordPiece

SENTENCES = (
    "A man is playing a guitar on the street.",
    "Someone strums an acoustic guitar outdoors.",
    "The central bank raised interest rates again.",
    "Borrowing costs went up after the bank's decision.",
    "How do I bake sourdough bread at home?",
    "A recipe for homemade bread with natural yeast.",
    "The cat sleeps on the warm windowsill.",
    "A kitten is napping in the sun by the window.",
)
"""Pairs of sentences that mean nearly the same: 0–1, 2–3, 4–5, 6–7."""

SNIPPETS = (
    b"import os\n\n\ndef walk(root):\n    for path, _, names in os.walk(root):\n        yield path, sorted(names)\n",
    b'#include <stdio.h>\n\nint main(int argc, char **argv) {\n  printf("%d\\n", argc);\n  return 0;\n}\n',
    b'{"name": "rillet", "version": "0.1.0", "nested": {"a": [1, 2, 3], "b": null}}\n',
    b"<!DOCTYPE html>\n<html><head><title>A page</title></head>\n<body><h1>Hello</h1><p>Some text.</p></body></html>\n",
)
"""Small files for the file type classifier: Python, C, JSON, HTML."""


def random_inputs(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    """Float32 inputs get blotched noise, int64 ones named ``*mask`` a prefix of ones, others ids below 30,000."""
    rng = np.random.default_rng(seed)
    values: dict[str, np.ndarray] = {}
    for info in model.graph.input:
        shape = tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim)
        if info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            values[info.name] = _blotched_noise(rng, shape)
        elif info.name.endswith("mask"):
            length = rng.integers(shape[-1] // 2, shape[-1] + 1)
            values[info.name] = np.broadcast_to(np.arange(shape[-1]) < length, shape).astype(np.int64)
        else:
            values[info.name] = rng.integers(1000, 30000, shape)
    return values


def _blotched_noise(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normal noise plus, for images, coarse blotches: global pooling would average plain noise to nearly one value."""
    noise = rng.standard_normal(shape, dtype=np.float32)
    if len(shape) != 4:
        return noise
    rows, columns = (np.arange(size) * 4 // size for size in shape[2:])
    return (
        np.float32(0.6) * noise
        + rng.standard_normal((*shape[:2], 4, 4), dtype=np.float32)[:, :, rows[:, None], columns]
    )


def text_inputs(texts: Sequence[str]) -> dict[str, np.ndarray]:
    """MiniLM's three int64 inputs [batch, sequence] for a batch of texts."""
    return WordPiece.from_file(fetch("minilm_tokenizer.json")).batch(texts)


def sentence_embeddings(last_hidden_state: np.ndarray, attention_mask: np.ndarray) -> np.ndarray:
    """Unit vectors [batch, 384]: the mean over unmasked positions, as the sentence-transformers model pools."""
    weights = attention_mask[..., None].astype(np.float32)
    mean = (last_hidden_state * weights).sum(1) / weights.sum(1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def file_features(contents: Sequence[bytes]) -> dict[str, np.ndarray]:
    """Magika's input, int32 [batch, 2048]: the first and last 1,024 bytes of the stripped content, padded with 256.

    At most one block of 4,096 bytes is read at either end and stripped of white space; the sizes come from the
    model's own configuration file.
    """
    config = magika_config()
    begin, end, block, pad = (config[key] for key in ("beg_size", "end_size", "block_size", "padding_token"))
    rows = np.full((len(contents), begin + end), pad, np.int32)
    for row, content in zip(rows, contents, strict=True):
        whole = len(content) <= block
        head = np.frombuffer(content.strip() if whole else content[:block].lstrip(), np.uint8)[:begin]
        tail = np.frombuffer(content.strip() if whole else content[-block:].rstrip(), np.uint8)[-end:]
        row[: head.size] = head
        row[row.size - tail.size :] = tail
    return {"bytes": rows}


def magika_config() -> dict:
    """Magika's configuration: feature sizes and the list of labels (`target_labels_space`)."""
    return json.loads(fetch("magika.json").read_text())


def sound_inputs(name: str, seed: int) -> dict[str, np.ndarray]:
    """The voice detector's inputs with a zero state: a synthesized scene, or one of its windows for the step model.

    The scene's length varies with the seed.
    """
    windows = frames(scene(seed)[0])[7 * seed % 100 :]
    if name == "silero_vad_step":
        return {"input": windows[70:71], "state": np.zeros((2, 1, 128), np.float32)}
    return {"input": windows, "h": np.zeros((1, 1, 128), np.float32), "c": np.zeros((1, 1, 128), np.float32)}


def pretrained_inputs(name: str, seed: int, batch: int) -> dict[str, np.ndarray]:
    """Inputs of one pretrained model; `seed` selects the sentence, file, sound or picture to begin with."""
    if name == "minilm":
        return text_inputs([SENTENCES[(seed + i) % len(SENTENCES)] for i in range(batch)])
    if name == "magika":
        return file_features([SNIPPETS[(seed + i) % len(SNIPPETS)] for i in range(batch)])
    if name == "efficientnet_lite0":
        return {"x": preprocess(list(PICTURES.values())[seed % len(PICTURES)]())}
    return sound_inputs(name, seed)
