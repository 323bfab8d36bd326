"""BERT's uncased WordPiece tokenizer (Devlin et al. 2018): lower case, accents stripped, longest match first."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np

_LONGEST_WORD = 100
_CJK = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0xF900, 0xFAFF), (0x20000, 0x2FA1F))


class WordPiece:
    """Turns text into the ids of a vocabulary that marks word continuations with ``##``."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self._ids = vocabulary
        self._unknown, self._start, self._end = (vocabulary[token] for token in ("[UNK]", "[CLS]", "[SEP]"))

    @classmethod
    def from_file(cls, path: Path) -> WordPiece:
        """Reads the vocabulary out of a Hugging Face ``tokenizer.json``."""
        return cls(json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"])

    def encode(self, text: str) -> list[int]:
        """``[CLS] pieces [SEP]``."""
        return [self._start, *(piece for word in _words(text) for piece in self._pieces(word)), self._end]

    def batch(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
        """`input_ids`, `attention_mask` and `token_type_ids`, each int64 [len(texts), longest], padded with 0."""
        rows = [self.encode(text) for text in texts]
        shape = (len(rows), max(map(len, rows)))
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
            mask[index, : len(row)] = 1
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros(shape, np.int64)}

    def _pieces(self, word: str) -> list[int]:
        if len(word) > _LONGEST_WORD:
            return [self._unknown]
        pieces: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            end = next((e for e in range(len(word), start, -1) if prefix + word[start:e] in self._ids), None)
            if end is None:
                return [self._unknown]
            pieces.append(self._ids[prefix + word[start:end]])
            start = end
        return pieces


def _is_punctuation(char: str) -> bool:
    ascii_symbol = char.isascii() and not char.isalnum() and char.isprintable() and char != " "
    return ascii_symbol or unicodedata.category(char).startswith("P")


def _words(text: str) -> list[str]:
    """Lower-cased words and single punctuation marks."""
    decomposed = unicodedata.normalize("NFD", text.lower())
    spaced: list[str] = []
    for char in decomposed:
        category = unicodedata.category(char)
        if char.isspace():
            spaced.append(" ")
        elif category == "Mn" or category.startswith("C") or char == "\ufffd":
            continue
        elif _is_punctuation(char) or any(low <= ord(char) <= high for low, high in _CJK):
            spaced.append(f" {char} ")
        else:
            spaced.append(char)
    return "".join(spaced).split()
